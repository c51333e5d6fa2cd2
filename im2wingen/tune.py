"""tune: search the configs of a problem on the user's device, or for a device that is not here."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from im2wingen.backends import Backend, resolve_backend
from im2wingen.compile_pool import CompilePool
from im2wingen.cost_model import estimate_us
from im2wingen.db import LayeredRecords, ShippedRecords, TrialRecord, TuningDatabase, utc_now
from im2wingen.db.look_up import is_refutation
from im2wingen.errors import UsageError
from im2wingen.families import families_for, family_names
from im2wingen.families.base import AnyTarget, Cores, Family
from im2wingen.outcome import Outcome
from im2wingen.problem import ConvProblem
from im2wingen.settings import read_settings
from im2wingen.target import Target
from im2wingen.tuning.attempt import RecordMaker
from im2wingen.tuning.cpu_executor import CpuExecutor, cpu_compiler_pool, cpu_facts
from im2wingen.tuning.executors import Executor, LocalExecutor, compiler_pool, device_facts
from im2wingen.tuning.playoff import play_off
from im2wingen.tuning.prediction import PredictingExecutor
from im2wingen.tuning.progress import OnProgress, Phase, TuneProgress
from im2wingen.tuning.seeding import config_of, seeds
from im2wingen.tuning.session import Limits, Search, StopReason
from im2wingen.tuning.standings import Standings
from im2wingen.tuning.study import Pick, TuningStudy

DEFAULT_TIME_BUDGET_S = 45.0
_PLAY_OFF_SHARE, _MAX_PLAY_OFF_S = 0.15, 6.0  # of the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What a tuning run found; all of it is in the database, under `study`."""

    problem: ConvProblem
    target: AnyTarget
    study: str
    best: TrialRecord | None  # of the play-off, where there was one; None if no config ran
    default: TrialRecord | None  # the default config of the best's family, measured like the best
    trials: int  # ended in this run
    restored: int  # taken over from earlier runs
    illegal_picks: int  # broke a rule, so nothing was compiled for them; not trials and not stored
    counts: Mapping[Outcome, int]  # of this run's trials
    elapsed_s: float
    stopped_by: StopReason

    @property
    def gain(self) -> float | None:
        """How many times as fast as its family's default config the best is."""
        if self.best is None or self.default is None or not self.best.median_us or not self.default.median_us:
            return None
        return self.default.median_us / self.best.median_us


def tune(
    problem: ConvProblem,
    *,
    target: Target | None = None,
    devices: Sequence[int] | None = None,
    backend: Backend | None = None,
    threads: int | None = None,
    families: Sequence[str] | None = None,
    cores: Cores | None = None,
    time_budget_s: float = DEFAULT_TIME_BUDGET_S,
    max_trials: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    resume: bool = False,
    db: TuningDatabase | str | None = None,
    executor: Executor | None = None,
    pool: CompilePool | None = None,
    on_progress: OnProgress | None = None,
) -> TuneResult:
    """Search until `time_budget_s` of wall time (set-up and play-off included) or `max_trials` are used up.

    A tenth of the budget, 4 seconds at most, is for the play-off at the end. A budget too short for the set-up is
    exceeded until a first config has run. Also ends after `patience` trials in a
    row without a new best, where the search space is exhausted, and at Ctrl-C, which loses nothing that was measured.
    `backend` None means the GPU or, where there is none and neither `target` nor `devices` ask for one, this machine's
    CPU if it can run the problem. `devices` are CUDA ordinals, (0,) if None; a preset `target` means prediction;
    `threads` are the CPU's, one a core if None. `cores`: only families that multiply on `cuda` or on `tensor` cores.
    `resume` goes on with the problem's latest study of the same device, compiler and templates. `db` is a database, a
    path or URL, or None for the user's. A `pool` given serves several calls and saves each the start of its compilers.
    With equal seeds the picks are equal as far as the order in which trials end is.

    Compilers and device workers are fresh processes that never import the caller's script. Raises UsageError,
    UnsupportedError, NoDeviceError, DatabaseError, and our own trouble when it keeps coming.
    """
    started = time.monotonic()
    _check_positive("time_budget_s", time_budget_s)
    _check_positive("max_trials", max_trials)
    _check_positive("patience", patience)
    families = family_names(families, cores)
    with ExitStack() as stack:
        if executor is None:
            asks_for_gpu = target is not None or devices is not None or cores is not None
            place = resolve_backend(
                problem, backend, threads=threads, asks_for_gpu=asks_for_gpu, families=families
            )  # fmt: skip
            if place == "cpu":
                pool = pool or stack.enter_context(cpu_compiler_pool())
                executor = CpuExecutor(problem, cpu_facts(threads), pool)
            else:
                pool = pool or stack.enter_context(compiler_pool())
                executor = _executor(problem, target, (0,) if devices is None else devices, pool)
        able = families_for(problem, executor.facts.target, families)
        database = (
            db
            if isinstance(db, TuningDatabase)
            else stack.enter_context(TuningDatabase.open(db or read_settings().db_url))
        )
        if database.read_only:
            raise UsageError("db was opened read-only; allowed is a database that takes new trials")
        play_off_s = min(_PLAY_OFF_SHARE * time_budget_s, _MAX_PLAY_OFF_S)
        limits = Limits(deadline_s=started + time_budget_s - play_off_s, max_trials=max_trials, patience=patience)
        run = _Run(
            problem, executor, able, database, limits,
            started=started, play_off_s=play_off_s, seed=seed, resume=resume, on_progress=on_progress,
        )  # fmt: skip
        return run.tune()


