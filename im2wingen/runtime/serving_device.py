"""A device as serving uses it: opened once; any thread loads and launches, and keeps its current context."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cuda.bindings import driver

from im2wingen.device import Device, device_count, driver_call, open_device
from im2wingen.families.base import Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import Cubin

_lock = threading.Lock()
_opened: dict[int, "ServingDevice"] = {}


class ServingDevice:
    """A device's primary context; NoDeviceError or DeviceError where it can't be had."""

    def __init__(self, ordinal: int) -> None:
        before = driver_call("cuCtxGetCurrent") if device_count() else None
        self._device: Device = open_device(ordinal)  # and makes its context current
        self._context = driver_call("cuCtxGetCurrent")
        driver_call("cuCtxSetCurrent", before)
        self.ordinal = ordinal
        self.name = self._device.name
        self.target = self._device.target

    @contextmanager
    def current(self) -> Iterator[None]:
        """The primary context is this thread's current one inside the block."""
        driver_call("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            driver_call("cuCtxPopCurrent")

    def load(self, plan: Plan, cubins: Sequence[Cubin]) -> LoadedPlan:
        with self.current():
            return LoadedPlan(plan, cubins)

    def unload(self, plan: LoadedPlan) -> None:
        """Waits for the device first: the plan's last launch may still run."""
        with self.current():
            driver_call("cuCtxSynchronize")
            plan.unload()

    def launch(self, plan: LoadedPlan, pointers: Mapping[str, int], stream: int, *, follows: bool = False) -> None:
        """LoadedPlan.launch; cheap where the context is current already, as frameworks leave it."""
        if int(driver.cuCtxGetCurrent()[1]) == int(self._context):
            plan.launch(pointers, stream, follows=follows)
        else:
            with self.current():
                plan.launch(pointers, stream, follows=follows)


def serving_device(ordinal: int) -> ServingDevice:
    """The device, opened at the first call and then kept."""
    with _lock:
        if ordinal not in _opened:
            _opened[ordinal] = ServingDevice(ordinal)
        return _opened[ordinal]
