"""The timing protocol on a device that only counts."""

from collections.abc import Callable

import pytest

from im2wingen.measure import launches_per_graph, probe_us, sample_timers, time_runs, timing_of


class CountingGraph:
    def __init__(self, device: "CountingDevice", runs: list[int]) -> None:
        self._device, self.runs = device, runs
        self.closed = False

    def replay(self) -> None:
        self._device.log.append(self)
        for _ in self.runs:
            self._device.clock_us += self._device.run_us

    def close(self) -> None:
        self.closed = True


class CountingDevice:
    """Runs take `run_us`; what is captured does not run."""

    def __init__(self, run_us: float) -> None:
        self.run_us, self.clock_us = run_us, 0.0
        self.sets: list[int] = []
        self.graphs: list[CountingGraph] = []
        self.log: list[CountingGraph] = []

    def run(self, number: int) -> None:
        self.sets.append(number)
        self.clock_us += self.run_us

    def elapsed_us(self, work: Callable[[], None]) -> float:
        started = self.clock_us
        work()
        return self.clock_us - started

    def capture(self, work: Callable[[], None]) -> CountingGraph:
        before, clock = len(self.sets), self.clock_us
        work()
        graph = CountingGraph(self, self.sets[before:])
        self.clock_us = clock
        self.graphs.append(graph)
        return graph

    def clock_mhz(self) -> int:
        return 1500


@pytest.mark.parametrize(
    ("sets", "run_us", "launches"),
    [
        (1, 100.0, 100),  # fills 10 ms
        (3, 100.0, 102),  # whole rounds only
        (1, 50_000.0, 1),  # one run is longer than a graph
        (30, 1000.0, 30),  # one round is longer than a graph
        (4096, 5.0, 4096),  # a tiny problem in many sets
        (1, 0.0, 8192),  # no division by zero, and a limit
    ],
)
def test_graphs_hold_whole_rounds(sets: int, run_us: float, launches: int) -> None:
    assert launches_per_graph(sets, run_us) == launches


def test_graphs_rotate_over_the_sets() -> None:
    device = CountingDevice(1000.0)
    (timing,) = time_runs(device, [device.run], sets=4, seconds=0.24)  # type: ignore[arg-type]
    assert device.graphs[0].runs == [0, 1, 2, 3] * 3
    assert timing.median_us == timing.min_us == 1000.0
    # two turns of ten replays of 12 ms: seven pass 65 % of it, three are timed
    assert (timing.spread, timing.samples, timing.clock_mhz) == (0.0, 6, 1500)


def test_candidates_take_turns_that_begin_untimed() -> None:
    device = CountingDevice(2000.0)
    timings = time_runs(device, [device.run, device.run], sets=1, seconds=0.12)  # type: ignore[arg-type]
    first, second = device.graphs
    assert device.log == ([first] * 3 + [second] * 3) * 2
    assert [timing.samples for timing in timings] == [2, 2]


def test_a_turn_has_an_untimed_and_a_timed_replay_at_least() -> None:
    device = CountingDevice(2000.0)
    (timing,) = time_runs(device, [device.run], sets=1, seconds=1e-3)  # type: ignore[arg-type]
    assert (len(device.log), timing.samples) == (4, 2)
    (graph,) = device.graphs
    assert graph.closed


def test_graphs_are_closed() -> None:
    device = CountingDevice(2000.0)
    time_runs(device, [device.run, device.run], sets=1, seconds=0.1)  # type: ignore[arg-type]
    first, second = device.graphs
    assert first.closed
    assert second.closed


def test_a_failing_candidate_leaves_no_graph_open() -> None:
    device = CountingDevice(2000.0)

    def fails(number: int) -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        time_runs(device, [device.run, fails], sets=1, seconds=0.1)  # type: ignore[arg-type]
    assert [graph.closed for graph in device.graphs] == [True]


def test_a_probe_is_cheap() -> None:
    fast = CountingDevice(5.0)
    assert probe_us(fast, fast.run, sets=2) == 5.0  # type: ignore[arg-type]
    assert fast.sets == [0, 1, 0, 1]
    slow = CountingDevice(200_000.0)
    assert probe_us(slow, slow.run, sets=2) == 200_000.0  # type: ignore[arg-type]
    assert slow.sets == [0]


def test_timing_is_median_minimum_and_relative_quartile_range() -> None:
    timing = timing_of([10.0, 12.0, 11.0, 30.0, 11.0], 1234)
    assert (timing.median_us, timing.min_us, timing.samples, timing.clock_mhz) == (11.0, 10.0, 5, 1234)
    assert timing.spread == pytest.approx(1 / 11)


def test_no_timers_give_no_timings() -> None:
    assert sample_timers(CountingDevice(1.0), []) == []  # type: ignore[arg-type]
