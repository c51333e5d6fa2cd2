"""A plan loaded on a device: modules, functions, prepared arguments, launches."""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cuda.bindings import driver

from im2wingen.device import device_error, driver_call
from im2wingen.families.base import Launch, Plan
from im2wingen.nvrtc import Cubin


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

    def launch(self, pointers: Mapping[str, int], stream: int) -> None:
        """Put all kernels into the stream; `pointers` maps every argument's name to a device address."""
        with self._lock:
            for kernel in self._kernels:
                kernel.launch(pointers, stream)

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
        self._names = launch.arguments
        self._values = (ctypes.c_uint64 * max(1, count))()
        first = ctypes.addressof(self._values)
        self._addresses = (ctypes.c_uint64 * max(1, count))(*(first + 8 * i for i in range(count)))
        self._function = function
        self._fixed = (function, *launch.grid, launch.block, 1, 1, launch.smem_bytes)
        self._early = _early_launch(launch) if launch.programmatic else None
        self._parameters = ctypes.addressof(self._addresses)
        # also makes lazy loading load the function now, not in the middle of a capture
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        loaded = int(driver_call("cuFuncGetAttribute", attribute, function))
        if launch.smem_bytes > loaded:
            driver_call("cuFuncSetAttribute", function, attribute, launch.smem_bytes)

    def launch(self, pointers: Mapping[str, int], stream: int) -> None:
        for i, name in enumerate(self._names):
            self._values[i] = pointers[name]
        if self._early is None:
            result = driver.cuLaunchKernel(*self._fixed, stream, self._parameters, 0)
        else:
            self._early.hStream = stream
            result = driver.cuLaunchKernelEx(self._early, self._function, self._parameters, 0)
        if int(result[0]) != 0:
            raise device_error("cuLaunchKernel", result[0])


def _early_launch(launch: Launch) -> Any:
    """A launch that may begin while the one before it in the stream ends; its stream is still to be set."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block, 1, 1
    config.sharedMemBytes = launch.smem_bytes
    config.attrs, config.numAttrs = [attribute], 1
    return config
