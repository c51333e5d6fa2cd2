"""A CUDA device through the driver API: its facts, memory, streams, events and graphs, every call checked.

The device's primary context is used, the one that PyTorch and CuPy use too, so pointers and streams mix freely.
"""

import importlib
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cuda.bindings import driver
from numpy.typing import NDArray

from im2wingen.errors import DeviceError, NoDeviceError, UnsupportedError
from im2wingen.target import PRESETS, Target

log = logging.getLogger(__name__)

_ARCHS = {(t.compute_capability // 10, t.compute_capability % 10): t.arch for t in PRESETS.values()}
_FACTS = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "sm_count": "MULTIPROCESSOR_COUNT",
    "smem_per_block_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "smem_per_sm_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_bytes": "L2_CACHE_SIZE",
    "max_threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "regs_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
}


def driver_call(name: str, *arguments: Any) -> Any:
    """Call the driver function `name` and return its value, if any; DeviceError says which call failed and how."""
    result = getattr(driver, name)(*arguments)
    if int(result[0]) != 0:
        raise device_error(name, result[0])
    return result[1] if len(result) == 2 else result[1:]


def device_error(call: str, code: Any, detail: str = "") -> DeviceError:
    """The error for a driver call that returned `code`; without a detail it gives the driver's own words."""
    name = getattr(code, "name", str(code))
    if not detail:
        error, text = driver.cuGetErrorString(code)
        detail = text.decode() if int(error) == 0 else ""
    return DeviceError(call, name, detail)


def target_from_facts(name: str, facts: Mapping[str, int]) -> Target:
    """The Target of a device with these driver attributes (keys as in `_FACTS`); UnsupportedError for an unknown arch.

    The tensor rate is the arch's preset scaled by SM count and clock; so is what the driver reports as 0.
    """
    capability = (facts["major"], facts["minor"])
    if capability not in _ARCHS:
        known = ", ".join(f"{major}.{minor}" for major, minor in sorted(_ARCHS))
        reason = f"its compute capability is {capability[0]}.{capability[1]}; allowed are {known}"
        raise UnsupportedError(f"device {name}", {"arch": reason})
    like = PRESETS[_ARCHS[capability]]
    clock_mhz = facts["clock_khz"] // 1000 or like.clock_mhz
    scale = facts["sm_count"] / like.sm_count * clock_mhz / like.clock_mhz
    # two transfers a clock of the memory bus
    gbps = 2e-6 * facts["memory_clock_khz"] * facts["memory_bus_bits"] / 8
    return replace(
        like,
        name=name,
        sm_count=facts["sm_count"],
        smem_per_block_bytes=facts["smem_per_block_bytes"],
        smem_per_sm_bytes=facts["smem_per_sm_bytes"],
        clock_mhz=clock_mhz,
        l2_bytes=facts["l2_bytes"] or like.l2_bytes,
        dram_gbps=gbps or like.dram_gbps,
        mma_fp16_tflops=like.mma_fp16_tflops * scale,
        wgmma_fp16_tflops=like.wgmma_fp16_tflops * scale,
        max_threads_per_sm=facts["max_threads_per_sm"],
        max_blocks_per_sm=facts["max_blocks_per_sm"],
        regs_per_sm=facts["regs_per_sm"],
        predicted=False,
    )


def device_count() -> int:
    """CUDA devices that this process can see; 0 without a driver."""
    try:
        _initialise()
    except NoDeviceError:
        return 0
    return int(driver_call("cuDeviceGetCount"))


def open_device(ordinal: int = 0) -> "Device":
    """Open a device and make its primary context current for this thread; NoDeviceError if there is none such."""
    _initialise()
    count = int(driver_call("cuDeviceGetCount"))
    if not 0 <= ordinal < count:
        raise NoDeviceError(f"device {ordinal} does not exist; this process sees {count} CUDA devices, counted from 0")
    return Device(ordinal)


def _initialise() -> None:
    try:
        driver_call("cuInit", 0)
    except DeviceError as error:
        raise NoDeviceError(f"no CUDA device can be used: {error}") from error
    except RuntimeError as error:  # what cuda.bindings raises where libcuda.so.1 is missing
        raise NoDeviceError("no CUDA device can be used: the NVIDIA driver (libcuda.so.1) is not installed") from error


class Device:
    """An open device. Its `stream` (an address) orders all work below; not for use by two threads at once.

    Raises UnsupportedError for an arch that no family knows, DeviceError when a driver call fails.
    """

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self._handle = driver_call("cuDeviceGet", ordinal)
        name: bytes = driver_call("cuDeviceGetName", 256, self._handle)
        self.name = name.split(b"\0")[0].decode()
        self.uuid = f"GPU-{uuid.UUID(bytes=bytes(driver_call('cuDeviceGetUuid', self._handle).bytes))}"
        self.driver_version = _driver_version()
        attributes = driver.CUdevice_attribute
        facts = {
            key: int(
                driver_call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{fact}"), self._handle)
            )
            for key, fact in _FACTS.items()
        }
        self.target = target_from_facts(self.name, facts)
        self._context = driver_call("cuDevicePrimaryCtxRetain", self._handle)
        self.activate()
        self.stream = int(driver_call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
        self._events = [driver_call("cuEventCreate", 0) for _ in range(2)]

    def activate(self) -> None:
        """Make the primary context current for the calling thread."""
        driver_call("cuCtxSetCurrent", self._context)

    def alloc(self, size_bytes: int) -> int:
        """Device memory, 256-byte aligned; at least one byte. DeviceError names the size that could not be had."""
        result = driver.cuMemAlloc(max(1, size_bytes))
        if int(result[0]) != 0:
            raise device_error("cuMemAlloc", result[0], f"{size_bytes} bytes")
        return int(result[1])

    def free(self, pointer: int) -> None:
        """Give memory back. Never raises: a free that fails means a dead context, which took its memory along."""
        if int(driver.cuMemFree(pointer)[0]) != 0:
            log.debug("cuMemFree failed")

    def free_bytes(self) -> int:
        """Device memory that is not in use by anybody."""
        return int(driver_call("cuMemGetInfo")[0])

    def memset(self, pointer: int, byte: int, size_bytes: int) -> None:
        """Fill with one byte, in stream order."""
        if size_bytes:
            driver_call("cuMemsetD8Async", pointer, byte, size_bytes, self.stream)

    def copy_to_device(self, pointer: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array; returns once it is there."""
        if array.nbytes:
            driver_call("cuMemcpyHtoDAsync", pointer, array.ctypes.data, array.nbytes, self.stream)
            self.synchronize()

    def copy_to_host(self, array: NDArray[Any], pointer: int) -> None:
        """Fill a contiguous array from the device once all work in the stream is done."""
        if array.nbytes:
            driver_call("cuMemcpyDtoHAsync", array.ctypes.data, pointer, array.nbytes, self.stream)
            self.synchronize()

    def synchronize(self) -> None:
        """Wait for the stream; a kernel's fault surfaces here as DeviceError."""
        driver_call("cuStreamSynchronize", self.stream)

    def elapsed_us(self, work: Callable[[], None]) -> float:
        """Microseconds of device time that `work` puts into the stream, from one event to another."""
        start, stop = self._events
        driver_call("cuEventRecord", start, self.stream)
        work()
        driver_call("cuEventRecord", stop, self.stream)
        driver_call("cuEventSynchronize", stop)
        return 1e3 * float(driver_call("cuEventElapsedTime", start, stop))

    def capture(self, work: Callable[[], None]) -> "Graph":
        """A graph of what `work` puts into the stream; nothing runs yet."""
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        driver_call("cuStreamBeginCapture", self.stream, mode)
        try:
            work()
        except BaseException:
            driver.cuStreamEndCapture(self.stream)  # the first error is the one to report
            raise
        return Graph(driver_call("cuStreamEndCapture", self.stream), self.stream)

    def clock_mhz(self) -> int:
        """The SM clock at this moment; 0 where NVML (package nvidia-ml-py) can't tell."""
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return 0
        try:
            nvml.nvmlInit()
            handle = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            return int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        except nvml.NVMLError as error:
            log.debug("no SM clock: %s", error)
            return 0

    def close(self) -> None:
        """Give back the stream, the events and the context; never raises."""
        for event in self._events:
            driver.cuEventDestroy(event)
        driver.cuStreamDestroy(self.stream)
        driver.cuDevicePrimaryCtxRelease(self._handle)


class Graph:
    """A captured and instantiated graph of one stream."""

    def __init__(self, graph: Any, stream: int) -> None:
        self._stream = stream
        try:
            self._executable = driver_call("cuGraphInstantiate", graph, 0)
        finally:
            driver.cuGraphDestroy(graph)

    def replay(self) -> None:
        driver_call("cuGraphLaunch", self._executable, self._stream)

    def close(self) -> None:
        """Never raises."""
        driver.cuGraphExecDestroy(self._executable)


def _driver_version() -> str:
    """The driver's own version where NVML can tell (580.159.04), else the CUDA version that it supports (CUDA 13.0)."""
    version = int(driver_call("cuDriverGetVersion"))
    cuda = f"CUDA {version // 1000}.{version % 1000 // 10}"
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return cuda
    try:
        nvml.nvmlInit()
        text = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return cuda
    return text.decode() if isinstance(text, bytes) else str(text)
