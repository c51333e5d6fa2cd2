"""A contestant's timer on the CPU: a sample is as many launches in a row as fill some milliseconds."""

import math
import resource
import time
from collections.abc import Callable

from im2wingen.bench.cpu.clock import ClockProbe
from im2wingen.cpu.measure import one_run_us

_SAMPLE_US = 3_000.0
_WARM_UP_US = 100_000.0  # a first launch that took longer tells enough about the next one


class CpuTimer:
    """Warms up; `first_us` is what a first launch took. `clock` is read after each sample."""

    def __init__(self, launch: Callable[[], None], *, first_us: float, clock: ClockProbe | None = None) -> None:
        self._launch, self._clock = launch, clock
        warm_us = first_us if first_us > _WARM_UP_US else min(one_run_us(launch) for _ in range(3))
        self._launches = math.ceil(_SAMPLE_US / max(warm_us, 0.1))
        self.replay_us = warm_us * self._launches
        self.disturbed = 0

    def sample_us(self) -> float:
        """Microseconds of one launch, over a sample; `disturbed` is how often the system took a core away meanwhile.

        It does so where something else wants to run there.
        """
        launch, before, started = self._launch, _preemptions(), time.perf_counter_ns()
        for _ in range(self._launches):
            launch()
        self.replay_us = (time.perf_counter_ns() - started) / 1e3
        self.disturbed = _preemptions() - before
        if self._clock is not None:
            self._clock.read()
        return self.replay_us / self._launches


def _preemptions() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
