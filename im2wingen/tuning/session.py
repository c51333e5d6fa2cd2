"""The loop of a tuning run: asks ahead while the pool compiles, keeps the devices busy, records what comes back."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from im2wingen.db import TrialRecord
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Evaluation, Outcome
from im2wingen.tuning.attempt import Attempt, Compiled, RecordMaker, forbidden, rendered
from im2wingen.tuning.executors import Executor
from im2wingen.tuning.standings import Standings
from im2wingen.tuning.study import TuningStudy

log = logging.getLogger(__name__)

StopReason = Literal["time", "trials", "patience", "exhausted", "interrupted"]

_FIRST_TRIALS = 8  # without a config that ran among them, the time budget is exceeded
_READY_PER_DEVICE = 2  # compiled candidates in line, above which no pick is made
_MAX_TROUBLES = 3  # failures of ours in a row before the run ends with the last of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When no new trial starts: a time.monotonic() moment, a number of trials, trials in a row without a new best."""

    deadline_s: float
    max_trials: int | None = None
    patience: int | None = None


@dataclass(slots=True, kw_only=True)
class _Kernels:
    """Machine code that was met: what became of it, or who waits to hear."""

    first: Compiled
    evaluation: Evaluation | None = None
    followers: list[Compiled] = field(default_factory=list)


