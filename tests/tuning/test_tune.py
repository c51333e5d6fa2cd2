"""A whole tuning run on fake families and a fake device, with the real database."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tuning_fakes import ONE, PROBLEM, TARGET, TWO, FakeConfig, FakeExecutor, fake_cubins, time_us, timed

from im2wingen.db import LayeredRecords, TrialRecord, TuningDatabase
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError, UnsupportedError, UsageError
from im2wingen.families.base import Config, Family
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Evaluation, Outcome
from im2wingen.render import Source, template_digest
from im2wingen.tune import TuneResult, tune
from im2wingen.tuning.progress import TuneProgress


@pytest.fixture(autouse=True)
def _fake_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE, "two": TWO})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[TuningDatabase]:
    with TuningDatabase.open(str(tmp_path / "tuning.sqlite")) as opened:
        yield opened


def run(executor: FakeExecutor, database: TuningDatabase, *, trials: int = 20, **options: object) -> TuneResult:
    return tune(PROBLEM, executor=executor, db=database, max_trials=trials, **options)  # type: ignore[arg-type]


def searched(database: TuningDatabase, result: TuneResult) -> list[TrialRecord]:
    return [record for record in database.trials(result.study) if not record.play_off]


def block(candidate: Candidate) -> int:
    return candidate.plan.launches[0].block


def test_every_trial_is_recorded_with_what_makes_it_comparable(database: TuningDatabase) -> None:
    result = run(FakeExecutor(), database, trials=20)
    records = searched(database, result)
    assert result.stopped_by == "trials"
    assert [record.trial for record in records] == list(range(20))
    assert result.trials == 20
    assert result.counts == {Outcome.OK: 20}
    first = records[0]
    assert (first.problem_key, first.device_name, first.arch) == (PROBLEM.key, "Fake GPU", "sm_90a")
    assert (first.driver_version, first.protocol_version, first.predicted) == ("1.2", 7, False)
    assert first.template_digest == template_digest(ONE.templates)
    assert (first.max_error, first.samples, first.num_regs) == (1e-3, 7, 32)
    assert first.workspace_bytes
    assert first.cubin_sha256
    assert not {record.created_at for record in records} & {""}


def test_the_defaults_compile_before_seeds_are_looked_for(
    database: TuningDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost model's draws take seconds, which a short budget has not."""
    events: list[str] = []

    def compiler(sources: Sequence[Source]) -> tuple[Cubin, ...]:
        events.append("compile")
        return fake_cubins(sources)

    def late(*_: object, seed: int) -> Iterator[tuple[Family, Config]]:
        events.append("seeds")
        yield from ()

    monkeypatch.setattr(sys.modules["im2wingen.tune"], "seeds", late)  # the package has a function of this name
    run(FakeExecutor(compiler=compiler), database, trials=5)
    assert events[:4] == ["compile", "compile", "seeds", "compile"]


def test_it_finds_the_best_and_states_the_gain(database: TuningDatabase) -> None:
    result = run(FakeExecutor(), database, trials=60)
    assert result.best is not None
    assert result.default is not None
    assert (result.best.family, result.best.config["threads"], result.best.config["depth"]) == ("one", 128, 8)
    assert result.best.play_off
    assert result.default.play_off
    assert result.gain == pytest.approx(194 / 100)
    stored = LayeredRecords((database,)).best(
        PROBLEM.key, arch="sm_90a", template_digests={"one": template_digest(ONE.templates)}
    )  # fmt: skip
    assert stored == [result.best]


