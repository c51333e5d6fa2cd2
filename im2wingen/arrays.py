"""GPU arrays of other libraries, read without a copy: PyTorch, CuPy, exporters of DLPack or CUDA's array interface."""

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from im2wingen.errors import ArrayError

LEGACY_STREAM = 1  # CU_STREAM_LEGACY, also DLPack's number for the default stream
_CUDA_KINDS = (2, 13)  # DLDeviceType: CUDA, managed memory
_ALLOWED = "a GPU array of PyTorch or CuPy, or one that exports DLPack or __cuda_array_interface__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """What an array looks like: strides count elements, `device` is its CUDA ordinal or None in host memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str  # as NumPy or PyTorch name it: float16, bfloat16, float32, int8, float8_e4m3fn
    device: int | None
    readonly: bool = False


class Framework(Protocol):
    """How one library's arrays are read and made. Methods take `Any`: the library itself is never imported here."""

    @property
    def name(self) -> str: ...

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        """The object that the other methods read; ordered behind its producer on `stream`. ArrayError names `role`."""

    def signature(self, adopted: Any) -> Hashable:
        """Cheap; equal for arrays whose facts are equal."""

    def pointer(self, adopted: Any) -> int: ...

    def facts(self, adopted: Any) -> ArrayFacts: ...

    def current_stream(self, device: int) -> int: ...

    def empty(
        self, like: Any, shape: tuple[int, ...], channels_last: bool, stream: int, dtype: str | None = None
    ) -> Any:
        """A new array of `like`'s type and device; [N,K,P,Q] with the strides of NPQK where `channels_last`.

        `dtype` as facts name it; None: that of `like`.
        """

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        """Uninitialised bytes, 256-byte aligned, alive as long as the object and then reusable in stream order."""


class TorchFramework:
    """torch.Tensor; no gradient flows through im2wingen, so a tensor that asks for one is refused in grad mode."""

    name = "PyTorch"

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        if array.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise ArrayError(
                f"{role} requires a gradient and im2wingen computes none; "
                f"call it under torch.no_grad() or pass {role}.detach()"
            )
        return array

    def signature(self, adopted: Any) -> Hashable:
        return adopted.shape, adopted.stride(), adopted.dtype, adopted.device

    def pointer(self, adopted: Any) -> int:
        return int(adopted.data_ptr())

    def facts(self, adopted: Any) -> ArrayFacts:
        return ArrayFacts(
            shape=tuple(adopted.shape),
            strides=tuple(adopted.stride()),
            dtype=str(adopted.dtype).removeprefix("torch."),
            device=adopted.device.index if adopted.device.type == "cuda" else None,
        )

    def current_stream(self, device: int) -> int:
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)

    def empty(
        self, like: Any, shape: tuple[int, ...], channels_last: bool, stream: int, dtype: str | None = None
    ) -> Any:
        torch = sys.modules["torch"]
        order = torch.channels_last if channels_last else torch.contiguous_format
        wanted = like.dtype if dtype is None else getattr(torch, dtype)
        return torch.empty(shape, dtype=wanted, device=like.device, memory_format=order)

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(n_bytes, dtype=torch.uint8, device=like.device)


class CupyFramework:
    """cupy.ndarray."""

    name = "CuPy"

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        return array

    def signature(self, adopted: Any) -> Hashable:
        return adopted.shape, adopted.strides, adopted.dtype, adopted.data.device_id

    def pointer(self, adopted: Any) -> int:
        return int(adopted.data.ptr)

    def facts(self, adopted: Any) -> ArrayFacts:
        item = adopted.dtype.itemsize
        return ArrayFacts(
            shape=tuple(adopted.shape),
            strides=tuple(s // item for s in adopted.strides),
            dtype=str(adopted.dtype),
            device=int(adopted.data.device_id),
        )

    def current_stream(self, device: int) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(device).ptr)

    def empty(
        self, like: Any, shape: tuple[int, ...], channels_last: bool, stream: int, dtype: str | None = None
    ) -> Any:
        cupy = sys.modules["cupy"]
        wanted = dtype or like.dtype
        with cupy.cuda.Device(like.data.device_id):
            if not channels_last:
                return cupy.empty(shape, dtype=wanted)
            n, k, p, q = shape
            return cupy.empty((n, p, q, k), dtype=wanted).transpose(0, 3, 1, 2)

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.data.device_id):
            return cupy.empty(n_bytes, dtype="uint8")


