"""The loop with an executor whose answers take time: limits of what runs side by side, and a real Ctrl-C."""

import _thread
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tuning_fakes import ONE, PROBLEM, TWO, FakeExecutor, fake_cubins, time_us, timed

from im2wingen.db import TuningDatabase
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Evaluation, Outcome
from im2wingen.render import Source
from im2wingen.tune import tune
from im2wingen.tuning.progress import TuneProgress


class SlowExecutor(FakeExecutor):
    """Compiles and measures in threads; `most` is how many of each ran or waited at once."""

    def __init__(self, *, compile_slots: int, device_slots: int) -> None:
        super().__init__(compile_slots=compile_slots, device_slots=device_slots)
        self.threads = ThreadPoolExecutor(16)
        self.lock = threading.Lock()
        self.now = {"compile": 0, "device": 0}
        self.most = {"compile": 0, "device": 0}
        self.on_device: Callable[[int], None] = lambda number: None
        self.answer: Evaluation | None = None  # to every candidate

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]:
        return self._submit("compile", lambda: self._compiled(sources))

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        self.evaluated.append(candidate)
        number = len(self.evaluated)
        return self._submit("device", lambda: self._measured(candidate, number))

    def _submit(self, kind: str, work: Callable[[], Any]) -> Future[Any]:
        with self.lock:
            self.now[kind] += 1
            self.most[kind] = max(self.most[kind], self.now[kind])

        def run() -> Any:
            try:
                return work()
            finally:
                with self.lock:
                    self.now[kind] -= 1

        return self.threads.submit(run)

    def _compiled(self, sources: Sequence[Source]) -> tuple[Cubin, ...]:
        time.sleep(0.01)
        return fake_cubins(sources)

    def _measured(self, candidate: Candidate, number: int) -> Evaluation:
        self.on_device(number)
        time.sleep(0.01)
        return self.answer or timed(time_us(candidate))


@pytest.fixture(autouse=True)
def _fake_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE, "two": TWO})


@contextmanager
def opened(tmp_path: Path) -> Iterator[TuningDatabase]:
    with TuningDatabase.open(str(tmp_path / "tuning.sqlite")) as database:
        yield database


@pytest.mark.parametrize(("compile_slots", "device_slots"), [(1, 1), (4, 1), (4, 3)])
def test_work_side_by_side_stays_within_the_slots(tmp_path: Path, compile_slots: int, device_slots: int) -> None:
    executor = SlowExecutor(compile_slots=compile_slots, device_slots=device_slots)
    heard: list[TuneProgress] = []
    with opened(tmp_path) as database:
        result = tune(PROBLEM, executor=executor, db=database, max_trials=40, on_progress=heard.append)
        records = [record for record in database.trials(result.study) if not record.play_off]
    assert executor.most["compile"] == compile_slots
    assert executor.most["device"] == device_slots
    # each compiler may add one to a line that had room
    assert max(progress.ready for progress in heard) <= 2 * device_slots + compile_slots
    assert [record.trial for record in records] == list(range(40))
    assert len({(record.family, record.config_digest) for record in records}) == 40


def test_control_c_ends_cleanly(tmp_path: Path) -> None:
    executor = SlowExecutor(compile_slots=2, device_slots=1)
    executor.on_device = lambda number: _thread.interrupt_main() if number == 10 else None
    with opened(tmp_path) as database:
        result = tune(PROBLEM, executor=executor, db=database, max_trials=1000)
        records = database.trials(result.study)
    assert result.stopped_by == "interrupted"
    assert 9 <= result.trials == len(records)
    assert result.best is not None
    assert not executor.finalists
    assert not executor.open


def test_the_deadline_waits_for_what_a_device_has_begun(tmp_path: Path) -> None:
    executor = SlowExecutor(compile_slots=2, device_slots=1)
    executor.on_device = lambda number: time.sleep(1.0)
    with opened(tmp_path) as database:
        result = tune(PROBLEM, executor=executor, db=database, time_budget_s=0.7)
    assert result.stopped_by == "time"
    assert result.trials == len(executor.evaluated)
    assert result.best is not None
    assert result.best.play_off


def test_a_budget_shorter_than_the_set_up_still_runs_one(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        result = tune(PROBLEM, executor=SlowExecutor(compile_slots=2, device_slots=1), db=database, time_budget_s=1e-6)
    assert result.stopped_by == "time"
    assert result.best is not None
    assert result.best.play_off


def test_a_budget_is_not_exceeded_for_ever(tmp_path: Path) -> None:
    executor = SlowExecutor(compile_slots=2, device_slots=1)
    executor.answer = Evaluation(outcome=Outcome.WRONG_RESULT, reason="it is wrong")
    with opened(tmp_path) as database:
        result = tune(PROBLEM, executor=executor, db=database, time_budget_s=1e-6)
    assert result.stopped_by == "time"
    assert result.best is None
    assert 8 <= result.trials <= 10  # with what was under way