class Search:
    """One run's search: from the study's picks to records. `report` hears of each record at once."""

    def __init__(
        self,
        study: TuningStudy,
        executor: Executor,
        maker: RecordMaker,
        standings: Standings,
        limits: Limits,
        *,
        first_trial: int,
        report: Callable[[TrialRecord], None],
    ) -> None:
        self._study, self._executor, self._maker, self._standings = study, executor, maker, standings
        self._limits, self._report = limits, report
        self._next_number = first_trial
        self._compiling: dict[Future[tuple[Cubin, ...]], Attempt] = {}
        self._ready: deque[Compiled] = deque()
        self._running: dict[Future[Evaluation], Compiled] = {}
        self._kernels: dict[Hashable, _Kernels] = {}
        self._exhausted = False
        self._troubles = 0
        self._since_best = 0
        self.started = 0
        self.counts: Counter[Outcome] = Counter()

    @property
    def compiling(self) -> int:
        return len(self._compiling)

    @property
    def ready(self) -> int:
        return len(self._ready)

    def run(self) -> StopReason:
        """Search until a limit is met or the space is exhausted; KeyboardInterrupt passes through.

        Raises our own trouble (Im2wingenError) when it keeps coming. What was recorded stays recorded.
        """
        while (stop := self._stop_reason()) is None:
            self._start_running()
            hungry = self._start_compiling()
            if not (self._compiling or self._running or hungry):
                return "trials" if self._trials_left() <= 0 else "exhausted"
            self._wait(0.0 if hungry else None if self._overtime() else self._limits.deadline_s - time.monotonic())
            self._collect()
        self._drop_waiting()
        while self._running:
            self._wait(None)
            self._collect()
        return stop

    def salvage(self) -> None:
        """After an interruption: record what had ended by then."""
        self._drop_waiting()
        self._running = {f: c for f, c in self._running.items() if f.done() and f.exception() is None}
        self._collect()

    def _stop_reason(self) -> StopReason | None:
        if time.monotonic() >= self._limits.deadline_s and not self._overtime():
            return "time"
        if self._limits.patience is not None and self._since_best >= self._limits.patience:
            return "patience"
        return None

    def _overtime(self) -> bool:
        """Whether the search goes on at its deadline: no user wants to end with nothing."""
        return self._standings.best_us is None and self.counts.total() < _FIRST_TRIALS

    def _trials_left(self) -> float:
        return float("inf") if self._limits.max_trials is None else self._limits.max_trials - self.started

    def _start_running(self) -> None:
        while self._ready and len(self._running) < self._executor.device_slots:
            compiled = self._ready.popleft()
            self._running[self._executor.evaluate(compiled.candidate, self._standings.best_us)] = compiled

    def _start_compiling(self) -> bool:
        """Start one more config; True if there is room for another.

        Every compiler is kept busy, but no more than two candidates a device wait: later picks know more.
        """
        if not self._has_room():
            return False
        pick = self._study.next()
        if pick is None:
            self._exhausted = True
            return False
        attempt = rendered(self._maker.problem, self._maker.target, self._next_number, pick)
        self._next_number += 1
        self.started += 1
        self._compiling[self._executor.compile(attempt.sources)] = attempt
        return self._has_room()

    def _has_room(self) -> bool:
        return (
            not self._exhausted
            and self._trials_left() > 0
            and len(self._compiling) < self._executor.compile_slots
            and len(self._ready) < _READY_PER_DEVICE * self._executor.device_slots
        )

    def _wait(self, timeout_s: float | None) -> None:
        pending: list[Future[Any]] = [*self._compiling, *self._running]
        if pending:
            wait(pending, None if timeout_s is None else max(0.0, timeout_s), FIRST_COMPLETED)

    def _drop_waiting(self) -> None:
        """Give up what no device has begun."""
        for future in self._compiling:
            future.cancel()
        self.started -= len(self._compiling) + len(self._ready)
        self._compiling.clear()
        self._ready.clear()

    def _collect(self) -> None:
        """Take in, in the order of their start, the jobs that are done."""
        for compiling in [future for future in self._compiling if future.done()]:
            self._compiled(self._compiling.pop(compiling), compiling)
        for running in [future for future in self._running if future.done()]:
            self._evaluated(self._running.pop(running), running)

    def _compiled(self, attempt: Attempt, future: Future[tuple[Cubin, ...]]) -> None:
        try:
            compiled = Compiled(attempt=attempt, cubins=future.result())
        except CompileError as error:
            self._finish(attempt, Evaluation(outcome=Outcome.COMPILE_ERROR, reason=str(error)))
        except CompileTimeoutError as error:
            self._finish(attempt, Evaluation(outcome=Outcome.COMPILE_TIMEOUT, reason=str(error)))
        except Im2wingenError as error:
            self._trouble([attempt], error)
        else:
            self._meet(compiled)

    def _meet(self, compiled: Compiled) -> None:
        """Have it run, unless it must not run or its kernels are known."""
        refused = forbidden(compiled, self._maker.target)
        known = self._kernels.get(compiled.kernels)
        if refused is not None:
            self._finish(compiled.attempt, refused, compiled.cubins)
        elif known is None:
            self._kernels[compiled.kernels] = _Kernels(first=compiled)
            self._ready.append(compiled)
        elif known.evaluation is None:
            known.followers.append(compiled)
        else:
            self._follow(compiled, known.first, known.evaluation)

    def _evaluated(self, compiled: Compiled, future: Future[Evaluation]) -> None:
        known = self._kernels[compiled.kernels]
        try:
            known.evaluation = future.result()
        except Im2wingenError as error:
            del self._kernels[compiled.kernels]
            self._trouble([compiled.attempt, *(follower.attempt for follower in known.followers)], error)
            return
        self._troubles = 0
        self._finish(compiled.attempt, known.evaluation, compiled.cubins, contender=compiled)
        for follower in known.followers:
            self._follow(follower, compiled, known.evaluation)
        known.followers.clear()

    def _follow(self, compiled: Compiled, first: Compiled, evaluation: Evaluation) -> None:
        same = f"its kernels are those of trial {first.attempt.number}"
        reason = f"{same}: {evaluation.reason}" if evaluation.reason else same
        self._finish(compiled.attempt, replace(evaluation, reason=reason), compiled.cubins)

    def _finish(
        self,
        attempt: Attempt,
        evaluation: Evaluation,
        cubins: tuple[Cubin, ...] = (),
        *,
        contender: Compiled | None = None,
    ) -> None:
        """A trial is over: the study learns, the standings change, the record goes out."""
        median_us = evaluation.timing.median_us if evaluation.timing else None
        if evaluation.outcome == Outcome.OK and median_us is not None:
            self._study.complete(attempt.pick, median_us)
        else:
            self._study.prune(attempt.pick, median_us)
        record = self._maker.record(attempt, evaluation, cubins)
        best_before = self._standings.best_us
        if contender is None:
            self._standings.note(record)
        else:
            self._standings.add(attempt.pick, record, contender)
        self._since_best = 0 if self._standings.best_us != best_before else self._since_best + 1
        self.counts[evaluation.outcome] += 1
        self._report(record)

    def _trouble(self, attempts: list[Attempt], error: Im2wingenError) -> None:
        """We failed, not the configs: they may come again; raises the error when that keeps happening."""
        log.warning("trial %d is given back: %s", attempts[0].number, error)
        for attempt in attempts:
            self._study.fail(attempt.pick)
        self.started -= len(attempts)
        self._exhausted = False
        self._troubles += 1
        if self._troubles >= _MAX_TROUBLES:
            raise error
