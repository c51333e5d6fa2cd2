"""The timing protocol on made-up clocks; nothing here asserts how fast this machine is."""

from collections.abc import Callable

import pytest

from im2wingen.cpu import measure
from im2wingen.cpu.measure import clock_mhz, probe_us, thread_environment, time_runs


class Clock:
    """A clock that runs only while a candidate does; `cores` is what the process has of them meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ns = self.cpu_ns = 0
        self.order: list[str] = []
        monkeypatch.setattr(measure.time, "perf_counter_ns", lambda: self.wall_ns)
        monkeypatch.setattr(measure.time, "perf_counter", lambda: self.wall_ns / 1e9)
        monkeypatch.setattr(measure.time, "process_time_ns", lambda: self.cpu_ns)

    def run(self, name: str, us: Callable[[int], float], cores: Callable[[int], float] = lambda i: 2.0) -> measure.Run:
        count = 0

        def run() -> None:
            nonlocal count
            passed = int(1000 * us(count))
            self.wall_ns += passed
            self.cpu_ns += int(passed * cores(count))
            self.order.append(name)
            count += 1

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_candidates_are_interleaved(clock: Clock) -> None:
    one, two = time_runs([clock.run("a", lambda i: 4000.0), clock.run("b", lambda i: 8000.0)], budget_s=0.1)
    assert (one.median_us, two.median_us) == (4000.0, 8000.0)
    assert (one.spread, two.spread) == (0.0, 0.0)
    rounds = clock.order[4:]  # after the warm-up
    assert rounds == ["a", "b"] * (len(rounds) // 2)
    assert one.samples == two.samples == len(rounds) // 2 >= 5


def test_short_runs_fill_a_sample(clock: Clock) -> None:
    (timing,) = time_runs([clock.run("a", lambda i: 10.0)], budget_s=0.06)
    assert timing.samples == 20
    assert len(clock.order) == 2 + 20 * 300  # of 3 ms


def test_a_slow_candidate_gets_five_rounds(clock: Clock) -> None:
    (timing,) = time_runs([clock.run("a", lambda i: 1e6)], budget_s=0.1)
    assert timing.samples == 5


def test_disturbed_samples_do_not_count(clock: Clock) -> None:
    def disturbed(i: int) -> bool:
        return i % 3 == 0

    run = clock.run("a", lambda i: 9000.0 if disturbed(i) else 5000.0, lambda i: 1.1 if disturbed(i) else 2.0)
    (timing,) = time_runs([run], budget_s=0.2)
    assert (timing.median_us, timing.min_us, timing.spread) == (5000.0, 5000.0, 0.0)
    assert timing.samples >= 5


def test_rounds_follow_until_enough_are_undisturbed(clock: Clock) -> None:
    quiet = {5, 11, 20, 30, 31}
    run = clock.run("a", lambda i: 5000.0 if i in quiet else 9000.0, lambda i: 2.0 if i in quiet else 1.0)
    (timing,) = time_runs([run], budget_s=0.1)
    assert (timing.median_us, timing.samples) == (5000.0, 5)
    assert len(clock.order) == 32


def test_a_machine_that_is_never_quiet_ends_too(clock: Clock) -> None:
    run = clock.run("a", lambda i: 5000.0 + i, lambda i: 2.0 if i == 7 else 1.0)
    (timing,) = time_runs([run], budget_s=0.1)
    assert timing.samples == 5
    assert clock.wall_ns < 1e9


def test_a_probe_ends_once_it_is_good_enough(clock: Clock) -> None:
    assert probe_us(clock.run("a", lambda i: 100.0 - i), enough_us=98.0) == 98.0
    assert len(clock.order) == 3
    assert probe_us(clock.run("b", lambda i: 100.0 + i), enough_us=50.0) == 100.0
    assert clock.order.count("b") == 16
    assert probe_us(clock.run("c", lambda i: 1e6), enough_us=50.0) == 1e6
    assert clock.order.count("c") == 1


def test_the_clock_of_this_machine_is_a_number() -> None:
    assert 0 <= clock_mhz() < 10_000


def test_threads_are_pinned() -> None:
    assert thread_environment(3) | {"OMP_WAIT_POLICY": "active"} == {
        "OMP_NUM_THREADS": "3", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "OMP_DYNAMIC": "false",
        "OMP_WAIT_POLICY": "active",
    }  # fmt: skip
