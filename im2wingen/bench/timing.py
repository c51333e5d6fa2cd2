"""The protocol: contestants interleaved in rounds; on a GPU CUDA-graph replays over rotating buffer sets.

A contestant's turn in a round begins with untimed replays: a chip at its power limit takes a while to find the clock at
which it can sustain this kernel, and what ran before must not decide about that.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from im2wingen.outcome import Timing

GRAPH_US = 10_000.0  # least time of one replay
SCREEN_US = 1_000.0
_MAX_LAUNCHES = 2048
_MIN_LAUNCHES = 4  # of as many buffer sets, where there are that many
_SETTLING_US = 200_000.0  # of a turn, untimed
_TIMED_US = 150_000.0  # of a turn, one replay at least
_MIN_SAMPLES = 5


class Timer(Protocol):
    """A warmed-up contestant; a sample is a replay of several launches."""

    replay_us: float  # of the last replay
    disturbed: int  # how often something else had the cores during it; a GPU doesn't tell

    def sample_us(self) -> float:
        """Microseconds of one launch in one replay."""
        ...


class GraphTimer:
    """A CUDA graph of many launches, `launch(j)` on the buffer sets j in turn; a sample is one replay.

    Everything runs on PyTorch's current stream, which can't be the default one. RuntimeError comes from the contestant,
    also where it can't be captured.
    """

    disturbed = 0

    def __init__(self, torch: Any, launch: Callable[[int], object], *, sets: int, graph_us: float = GRAPH_US) -> None:
        self._torch, self._launch, self._sets = torch, launch, sets
        launches = self._launches_for(graph_us, launch_us(torch, launch))
        self._capture(launches)
        self.replay_us = elapsed_us(torch, self._graph.replay)
        if self.replay_us < 0.8 * graph_us and launches < _MAX_LAUNCHES:  # the first estimate held the CPU's own time
            launches = self._launches_for(graph_us, self.replay_us / launches)
            self._graph.reset()
            self._capture(launches)
            self.replay_us = elapsed_us(torch, self._graph.replay)

    def sample_us(self) -> float:
        """Microseconds of one launch in one replay."""
        self.replay_us = elapsed_us(self._torch, self._graph.replay)
        return self.replay_us / self._launches

    def close(self) -> None:
        """Give the graph's memory back."""
        self._graph.reset()

    def _launches_for(self, graph_us: float, one_us: float) -> int:
        launches = max(math.ceil(graph_us / max(one_us, 1.0)), min(self._sets, _MIN_LAUNCHES))
        if launches > self._sets:
            launches = math.ceil(launches / self._sets) * self._sets
        return min(launches, _MAX_LAUNCHES)

    def _capture(self, launches: int) -> None:
        # Not torch.cuda.graph: it collects garbage and empties the allocator's cache at every capture.
        self._graph = self._torch.cuda.CUDAGraph()
        self._launches = launches
        self._torch.cuda.current_stream().synchronize()
        self._graph.capture_begin()
        try:
            for i in range(launches):
                self._launch(i % self._sets)
        finally:
            self._graph.capture_end()


def launch_us(torch: Any, launch: Callable[[int], object]) -> float:
    """Microseconds of a second launch, queueing included; the first one loads modules, tunes and allocates."""
    launch(0)
    return elapsed_us(torch, lambda: launch(0))


def elapsed_us(torch: Any, action: Callable[[], object]) -> float:
    """Microseconds between two events around what `action` queues on the current stream."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    action()
    stop.record()
    stop.synchronize()
    return 1e3 * float(start.elapsed_time(stop))


def time_interleaved(timers: Mapping[str, Timer], *, rounds: int, clock_mhz: Callable[[], int]) -> dict[str, Timing]:
    """Every contestant in every round, the same time each; each round starts with another contestant.

    Disturbed samples don't count where there are five others.
    """
    names = list(timers)
    samples: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
    clocks = dict.fromkeys(names, 0)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            timer = timers[name]
            for _ in range(int(_SETTLING_US / timer.replay_us)):
                timer.sample_us()
            for _ in range(max(1, int(_TIMED_US / timer.replay_us))):
                us = timer.sample_us()
                samples[name].append((us, timer.disturbed))
            clocks[name] = clock_mhz()
    return {name: summarise(undisturbed(samples[name]), clocks[name]) for name in names}


def undisturbed(samples: Sequence[tuple[float, int]]) -> list[float]:
    """Of samples and how often each was disturbed those that count: the undisturbed ones, at least the best five."""
    clean = [us for us, times in samples if not times]
    if len(clean) >= _MIN_SAMPLES:
        return clean
    return [us for us, _ in sorted(samples, key=lambda sample: sample[1])[:_MIN_SAMPLES]]


def summarise(samples: list[float], clock_mhz: int) -> Timing:
    """Median, minimum and the quartiles' distance of samples in microseconds."""
    median = statistics.median(samples)
    spread = 0.0
    if len(samples) > 1:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
        spread = (high - low) / median
    return Timing(median_us=median, min_us=min(samples), spread=spread, samples=len(samples), clock_mhz=clock_mhz)
