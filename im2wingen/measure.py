"""The timing protocol: CUDA-graph replays over rotating buffer sets, candidates interleaved, median and spread.

A graph holds about 10 ms of launches, a whole number of rounds over sets that together exceed four times the L2 cache,
so no launch finds its operands cached by the one before. A sample is one replay's time by events over its number of
launches. A candidate alone is timed in a burst, after one untimed replay. Candidates against each other take turns of
many replays, in rounds: a chip at its power limit takes a while to find the clock at which it can sustain a kernel, so
the first part of a turn is not timed. Raise PROTOCOL_VERSION whenever a change here makes times incomparable.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np

from im2wingen.device import Device, Graph
from im2wingen.outcome import Timing

PROTOCOL_VERSION = 2
DEFAULT_SAMPLES = 7
GRAPH_US = 10_000.0
_MAX_LAUNCHES = 8192
_MAX_ROUND_US = 200_000.0
_ROUNDS = 2
_SETTLING = 0.65  # of a turn, untimed
_PROBE_RUNS = 4
_PROBE_US = 100_000.0

RunSet = Callable[[int], None]  # puts one run over the buffer set of that number into the device's stream


class GraphTimer:
    """One candidate as a graph; `close` it when done. Raises DeviceError for a fault in its kernels."""

    def __init__(self, device: Device, run: RunSet, *, sets: int, run_us: float) -> None:
        self._device = device
        self.launches = launches_per_graph(sets, run_us)

        def work() -> None:
            for i in range(self.launches):
                run(i % sets)

        self._graph: Graph = device.capture(work)

    def replay_us(self) -> float:
        """Microseconds of one run, from one replay."""
        return self._device.elapsed_us(self._graph.replay) / self.launches

    def close(self) -> None:
        self._graph.close()


def probe_us(device: Device, run: RunSet, *, sets: int) -> float:
    """A cheap upper estimate of one run's time, launch overhead included: the best of four, of fewer if slow."""
    times: list[float] = []
    for i in range(_PROBE_RUNS):
        times.append(device.elapsed_us(partial(run, i % sets)))
        if sum(times) > _PROBE_US:
            break
    return min(times)


def time_runs(device: Device, runs: Sequence[RunSet], *, sets: int, seconds: float) -> list[Timing]:
    """Candidates in turns, about `seconds` in all, but two rounds at least; one Timing each, in order."""
    timers: list[GraphTimer] = []
    try:
        for run in runs:
            timer = GraphTimer(device, run, sets=sets, run_us=probe_us(device, run, sets=sets))
            timers.append(timer)
        turn_us = 1e6 * seconds / (_ROUNDS * max(1, len(timers)))
        turns = [_turn(timer, turn_us) for _ in range(_ROUNDS) for timer in timers]
        clock_mhz = device.clock_mhz()
        return [timing_of(list(chain(*turns[i :: len(timers)])), clock_mhz) for i in range(len(timers))]
    finally:
        for timer in timers:
            timer.close()


def _turn(timer: GraphTimer, turn_us: float) -> list[float]:
    """Samples of one turn; one replay at least goes untimed before."""
    passed, samples = 0.0, list[float]()
    while passed < turn_us or not samples:
        timed = passed > _SETTLING * turn_us
        sample = timer.replay_us()
        passed += sample * timer.launches
        if timed:
            samples.append(sample)
    return samples


def sample_timers(device: Device, timers: Sequence[GraphTimer], *, samples: int = DEFAULT_SAMPLES) -> list[Timing]:
    """`samples` rounds over warmed-up timers; the clock is read once, straight after the last round."""
    rounds = [[timer.replay_us() for timer in timers] for _ in range(samples)]
    clock_mhz = device.clock_mhz()
    return [timing_of([times[i] for times in rounds], clock_mhz) for i in range(len(timers))]


def timing_of(times_us: Sequence[float], clock_mhz: int) -> Timing:
    """Median, minimum and relative interquartile range of samples."""
    quarter, median, three_quarters = np.percentile(times_us, (25, 50, 75))
    return Timing(
        median_us=float(median),
        min_us=float(min(times_us)),
        spread=float((three_quarters - quarter) / median) if median > 0 else 0.0,
        samples=len(times_us),
        clock_mhz=clock_mhz,
    )


def launches_per_graph(sets: int, run_us: float) -> int:
    """Whole rounds over the sets that fill about 10 ms; one round at least, unless that alone takes over 200 ms."""
    run_us = max(run_us, 0.5)
    if sets * run_us > _MAX_ROUND_US:
        return math.ceil(GRAPH_US / run_us)
    rounds = math.ceil(GRAPH_US / (run_us * sets))
    return sets * max(1, min(rounds, _MAX_LAUNCHES // sets))
