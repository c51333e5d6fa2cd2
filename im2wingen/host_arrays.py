"""Arrays in host memory, read without a copy: NumPy, PyTorch CPU tensors, exporters of DLPack or Python's buffers."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.arrays import ArrayFacts, Framework, TorchFramework
from im2wingen.errors import ArrayError

_HOST_KINDS = (1, 3)  # DLDeviceType: CPU, pinned host memory
_ALIGNMENT = 64  # bytes; of what is allocated here
_SCRATCH_ALIGNMENT = 256
_ALLOWED = "a NumPy array, a PyTorch CPU tensor, or one that exports DLPack or Python's buffer protocol"


class HostTorchFramework(TorchFramework):
    """torch.Tensor on the CPU; there are no streams."""

    def current_stream(self, device: int) -> int:
        return 0

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        memory = super().scratch(like, n_bytes + _SCRATCH_ALIGNMENT, stream)
        start = -memory.data_ptr() % _SCRATCH_ALIGNMENT
        return memory[start : start + n_bytes]


class NumpyFramework:
    """numpy.ndarray."""

    name = "NumPy"

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        return array

    def signature(self, adopted: Any) -> Hashable:
        return adopted.shape, adopted.strides, adopted.dtype, adopted.flags.writeable

    def pointer(self, adopted: Any) -> int:
        return int(adopted.__array_interface__["data"][0])

    def facts(self, adopted: Any) -> ArrayFacts:
        item = adopted.dtype.itemsize
        return ArrayFacts(
            shape=adopted.shape,
            strides=tuple(stride // item if stride % item == 0 else -1 for stride in adopted.strides),
            dtype=str(adopted.dtype),
            device=None,
            readonly=not adopted.flags.writeable,
        )

    def current_stream(self, device: int) -> int:
        return 0

    def empty(
        self, like: Any, shape: tuple[int, ...], channels_last: bool, stream: int, dtype: str | None = None
    ) -> Any:
        if channels_last:
            n, k, p, q = shape
            return self.empty(like, (n, p, q, k), False, stream, dtype).transpose(0, 3, 1, 2)
        wanted = like.dtype if dtype is None else np.dtype(dtype)
        return _aligned(int(np.prod(shape)) * wanted.itemsize, _ALIGNMENT).view(wanted).reshape(shape)

    def scratch(self, like: Any, n_bytes: int, stream: int) -> Any:
        return _aligned(n_bytes, _SCRATCH_ALIGNMENT)


class HostExportedFramework(NumpyFramework):
    """Any exporter (JAX, array.array, memoryview ...), read as a NumPy array; so is what it gets back."""

    name = "an exporter"

    def adopt(self, array: Any, role: str, stream: int) -> Any:
        try:
            if not hasattr(array, "__dlpack__"):
                return np.asarray(memoryview(array))
            if array.__dlpack_device__()[0] in _HOST_KINDS:
                return np.from_dlpack(array)
        except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise ArrayError(f"{role} ({_type_name(array)}) can't be read as a CPU array: {error}") from error
        raise ArrayError(f"{role} ({_type_name(array)}) is on a GPU and this convolution was loaded for the CPU")


HOST_TORCH, NUMPY, HOST_EXPORTED = HostTorchFramework(), NumpyFramework(), HostExportedFramework()
_known: dict[type, Framework] = {}


def host_framework_of(array: Any, role: str) -> Framework:
    """Whose array it is, by its type alone; ArrayError names `role` and what is allowed."""
    kind = type(array)
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = _recognise(array, role)
    return found


def _recognise(array: Any, role: str) -> Framework:
    if any((base.__module__.partition(".")[0], base.__name__) == ("torch", "Tensor") for base in type(array).__mro__):
        return HOST_TORCH
    if isinstance(array, np.ndarray):
        return NUMPY
    if hasattr(array, "__dlpack__") or _has_buffer(array):
        return HOST_EXPORTED
    raise ArrayError(f"{role} is of type {_type_name(array)}; allowed is {_ALLOWED}")


def _has_buffer(array: Any) -> bool:
    try:
        memoryview(array).release()
    except TypeError:
        return False
    return True


def _aligned(n_bytes: int, alignment: int) -> NDArray[np.uint8]:
    memory = np.empty(n_bytes + alignment, np.uint8)
    start = -memory.__array_interface__["data"][0] % alignment
    return memory[start : start + n_bytes]


def _type_name(array: Any) -> str:
    kind = type(array)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