class _Run:
    """One call of tune: set-up, search, play-off, result."""

    def __init__(
        self,
        problem: ConvProblem,
        executor: Executor,
        families: Sequence[Family],
        database: TuningDatabase,
        limits: Limits,
        *,
        started: float,
        play_off_s: float,
        seed: int,
        resume: bool,
        on_progress: OnProgress | None,
    ) -> None:
        self._problem, self._executor, self._database, self._limits = problem, executor, database, limits
        self._target = executor.facts.target
        self._families = {family.name: family for family in families}
        self._started, self._play_off_s, self._seed, self._on_progress = started, play_off_s, seed, on_progress
        self._defaults = {family.name: family.default(problem, self._target) for family in families}
        self._study = TuningStudy(problem, self._target, families, seed=seed)
        self._standings = Standings()
        self._maker = RecordMaker(
            problem=problem,
            target=self._target,
            driver_version=executor.facts.driver_version,
            protocol_version=executor.facts.protocol_version,
            study=f"tune-{utc_now()}",
        )
        self._phase: Phase = "setup"
        self._restored = 0
        self._best: TrialRecord | None = None
        first_trial = self._restore() if resume else 0
        self._search = Search(
            self._study,
            self._executor,
            self._maker,
            self._standings,
            self._limits,
            first_trial=first_trial,
            report=self._report,
        )

    def tune(self) -> TuneResult:
        stopped_by: StopReason = "interrupted"
        with self._executor:
            self._progress(None)
            try:
                self._enqueue_seeds()
                self._phase = "search"
                stopped_by = self._search.run()
                self._phase = "play_off"
                self._progress(None)
                self._play_off()
            except KeyboardInterrupt:
                stopped_by = "interrupted"
                self._search.salvage()
        self._phase = "done"
        self._progress(None)
        return self._result(stopped_by)

    def _restore(self) -> int:
        """Take over the latest study that this run can go on with; the number of its next trial."""
        for study in self._database.studies(self._problem.key):
            records = self._database.trials(study)
            fitting = [record for record in records if self._maker.fits(record, self._families)]
            if fitting:
                self._maker = replace(self._maker, study=study)
                for record in fitting:
                    self._restore_trial(record)
                return 1 + max(record.trial for record in records)  # those of other families have numbers too
        return 0

    def _restore_trial(self, record: TrialRecord) -> None:
        if is_refutation(record):
            self._standings.refute(record)
            return
        family = self._families[record.family]
        config = config_of(family, record)
        pruned = record.outcome != Outcome.OK
        if config is None or not self._study.restore(family, config, record.median_us, pruned=pruned):
            return  # a play-off's record of a known trial, for one
        self._restored += 1
        self._standings.add(Pick(family=family, config=config, trial=None), record, None)

    def _enqueue_seeds(self) -> None:
        families = sorted(self._families.values(), key=self._default_us)  # a short budget may end after the first
        for family in families:
            self._study.enqueue(family, self._defaults[family.name])
        records = LayeredRecords((self._database, ShippedRecords()))
        self._study.seed(seeds(self._problem, self._target, families, records, seed=self._seed))

    def _default_us(self, family: Family) -> float:
        return estimate_us(family.plan(self._problem, self._target, self._defaults[family.name]), self._target)

    def _play_off(self) -> None:
        """The winner becomes the best; where none could be measured, the best of the search that isn't wrong stands."""
        defaults = {(name, config.digest()) for name, config in self._defaults.items()}
        records = play_off(self._standings, defaults, self._executor, self._maker, seconds=self._play_off_s)
        self._database.record_all(records)  # all or none: half a play-off would crown the wrong one
        for record in records:
            if is_refutation(record):
                self._standings.refute(record)
            else:
                self._standings.note(record)
                self._best = self._best or record
            self._progress(record)

    def _report(self, record: TrialRecord) -> None:
        self._database.record(record)
        self._progress(record)

    def _leader(self) -> TrialRecord | None:
        leader = self._standings.best
        return self._best or (leader.record if leader else None)

    def _progress(self, last: TrialRecord | None) -> None:
        if self._on_progress is not None:
            self._on_progress(
                TuneProgress(
                    phase=self._phase,
                    elapsed_s=time.monotonic() - self._started,
                    time_budget_s=self._limits.deadline_s + self._play_off_s - self._started,
                    max_trials=self._limits.max_trials,
                    trials=self._search.counts.total(),
                    restored=self._restored,
                    counts=dict(self._search.counts),
                    compiling=self._search.compiling,
                    ready=self._search.ready,
                    best=self._leader(),
                    last=last,
                )
            )

    def _result(self, stopped_by: StopReason) -> TuneResult:
        best, default = self._leader(), None
        if best is not None:
            default = self._standings.timed((best.family, self._defaults[best.family].digest()))
        return TuneResult(
            problem=self._problem,
            target=self._target,
            study=self._maker.study,
            best=best,
            default=default,
            trials=self._search.counts.total(),
            restored=self._restored,
            illegal_picks=self._study.illegal,
            counts=dict(self._search.counts),
            elapsed_s=time.monotonic() - self._started,
            stopped_by=stopped_by,
        )


def _executor(problem: ConvProblem, target: Target | None, devices: Sequence[int], pool: CompilePool) -> Executor:
    if target is not None and target.predicted:
        return PredictingExecutor(problem, target, pool)
    facts = device_facts(devices)
    if target is not None and target != facts.target:
        raise UsageError(f"target is {target.name} ({target.arch}); the device here is {facts.target.name}")
    return LocalExecutor(problem, facts, pool, ordinals=devices)


def _check_positive(field: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise UsageError(f"{field} is {value!r}; allowed is a number above 0")
