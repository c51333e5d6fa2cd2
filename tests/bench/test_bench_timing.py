from collections.abc import Callable

import pytest

from im2wingen.bench.timing import GraphTimer, summarise, time_interleaved, undisturbed


class FakeTorch:
    """A device on which a launch takes `kernel_us` in a graph and `queue_us` more outside; its clock is virtual."""

    def __init__(self, kernel_us: float, queue_us: float = 0.0) -> None:
        self.now_us, self.kernel_us, self.queue_us = 0.0, kernel_us, queue_us
        self.capturing = False
        self.captures: list[list[int]] = []
        self.cuda = self

    def launch(self, buffer_set: int) -> None:
        if self.capturing:
            self.captures[-1].append(buffer_set)
        else:
            self.now_us += self.kernel_us + self.queue_us

    def current_stream(self) -> "FakeTorch":
        return self

    def synchronize(self) -> None:
        assert not self.capturing

    def Event(self, *, enable_timing: bool) -> "FakeEvent":
        assert enable_timing
        return FakeEvent(self)

    def CUDAGraph(self) -> "FakeGraph":
        return FakeGraph(self)


class FakeEvent:
    def __init__(self, device: FakeTorch) -> None:
        self._device, self.at_us = device, 0.0

    def record(self) -> None:
        self.at_us = self._device.now_us

    def synchronize(self) -> None:
        assert not self._device.capturing

    def elapsed_time(self, later: "FakeEvent") -> float:
        return 1e-3 * (later.at_us - self.at_us)


class FakeGraph:
    def __init__(self, device: FakeTorch) -> None:
        self._device = device

    def capture_begin(self) -> None:
        self._device.capturing = True
        self._device.captures.append([])

    def capture_end(self) -> None:
        self._device.capturing = False

    def replay(self) -> None:
        self._device.now_us += self._device.kernel_us * len(self._device.captures[-1])

    def reset(self) -> None:
        assert not self._device.capturing


def timer(device: FakeTorch, sets: int) -> GraphTimer:
    return GraphTimer(device, device.launch, sets=sets)


@pytest.mark.parametrize(
    ("kernel_us", "queue_us", "sets", "launches"),
    [
        (100.0, 0.0, 1, 100),  # ten milliseconds
        (100.0, 0.0, 7, 105),  # whole turns of the sets
        (100.0, 100.0, 1, 100),  # the first guess was half of it: captured again
        (5000.0, 0.0, 24, 4),  # slow: at least four sets
        (50_000.0, 0.0, 2, 2),  # slower than the graph
        (0.5, 30.0, 512, 2048),  # never more than that
    ],
)
def test_a_graph_is_long_enough_and_turns_through_the_sets(
    kernel_us: float, queue_us: float, sets: int, launches: int
) -> None:
    device = FakeTorch(kernel_us, queue_us)
    made = timer(device, sets)
    assert device.captures[-1] == [i % sets for i in range(launches)]
    assert made.sample_us() == pytest.approx(kernel_us)


def test_a_contestant_that_fails_in_the_capture_ends_the_capture() -> None:
    device = FakeTorch(100.0)

    def launch(buffer_set: int) -> None:
        device.launch(buffer_set)
        if device.capturing:
            raise RuntimeError("not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        GraphTimer(device, launch, sets=1)
    assert not device.capturing


class FakeTimer:
    disturbed = 0

    def __init__(self, name: str, replay_us: float, note: Callable[[str], None]) -> None:
        self._name, self.replay_us, self._note = name, replay_us, note

    def sample_us(self) -> float:
        self._note(self._name)
        return self.replay_us / 10


def test_rounds_are_interleaved_and_begin_with_another_contestant() -> None:
    order: list[str] = []
    timers = {name: FakeTimer(name, us, order.append) for name, us in (("a", 10_000.0), ("b", 25_000.0))}
    timings = time_interleaved(timers, rounds=2, clock_mhz=lambda: 1410)  # type: ignore[arg-type]
    assert order == ["a"] * 35 + ["b"] * 14 + ["b"] * 14 + ["a"] * 35  # 0.2 s untimed, 0.15 s timed
    assert (timings["a"].samples, timings["b"].samples) == (30, 12)
    assert timings["a"].median_us == pytest.approx(1000.0)
    assert timings["a"].clock_mhz == 1410


def test_a_very_slow_contestant_is_replayed_once_a_round_without_settling() -> None:
    order: list[str] = []
    timings = time_interleaved({"a": FakeTimer("a", 1e6, order.append)}, rounds=3, clock_mhz=int)  # type: ignore[dict-item]
    assert (len(order), timings["a"].samples) == (3, 3)


def test_disturbed_samples_count_where_there_is_nothing_better() -> None:
    clean = [(float(us), 0) for us in (5, 4, 3, 2, 1)]
    assert undisturbed([*clean, (0.5, 1)]) == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert undisturbed([*clean[:4], (9.0, 3), (8.0, 1)]) == [5.0, 4.0, 3.0, 2.0, 8.0]
    assert undisturbed([(9.0, 3), (8.0, 1)]) == [8.0, 9.0]


def test_summary_of_samples() -> None:
    timing = summarise([4.0, 1.0, 2.0, 3.0, 5.0], 0)
    assert (timing.median_us, timing.min_us, timing.samples) == (3.0, 1.0, 5)
    assert timing.spread == pytest.approx(2.0 / 3.0)
    assert summarise([7.0], 0).spread == 0.0