class DeviceArray:
    """A GPU array that im2wingen allocated for a library that it has no allocator of.

    Exports DLPack and, but for bfloat16, `__cuda_array_interface__`, so that any library takes it over without a copy.
    It was written on CUDA's legacy default stream.
    """

    def __init__(self, view: Any) -> None:
        self._view = view
        self.ptr = int(view.ptr)
        self.shape: tuple[int, ...] = tuple(view.shape)
        self.dtype: np.dtype[Any] = view.dtype

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self._view.device_id})"

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self.dtype.kind == "V" or self.dtype.name == "bfloat16":
            raise AttributeError("__cuda_array_interface__ can't express bfloat16; use DLPack")
        strides = None if self._view.strides is None else tuple(s * self.dtype.itemsize for s in self._view.strides)
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.ptr, False),
            "strides": strides, "version": 3, "stream": LEGACY_STREAM,
        }  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, ordinal = self._view.__dlpack_device__()
        return int(kind), int(ordinal)

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """The capsule; the consumer's `stream` is ordered behind the default stream as the protocol asks."""
        if stream not in (None, -1, 0, LEGACY_STREAM):
            from cuda.core import LEGACY_DEFAULT_STREAM, Stream

            Stream.from_handle(stream).wait(LEGACY_DEFAULT_STREAM)
        return self._view.__dlpack__(stream=None, **options)


class ExportedFramework:
    """Any exporter (JAX, Numba, cuda.core, DeviceArray ...), read through cuda.core's StridedMemoryView."""

    name = "an exporter"

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        from cuda.core.utils import StridedMemoryView

        if _on_host(array):
            raise ArrayError(f"{role} lies in host memory ({_type_name(array)}); allowed is {_ALLOWED}")
        try:
            return StridedMemoryView.from_any_interface(array, stream_ptr=stream)
        except (BufferError, NotImplementedError, RuntimeError, TypeError) as error:
            raise ArrayError(f"{role} ({_type_name(array)}) can't be read as a GPU array: {error}") from error

    def signature(self, adopted: Any) -> Hashable:
        return adopted.shape, adopted.strides, adopted.dtype, adopted.device_id, adopted.readonly

    def pointer(self, adopted: Any) -> int:
        return int(adopted.ptr)

    def facts(self, adopted: Any) -> ArrayFacts:
        shape = tuple(adopted.shape)
        return ArrayFacts(
            shape=shape,
            strides=contiguous_strides(shape) if adopted.strides is None else tuple(adopted.strides),
            dtype=str(adopted.dtype),
            device=int(adopted.device_id) if adopted.is_device_accessible else None,
            readonly=bool(adopted.readonly),
        )

    def current_stream(self, device: int) -> int:
        return LEGACY_STREAM

    def empty(
        self, like: Any, shape: tuple[int, ...], channels_last: bool, stream: int, dtype: str | None = None
    ) -> Any:
        from cuda.core.utils import StridedMemoryView

        wanted = like.dtype if dtype is None else np.dtype(dtype)
        strides = contiguous_strides(shape)
        if channels_last:
            k, p, q = shape[1:]
            strides = (p * q * k, 1, q * k, k)
        buffer = _allocate(like.device_id, int(np.prod(shape)) * wanted.itemsize)
        return DeviceArray(StridedMemoryView.from_buffer(buffer, shape=shape, strides=strides, dtype=wanted))

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        from cuda.core.utils import StridedMemoryView

        buffer = _allocate(like.device_id, n_bytes)
        return StridedMemoryView.from_buffer(buffer, shape=(n_bytes,), dtype=np.dtype(np.uint8))


TORCH, CUPY, EXPORTED = TorchFramework(), CupyFramework(), ExportedFramework()
_known: dict[type, Framework] = {}


def framework_of(array: Any, role: str) -> Framework:
    """Whose array it is, by its type alone; ArrayError names `role` and what is allowed."""
    kind = type(array)
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = _recognise(array, role)
    return found


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def _recognise(array: Any, role: str) -> Framework:
    origins = {(base.__module__.partition(".")[0], base.__name__) for base in type(array).__mro__}
    if ("torch", "Tensor") in origins:
        return TORCH
    if ("cupy", "ndarray") in origins:
        return CUPY
    if hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__"):
        return EXPORTED
    raise ArrayError(f"{role} is of type {_type_name(array)}; allowed is {_ALLOWED}")


def _on_host(array: Any) -> bool:
    if hasattr(array, "__dlpack_device__"):
        return array.__dlpack_device__()[0] not in _CUDA_KINDS
    return not hasattr(array, "__cuda_array_interface__")


def _type_name(array: Any) -> str:
    kind = type(array)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _allocate(device: int, n_bytes: int) -> Any:
    """A cuda.core Buffer of the device's memory pool, in the order of the legacy stream."""
    from cuda.bindings import driver
    from cuda.core import LEGACY_DEFAULT_STREAM, Device

    before = driver.cuCtxGetCurrent()[1]
    owner = Device(device)
    owner.set_current()
    try:
        return owner.allocate(n_bytes, stream=LEGACY_DEFAULT_STREAM)
    finally:
        driver.cuCtxSetCurrent(before)