def test_defaults_stored_and_estimated_configs_come_first(database: TuningDatabase) -> None:
    wider = replace(PROBLEM, n=4)
    elsewhere = tune(wider, executor=FakeExecutor(), db=database, max_trials=40)
    assert elsewhere.best is not None
    executor = FakeExecutor()
    run(executor, database, trials=12)
    first, second, third = executor.evaluated[:3]
    assert [first.family, second.family] == ["one", "two"]
    assert first.config_digest == second.config_digest == FakeConfig(threads=32, depth=1).digest()
    assert (third.family, third.config_digest) == (elsewhere.best.family, elsewhere.best.config_digest)
    # the cost model knows that deep is fast, so its favourites are deep
    assert all(candidate.plan.launches[0].smem_bytes // 1024 >= 4 for candidate in executor.evaluated[3:6])


def test_equal_seeds_give_equal_runs(database: TuningDatabase) -> None:
    first, second = (FakeExecutor() for _ in range(2))
    empty = TuningDatabase.open("sqlite://")
    run(first, database, trials=25, seed=5)
    run(second, empty, trials=25, seed=5)
    assert [c.config_digest for c in first.evaluated] == [c.config_digest for c in second.evaluated]


def test_equal_kernels_run_once(database: TuningDatabase) -> None:
    executor = FakeExecutor()
    result = run(executor, database, trials=80)
    kernels = [(c.cubins[0].sha256, c.plan.launches[0].smem_bytes) for c in executor.evaluated]
    assert len(set(kernels)) == len(kernels) < 80
    records = searched(database, result)
    assert len(records) == 80
    copies = [record for record in records if "its kernels are those of trial" in record.reason]
    assert len(copies) == 80 - len(kernels)
    by_number = {record.trial: record for record in records}
    for copy in copies:
        assert copy.median_us == by_number[int(copy.reason.split()[-1])].median_us
    finalists = {(f.cubins[0].sha256, f.candidate.plan.launches[0].smem_bytes) for f in executor.finalists}
    assert len(finalists) == len(executor.finalists)


def test_what_a_config_causes_is_an_outcome(database: TuningDatabase) -> None:
    def compiler(sources: Sequence[Source]) -> tuple[Cubin, ...]:
        text = sources[0].text
        if "THREADS = 192;" in text:
            raise CompileError("pack_filter", "no such thing")
        if "THREADS = 256;" in text:
            raise CompileTimeoutError("it took too long")
        return fake_cubins(sources, spill_bytes=8 * ("THREADS = 96;" in text))

    def device(candidate: Candidate, best_us: float | None) -> Evaluation:
        if block(candidate) == 64:
            return Evaluation(outcome=Outcome.WRONG_RESULT, reason="it is wrong")
        if best_us is not None and time_us(candidate) > 1.5 * best_us:
            return replace(timed(time_us(candidate)), outcome=Outcome.SLOWER, reason="it is slow")
        return timed(time_us(candidate))

    result = run(FakeExecutor(compiler=compiler, device=device), database, trials=60)
    wanted = {
        Outcome.OK, Outcome.COMPILE_ERROR, Outcome.COMPILE_TIMEOUT, Outcome.SPILLS, Outcome.WRONG_RESULT, Outcome.SLOWER
    }  # fmt: skip
    assert set(result.counts) == wanted
    assert all(r.reason for r in database.trials(result.study) if r.outcome != Outcome.OK)
    assert result.best is not None
    assert result.best.config["threads"] == 128


def test_kernels_that_do_not_fit_never_run(database: TuningDatabase) -> None:
    # static and dynamic shared memory together; a CTA has 227 KiB
    executor = FakeExecutor(compiler=lambda sources: fake_cubins(sources, smem_bytes=225 * 1024))
    result = run(executor, database, trials=60, families=["one"])
    refused = [record for record in searched(database, result) if record.outcome == Outcome.ILLEGAL]
    assert refused
    assert {record.config["depth"] for record in refused} == {3, 4, 6, 8}
    assert all("bytes of shared memory" in record.reason for record in refused)


def test_resume_goes_on_where_it_was(database: TuningDatabase) -> None:
    first = run(FakeExecutor(), database, trials=15)
    again = FakeExecutor()
    second = run(again, database, trials=15, resume=True)
    assert second.study == first.study
    assert (second.restored, second.trials) == (15, 15)
    records = searched(database, second)
    assert [record.trial for record in records] == list(range(30))
    configs = [(record.family, record.config_digest) for record in records]
    assert len(set(configs)) == 30
    assert second.best is not None
    assert first.best is not None
    assert second.best.median_us is not None
    assert first.best.median_us is not None
    assert second.best.median_us <= first.best.median_us


def test_finalists_of_an_earlier_run_are_compiled_again(database: TuningDatabase) -> None:
    first = run(FakeExecutor(), database, trials=60)
    again = FakeExecutor(device=lambda candidate, best_us: timed(900.0))
    second = run(again, database, trials=2, resume=True)
    assert second.best is not None
    assert first.best is not None
    assert second.best.config_digest == first.best.config_digest
    assert second.best.trial == first.best.trial


@pytest.mark.parametrize(
    "change",
    [{"driver_version": "2"}, {"protocol_version": 8}, {"target": replace(TARGET, name="Other GPU")}],
)
def test_resume_takes_comparable_trials_alone(database: TuningDatabase, change: dict[str, object]) -> None:
    first = run(FakeExecutor(), database, trials=5)
    executor = FakeExecutor()
    executor.facts = replace(executor.facts, **change)  # type: ignore[arg-type]
    second = run(executor, database, trials=5, resume=True)
    same_times = "driver_version" in change  # a driver changes no machine code
    assert second.restored == (5 if same_times else 0)
    assert (second.study == first.study) == same_times


def test_interruption_keeps_what_was_done(database: TuningDatabase) -> None:
    calls = 0

    def device(candidate: Candidate, best_us: float | None) -> Evaluation:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return timed(time_us(candidate))

    executor = FakeExecutor(device=device)
    result = run(executor, database, trials=20)
    assert result.stopped_by == "interrupted"
    assert result.trials >= 5
    assert len(searched(database, result)) == result.trials
    assert result.best is not None
    assert not result.best.play_off
    assert not executor.open


def test_interrupted_play_off_leaves_the_search_result(database: TuningDatabase) -> None:
    def referee(candidate: Candidate) -> Evaluation:
        raise KeyboardInterrupt

    result = run(FakeExecutor(referee=referee), database, trials=10)
    assert result.stopped_by == "interrupted"
    assert result.trials == 10
    assert result.best is not None


def test_the_play_off_decides(database: TuningDatabase) -> None:
    """The search's times were lucky: side by side the order is the other way round."""
    executor = FakeExecutor(referee=lambda candidate: timed(1000.0 - time_us(candidate)))
    result = run(executor, database, trials=60)
    numbers = {finalist.attempt.number for finalist in executor.finalists}
    best = min(time_us(f.candidate) for f in executor.finalists)
    assert 2 <= len(executor.finalists) <= 13
    outside = [f for f in executor.finalists if time_us(f.candidate) > 1.15 * best]
    assert len(outside) <= 1  # the default, that the gain over it is measured side by side
    slowest = max((f.candidate for f in executor.finalists), key=time_us)
    assert result.best is not None
    assert result.best.config_digest == slowest.config_digest
    played = [record for record in database.trials(result.study) if record.play_off]
    assert {record.trial for record in played} == numbers


def test_a_tie_breaks_by_the_digest(database: TuningDatabase) -> None:
    executor = FakeExecutor(referee=lambda candidate: timed(7.0))
    result = run(executor, database, trials=30)
    assert result.best is not None
    assert result.best.config_digest == min(f.candidate.config_digest for f in executor.finalists)


def test_a_play_off_that_could_not_be_held_leaves_the_search_result(database: TuningDatabase) -> None:
    def broken(candidate: Candidate) -> Evaluation:
        raise Im2wingenError("the device went away")

    for referee in (lambda candidate: None, broken):
        result = run(FakeExecutor(referee=referee), database, trials=40)
        assert result.best is not None
        assert not result.best.play_off


def test_the_time_budget_ends_the_search(database: TuningDatabase) -> None:
    started = time.monotonic()

    def device(candidate: Candidate, best_us: float | None) -> Evaluation:
        time.sleep(0.02)
        return timed(time_us(candidate))

    result = tune(PROBLEM, executor=FakeExecutor(device=device), db=database, time_budget_s=0.5)
    assert result.stopped_by == "time"
    assert result.trials > 0
    assert 0.42 <= result.elapsed_s <= time.monotonic() - started  # 0.15 of it is the play-off's


def test_patience_and_exhaustion_end_the_search(database: TuningDatabase) -> None:
    flat = FakeExecutor(device=lambda candidate, best_us: timed(5.0))
    result = tune(PROBLEM, executor=flat, db=database, patience=10)
    assert (result.stopped_by, result.trials) == ("patience", 11)
    result = tune(PROBLEM, executor=FakeExecutor(), db=database, families=["two"])
    legal = sum(threads * depth <= 1024 for threads in (32, 64, 96, 128, 192, 256) for depth in (1, 2, 3, 4, 6, 8))
    assert (result.stopped_by, result.trials) == ("exhausted", 3 * legal)
    assert {record.family for record in database.trials(result.study)} == {"two"}


def test_our_trouble_is_no_outcome(database: TuningDatabase) -> None:
    calls = 0

    def device(candidate: Candidate, best_us: float | None) -> Evaluation:
        nonlocal calls
        calls += 1
        if calls % 3:
            raise Im2wingenError("the worker is out of memory")
        return timed(time_us(candidate))

    result = run(FakeExecutor(device=device), database, trials=10)
    assert result.counts == {Outcome.OK: 10}


def test_trouble_that_keeps_coming_is_raised(database: TuningDatabase) -> None:
    def device(candidate: Candidate, best_us: float | None) -> Evaluation:
        raise Im2wingenError("the worker does not start")

    executor = FakeExecutor(device=device)
    with pytest.raises(Im2wingenError, match="does not start"):
        run(executor, database)
    assert len(executor.evaluated) == 3
    assert not executor.open

    def compiler(sources: Sequence[Source]) -> tuple[Cubin, ...]:
        raise Im2wingenError("NVRTC is not installed")

    with pytest.raises(Im2wingenError, match="NVRTC"):
        run(FakeExecutor(compiler=compiler), database)


def test_progress_tells_each_step(database: TuningDatabase) -> None:
    heard: list[TuneProgress] = []
    result = run(FakeExecutor(), database, trials=10, on_progress=heard.append)
    assert [heard[0].phase, heard[-1].phase] == ["setup", "done"]
    assert [p.trials for p in heard if p.phase == "search"] == list(range(1, 11))
    assert {p.phase for p in heard if p.last and p.last.play_off} == {"play_off"}
    assert heard[-1].best == result.best
    assert heard[-1].counts == result.counts


@pytest.mark.parametrize(("cores", "family"), [("cuda", "one"), ("tensor", "two")])
def test_cores_are_kept_to(database: TuningDatabase, cores: str, family: str) -> None:
    result = run(FakeExecutor(), database, trials=6, cores=cores)
    assert {record.family for record in database.trials(result.study)} == {family}
    with pytest.raises(UsageError, match=f"cores is '{cores}', and family .* doesn't multiply there"):
        run(FakeExecutor(), database, cores=cores, families=["two" if family == "one" else "one"])


def test_bad_arguments_are_named(database: TuningDatabase) -> None:
    for option in ({"time_budget_s": 0.0}, {"max_trials": 0}, {"patience": -1}, {"families": ["three"]}):
        (name,) = option
        with pytest.raises(UsageError, match=name if name != "families" else "family"):
            tune(PROBLEM, executor=FakeExecutor(), db=database, **option)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="eight channels"):
        tune(replace(PROBLEM, c=7), executor=FakeExecutor(), db=database)
    with (
        TuningDatabase.open(database.place.shown, read_only=True) as closed,
        pytest.raises(UsageError, match="read-only"),
    ):
        tune(PROBLEM, executor=FakeExecutor(), db=closed)


