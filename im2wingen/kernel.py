"""A plan loaded on a device: modules, functions, prepared arguments, launches."""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from cuda.bindings import driver

from im2wingen.device import device_error, driver_call
from im2wingen.families.base import Launch, Plan, TensorMap
from im2wingen.nvrtc import Cubin

_MAP_BYTES = 128
_MAP_ALIGNMENT = 64  # bytes
_ENCODE_VERSION = 12000  # of CUDA, that brought cuTensorMapEncodeTiled
_MAX_ENCODED = 256  # sets of addresses for which an argument's tensor maps are kept
_MAP_ELEMENT = {
    "fp32": "FLOAT32", "tf32": "TFLOAT32", "fp16": "FLOAT16", "bf16": "BFLOAT16", "int32": "INT32",
    "int8": "UINT8", "e4m3": "UINT8", "e5m2": "UINT8",
}  # fmt: skip
_MAP_SWIZZLE = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_MAP_L2_PROMOTION = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}


class LoadedPlan:
    """The plan's kernels, loaded into the context that is current, one cubin a launch.

    Raises DeviceError if the driver refuses a cubin or its shared memory. Thread safe; works under stream capture.
    """

    def __init__(self, plan: Plan, cubins: Sequence[Cubin]) -> None:
        self.plan = plan
        self._lock = threading.Lock()
        self._modules: dict[str, Any] = {}
        self._kernels: list[_Kernel] = []
        try:
            for launch, cubin in zip(plan.launches, cubins, strict=True):
                digest = cubin.sha256
                if digest not in self._modules:
                    self._modules[digest] = driver_call("cuModuleLoadData", cubin.image)
                function = driver_call("cuModuleGetFunction", self._modules[digest], cubin.kernel.encode())
                self._kernels.append(_Kernel(function, launch))
        except BaseException:
            self.unload()
            raise

    def launch(self, pointers: Mapping[str, int], stream: int, *, follows: bool = False) -> None:
        """Put all kernels into the stream; `pointers` maps every array's name to a device address.

        `follows`: what the first of them may run beside was put there just now.
        """
        with self._lock:
            for kernel in self._kernels:
                kernel.launch(pointers, stream, follows)
                follows = True

    def prepare(self, pointers: Mapping[str, int]) -> None:
        """Encode the tensor maps for these arrays now, so that the first launch on them is as quick as the next."""
        with self._lock:
            for kernel in self._kernels:
                kernel.prepare(pointers)

    def unload(self) -> None:
        """Give the modules back; no launch may be pending. Never raises: a failure means a dead context."""
        for module in self._modules.values():
            driver.cuModuleUnload(module)
        self._modules.clear()
        self._kernels.clear()


class _Kernel:
    """One launch with its argument buffer: cuLaunchKernel reads an array of addresses of argument values."""

    def __init__(self, function: Any, launch: Launch) -> None:
        count = len(launch.arguments)
        self._names = [(i, name) for i, name in enumerate(launch.arguments) if isinstance(name, str)]
        self._maps = [(i, EncodedMaps(maps)) for i, maps in enumerate(launch.arguments) if not isinstance(maps, str)]
        self._values = (ctypes.c_uint64 * max(1, count))()
        first = ctypes.addressof(self._values)
        self._addresses = (ctypes.c_uint64 * max(1, count))(*(first + 8 * i for i in range(count)))
        self._function = function
        self._fixed = (function, *launch.grid, launch.block, 1, 1, launch.smem_bytes)
        early, cluster = launch.programmatic or launch.beside, launch.cluster > 1
        self._extended = _extended_launch(launch, early=early) if early or cluster else None
        # the first launch on a stream runs beside nothing
        self._alone = (_extended_launch(launch, early=False) if cluster else None) if launch.beside else self._extended
        self._parameters = ctypes.addressof(self._addresses)
        # also makes lazy loading load the function now, not in the middle of a capture
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        loaded = int(driver_call("cuFuncGetAttribute", attribute, function))
        if launch.smem_bytes > loaded:
            driver_call("cuFuncSetAttribute", function, attribute, launch.smem_bytes)

    def prepare(self, pointers: Mapping[str, int]) -> None:
        for _, maps in self._maps:
            maps.address(pointers)

    def launch(self, pointers: Mapping[str, int], stream: int, follows: bool) -> None:
        for i, name in self._names:
            self._values[i] = pointers[name]
        for i, maps in self._maps:
            self._addresses[i] = maps.address(pointers)
        extended = self._extended if follows else self._alone
        if extended is None:
            result = driver.cuLaunchKernel(*self._fixed, stream, self._parameters, 0)
        else:
            extended.hStream = stream
            result = driver.cuLaunchKernelEx(extended, self._function, self._parameters, 0)
        if int(result[0]) != 0:
            raise device_error("cuLaunchKernel", result[0])


