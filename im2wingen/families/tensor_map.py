"""What a tensor map says: an array as a tensor, and the box of it that one TMA instruction copies."""

from dataclasses import dataclass

from im2wingen.dtypes import STORAGE_DTYPE, ElementType

_ELEMENTS = ("fp32", "tf32", "fp16", "bf16", "int8", "e4m3", "e5m2", "int32")
_STEP_BYTES = 16  # of addresses, of strides and of a box's rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """A tensor inside the array named `array`, innermost dimension first, and the box that is copied at once.

    Loads fill zeros for what lies outside the tensor, stores leave it out; elements of the innermost dimension are
    neighbours. ValueError for what the driver would not encode (cuTensorMapEncodeTiled in the driver API's manual).
    """

    array: str  # an argument's name
    element: ElementType
    offset_bytes: int = 0  # of the tensor's first element in the array
    dims: tuple[int, ...]  # 3 to 5, in elements
    strides_bytes: tuple[int, ...]  # of every dimension but the innermost
    box: tuple[int, ...]  # in elements
    swizzle_bytes: int  # 0: none, 32, 64 or 128
    l2_promotion_bytes: int = 0  # what a load brings to L2 around the bytes that it needs: 0, 64, 128 or 256

    def __post_init__(self) -> None:
        if (broken := self._broken_demand()) is not None:
            raise ValueError(f"tensor map of {self.array}: {broken}")

    @property
    def element_bytes(self) -> int:
        return STORAGE_DTYPE[self.element].itemsize

    @property
    def box_row_bytes(self) -> int:
        """Bytes of a box along the innermost dimension."""
        return self.box[0] * self.element_bytes

    def _broken_demand(self) -> str | None:
        """The first demand that is not met, as a sentence."""
        rank = len(self.dims)
        if self.element not in _ELEMENTS:
            return f"element is {self.element!r}; allowed are {', '.join(_ELEMENTS)}"
        if not 3 <= rank <= 5:
            return f"{rank} dimensions; allowed are 3 to 5"
        if len(self.strides_bytes) != rank - 1 or len(self.box) != rank:
            return f"{rank} dimensions need {rank - 1} strides and a box of {rank}"
        if not all(1 <= size <= 2**32 for size in self.dims):
            return f"dims are {self.dims}; each must be 1 to 2^32"
        if not all(0 < stride < 2**40 and stride % _STEP_BYTES == 0 for stride in self.strides_bytes):
            return f"strides are {self.strides_bytes} bytes; each must be a multiple of 16 below 2^40"
        if self.offset_bytes < 0 or self.offset_bytes % _STEP_BYTES:
            return f"offset is {self.offset_bytes} bytes; it must be a multiple of 16"
        if not all(1 <= size <= 256 for size in self.box):
            return f"box is {self.box}; each side must be 1 to 256"
        if self.box_row_bytes % _STEP_BYTES:
            return f"a box's row has {self.box_row_bytes} bytes; it must be a multiple of 16"
        if self.swizzle_bytes not in (0, 32, 64, 128):
            return f"swizzle is {self.swizzle_bytes} bytes; allowed are 0, 32, 64, 128"
        if self.swizzle_bytes and self.box_row_bytes > self.swizzle_bytes:
            return f"a box's row has {self.box_row_bytes} bytes, more than the swizzle's {self.swizzle_bytes}"
        if self.l2_promotion_bytes not in (0, 64, 128, 256):
            return f"L2 promotion is {self.l2_promotion_bytes} bytes; allowed are 0, 64, 128, 256"
        return None