def wrong(candidate: Candidate) -> Evaluation:
    return Evaluation(outcome=Outcome.WRONG_RESULT, reason="it is wrong")


def test_a_config_that_the_play_off_found_wrong_never_wins(database: TuningDatabase) -> None:
    executor = FakeExecutor(referee=wrong)
    digests = {"one": template_digest(ONE.templates), "two": template_digest(TWO.templates)}
    for resume in (False, True):
        before = len(executor.finalists)
        result = run(executor, database, trials=20, resume=resume)
        refuted = {(f.candidate.family, f.candidate.config_digest) for f in executor.finalists}
        assert 1 < len(executor.finalists) - before <= 13
        assert len(refuted) == len(executor.finalists)  # on resume they are not finalists again
        assert result.best is not None
        assert (result.best.family, result.best.config_digest) not in refuted
        stored = LayeredRecords((database,)).best(PROBLEM.key, arch="sm_90a", template_digests=digests, limit=100)
        assert stored
        assert not {(record.family, record.config_digest) for record in stored} & refuted
        images = {(f.cubins[0].sha256,) for f in executor.finalists}
        assert not {record.cubin_sha256 for record in stored} & images


def test_half_a_play_off_is_never_stored(database: TuningDatabase) -> None:
    """Ctrl-C while the records of the play-off go out: those that are missing could be the winner's."""

    def interrupt(progress: TuneProgress) -> None:
        if progress.last is not None and progress.last.play_off:
            raise KeyboardInterrupt

    executor = FakeExecutor(referee=lambda candidate: timed(1000.0 - time_us(candidate)))
    result = run(executor, database, trials=20, on_progress=interrupt)
    assert result.stopped_by == "interrupted"
    played = [record for record in database.trials(result.study) if record.play_off]
    assert len(played) == len(executor.finalists)
    assert result.best == min(played, key=lambda record: record.median_us or 0.0)


def test_resumed_trials_get_numbers_that_no_other_family_has(database: TuningDatabase) -> None:
    """A run with one family alone goes on with the study of both: the other family's numbers are taken too."""
    first = run(FakeExecutor(), database, trials=12)
    assert searched(database, first)[-1].trial == 11
    second = run(FakeExecutor(), database, trials=5, resume=True, families=["two"])
    assert second.study == first.study
    assert second.restored < 12
    assert [record.trial for record in searched(database, second)] == list(range(17))