def _extended_launch(launch: Launch, *, early: bool) -> Any:
    """A launch in clusters, or an `early` one, that may begin while the one before it in the stream ends.

    Its stream is still to be set.
    """
    attributes = []
    if early:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if launch.cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = launch.cluster
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
        attributes.append(attribute)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block, 1, 1
    config.sharedMemBytes = launch.smem_bytes
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


class EncodedMaps:
    """A struct of tensor maps as a kernel's argument: encoded once for each set of base addresses, then kept.

    Not thread safe. `encode` gives the 128 bytes of a map whose array is at an address.
    """

    def __init__(self, maps: Sequence[TensorMap], encode: Callable[[TensorMap, int], bytes] | None = None) -> None:
        self._maps = maps
        self._encode = encode or encode_tensor_map
        self._arrays = tuple(dict.fromkeys(one.array for one in maps))
        self._kept: dict[tuple[int, ...], tuple[int, Any]] = {}  # base addresses -> aligned address, its memory

    def address(self, pointers: Mapping[str, int]) -> int:
        """Where the encoded struct lies in host memory, 64-byte aligned; good until the next call."""
        bases = tuple([pointers[name] for name in self._arrays])
        found = self._kept.get(bases)
        if found is None:
            encoded = b"".join([self._encode(one, pointers[one.array]) for one in self._maps])
            aligned, memory = _aligned_memory(len(encoded))
            ctypes.memmove(aligned, encoded, len(encoded))
            if len(self._kept) >= _MAX_ENCODED:
                self._kept.clear()
            found = self._kept[bases] = (aligned, memory)
        return found[0]


def encode_tensor_map(wanted: TensorMap, address: int) -> bytes:
    """The driver's form of a map whose array is at a device address; DeviceError if it refuses.

    The driver demands an aligned place for it, which the objects of cuda.bindings don't promise.
    """
    aligned, _memory = _aligned_memory(_MAP_BYTES)
    code = _encode_function()(aligned, *encode_arguments(wanted, address))
    if code:
        raise device_error("cuTensorMapEncodeTiled", driver.CUresult(code))
    return ctypes.string_at(aligned, _MAP_BYTES)


def _aligned_memory(size: int) -> tuple[int, Any]:
    """An address for a map, and what keeps it alive."""
    memory = ctypes.create_string_buffer(size + _MAP_ALIGNMENT)
    return -(-ctypes.addressof(memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT, memory


@cache
def _encode_function() -> Any:
    default = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    function, _status = driver_call("cuGetProcAddress", b"cuTensorMapEncodeTiled", _ENCODE_VERSION, default)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    prototype = ctypes.CFUNCTYPE(
        number, pointer, number, ctypes.c_uint32, ctypes.c_uint64, *(4 * [pointer]), *(4 * [number])
    )
    return prototype(int(function))


def encode_arguments(wanted: TensorMap, address: int) -> tuple[Any, ...]:
    """The arguments of cuTensorMapEncodeTiled, but for the first."""
    rank = len(wanted.dims)
    element, swizzle = _MAP_ELEMENT[wanted.element], _MAP_SWIZZLE[wanted.swizzle_bytes]
    l2_promotion = _MAP_L2_PROMOTION[wanted.l2_promotion_bytes]
    return (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{element}"),
        rank,
        address + wanted.offset_bytes,
        (ctypes.c_uint64 * rank)(*wanted.dims),
        (ctypes.c_uint64 * (rank - 1))(*wanted.strides_bytes),
        (ctypes.c_uint32 * rank)(*wanted.box),
        (ctypes.c_uint32 * rank)(*(rank * [1])),  # steps between elements
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{l2_promotion}"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,  # zeros
    )
