"""The multiply-add peak of this CPU: templates/cpu_peak.cpp.j2 on as many threads as the contestants have."""

from collections.abc import Callable

import numpy as np

from im2wingen.bench.cpu.clock import ClockProbe
from im2wingen.bench.cpu.kernels import loaded_kernel
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_target import CpuTarget

_STEPS = 1 << 18  # about 2 ms
_MOST_ACCUMULATORS = 24  # more than latency times multiply-adds a cycle of any CPU


class PeakKernel:
    """`launch()` does `flops` on registers alone."""

    def __init__(self, target: CpuTarget) -> None:
        accumulators = min(_MOST_ACCUMULATORS, target.num_vector_registers - 4)
        loaded = loaded_kernel(
            "cpu_peak",
            {"LANES": target.lanes, "ACCUMULATORS": accumulators, "STEPS": _STEPS},
            ("factors", "sums"),
            target,
        )
        factors = np.array([0.5, 1.0], np.float32)  # acc * 0.5 + 1 stays near 2
        sums = aligned_bytes(target.cores * target.vector_bytes)
        pointers = {"factors": factors.ctypes.data, "sums": sums.ctypes.data}
        self.flops = 2 * target.lanes * accumulators * _STEPS * target.cores
        self.sums = sums.view(np.float32)
        self._factors = factors
        self.launch: Callable[[], None] = lambda: loaded.launch(pointers)
        self.clock = ClockProbe(loaded, pointers, target)
