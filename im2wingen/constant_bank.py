"""Kernels whose filters lie in `__constant__` memory: a module for each stream, so that launches don't share it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver

from im2wingen.device import allow_shared_memory, driver_call
from im2wingen.families.base import Constants, Launch
from im2wingen.nvrtc import Cubin

_PER_THREAD_STREAM = 2  # CU_STREAM_PER_THREAD: each thread's own
_MAX_IDLE = 64  # modules of streams, beyond which those not bound to a graph are given back


@dataclass(frozen=True, slots=True)
class _Instance:
    module: Any
    function: Any
    address: Any  # of the __constant__ array


class ConstantBank:
    """The modules of one kernel, and what its launches put into their constant bank.

    What runs in one stream, or in one capture of a stream into a graph, runs in order and shares a module. A graph's
    module lives until `unload`. Not thread safe.
    """

    def __init__(self, cubin: Cubin, launch: Launch, constants: Constants) -> None:
        self._cubin, self._constants, self._smem_bytes = cubin, constants, launch.smem_bytes
        self._of_streams: dict[tuple[int, int], _Instance] = {}
        self._of_captures: dict[tuple[int, int], _Instance] = {}
        self._filled = self._load()
        self._spare = [self._filled]  # for the first stream

    @property
    def function(self) -> Any:
        """The kernel with the constants that were filled in last."""
        return self._filled.function

    def fill(self, pointers: Mapping[str, int], stream: int) -> None:
        """Put the copy of the constants into the stream."""
        self._filled = self._instance(stream)
        constants = self._constants
        source = pointers[constants.array] + constants.offset
        driver_call("cuMemcpyDtoDAsync", self._filled.address, source, constants.size, stream)

    def unload(self) -> None:
        """Give the modules back; no launch may be pending."""
        for instance in (*self._spare, *self._of_streams.values(), *self._of_captures.values()):
            driver.cuModuleUnload(instance.module)
        self._spare.clear()
        self._of_streams.clear()
        self._of_captures.clear()

    def _instance(self, stream: int) -> _Instance:
        status, capture = driver_call("cuStreamGetCaptureInfo", stream)[:2]
        capturing = int(status) == int(driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE)
        thread = threading.get_ident() if stream == _PER_THREAD_STREAM else 0
        held = self._of_captures if capturing else self._of_streams
        key = (stream, int(capture) if capturing else thread)
        if key not in held:
            if not capturing and len(held) >= _MAX_IDLE:
                driver_call("cuCtxSynchronize")
                self._spare += held.values()
                held.clear()
            held[key] = self._spare.pop() if self._spare else self._load()
        return held[key]

    def _load(self) -> _Instance:
        # a capture that is under way forbids it otherwise: a load may wait for the device
        mode = driver_call(
            "cuThreadExchangeStreamCaptureMode", driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        )
        try:
            module = driver_call("cuModuleLoadData", self._cubin.image)
            function = driver_call("cuModuleGetFunction", module, self._cubin.kernel.encode())
            allow_shared_memory(function, self._smem_bytes)
            address, _size = driver_call("cuModuleGetGlobal", module, self._constants.symbol.encode())
        finally:
            driver_call("cuThreadExchangeStreamCaptureMode", mode)
        return _Instance(module, function, address)
