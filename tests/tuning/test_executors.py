"""The local executor: one worker a device, all at once, started and ended once."""

import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import ClassVar, Self

import pytest
from tuning_fakes import FACTS, ONE, PROBLEM, TARGET, FakeConfig, fake_cubins, timed

from im2wingen.compile_pool import CompilePool
from im2wingen.errors import Im2wingenError, UsageError
from im2wingen.outcome import Candidate, Evaluation, Timing
from im2wingen.problem import ConvProblem
from im2wingen.tuning import executors
from im2wingen.tuning.attempt import Compiled, rendered
from im2wingen.tuning.executors import LocalExecutor, device_facts
from im2wingen.tuning.study import Pick


class FakeWorker:
    made: ClassVar[list["FakeWorker"]] = []
    broken: ClassVar[bool] = False
    meeting: ClassVar[threading.Barrier] = threading.Barrier(1)

    def __init__(self, problem: ConvProblem, ordinal: int, *, run_timeout_s: float) -> None:
        self.ordinal, self.running, self.starts, self.ends = ordinal, False, 0, 0
        self.made.append(self)

    def __enter__(self) -> Self:
        if self.broken:
            raise Im2wingenError("the worker does not start")
        self.starts += 1
        self.interruptible = signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ends += 1

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        assert not self.running
        self.running = True
        self.meeting.wait(20)
        self.running = False
        return timed(float(self.ordinal))

    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]:
        return [timed(1.0).timing, *[None] * (len(candidates) - 1)]


@pytest.fixture(autouse=True)
def _fake_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "DeviceWorker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "made", [])


def pool(workers: int) -> CompilePool:
    return CompilePool(workers, 20.0)


def finalist() -> Compiled:
    pick = Pick(family=ONE, config=FakeConfig(threads=64, depth=2), trial=None)
    attempt = rendered(PROBLEM, TARGET, 0, pick)
    return Compiled(attempt=attempt, cubins=fake_cubins(attempt.sources))


def test_devices_work_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "meeting", threading.Barrier(3))  # nobody gets through alone
    with LocalExecutor(PROBLEM, FACTS, pool(2), ordinals=(0, 1, 3)) as executor:
        assert (executor.compile_slots, executor.device_slots) == (2, 3)
        for _ in range(2):
            answers: list[Future[Evaluation]] = [executor.evaluate(finalist().candidate, None) for _ in range(3)]
            times = [answer.result(20).timing for answer in answers]
            assert sorted(time.median_us for time in times if time) == [0, 1, 3]
    assert [(worker.starts, worker.ends) for worker in FakeWorker.made] == [(1, 1)] * 3


def test_control_c_does_not_reach_the_workers() -> None:
    with LocalExecutor(PROBLEM, FACTS, pool(1)) as executor:
        executor.evaluate(finalist().candidate, None).result(20)
    assert [worker.interruptible for worker in FakeWorker.made] == [False]


def test_what_keeps_a_worker_from_starting_is_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "broken", True)
    with LocalExecutor(PROBLEM, FACTS, pool(1)) as executor:
        for _ in range(2):
            with pytest.raises(Im2wingenError, match="does not start"):
                executor.evaluate(finalist().candidate, None).result(20)
    assert [worker.ends for worker in FakeWorker.made] == [0]


def test_a_play_off_answers_for_each_finalist() -> None:
    with LocalExecutor(PROBLEM, FACTS, pool(1)) as executor:
        won, lost = executor.play_off([finalist(), finalist()], 0.1).result(20)
    assert won is not None
    assert won.timing == timed(1.0).timing
    assert lost is None


def test_no_devices_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="devices is empty"):
        device_facts(())
