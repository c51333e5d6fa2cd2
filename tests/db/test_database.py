from dataclasses import replace

import pytest
from db_records import ARCH, DIGEST, H200, PROBLEM, a_record
from sqlalchemy import event

from im2wingen import ConvProblem
from im2wingen.db import GcCount, LayeredRecords, ShippedRecords, TuningDatabase, open_records
from im2wingen.errors import DatabaseError, UsageError
from im2wingen.outcome import Outcome


@pytest.fixture
def database():
    with TuningDatabase.open("sqlite://") as database:
        yield database


def best(database, key=PROBLEM.key, **changes):
    question = {"arch": ARCH, "device_name": H200, "template_digests": DIGEST, "limit": 9}
    return LayeredRecords((database,)).best(key, **question | changes)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_kept_as_it_was(database, outcome):
    failed = a_record(
        outcome=outcome, reason="a sentence, größe\n\ttab", median_us=None, min_us=None, spread=None, samples=0,
        max_error=None, norm_error=None, num_regs=None, smem_bytes=None, workspace_bytes=None, cubin_sha256=(),
        source_digest="", driver_version="",
    )  # fmt: skip
    database.record(failed)
    assert database.records() == [failed]


def test_extreme_numbers_are_kept_exactly(database):
    record = a_record(
        median_us=0.1 + 0.2, min_us=5e-324, max_error=1.7976931348623157e308, norm_error=1 / 3,
        workspace_bytes=2**63 - 1, num_regs=2**31 - 1, cubin_sha256=("aa" * 32, "bb" * 32),
    )  # fmt: skip
    database.record(record)
    assert database.records() == [record]


def test_a_trial_is_stored_once_and_another_one_beside_it(database):
    assert database.record_all([a_record(), a_record()]) == 1
    assert database.record_all([a_record(), a_record(median_us=101.0)]) == 1
    assert len(database.records()) == 2


def test_a_stored_trial_gains_cubin_hashes_and_never_loses_them(database):
    bare = a_record(cubin_sha256=())
    for record in (bare, a_record(), bare):
        database.record(record)
    assert database.records() == [a_record()]


def test_what_trials_share_is_stored_once(database):
    database.record_all(a_record(64, trial=trial) for trial in range(5))
    with database.engine.connect() as connection:
        counts = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
            for table in ("problem", "device", "configuration", "trial")
        ]
    assert counts == [1, 1, 1, 5]


def test_a_wrong_digest_does_not_swap_one_config_for_another(database):
    records = [a_record(64), replace(a_record(128), config_digest=a_record(64).config_digest)]
    database.record_all(records)
    assert {r.config["block_m"] for r in database.records()} == {64, 128}


def test_all_or_none(database):
    with pytest.raises(UsageError, match="problem key"):
        database.record_all([a_record(), a_record(problem_key="no key")])
    assert database.records() == []


def test_best_returns_no_failures_no_stale_rows_and_no_other_problem(database):
    database.record_all(
        [
            a_record(1, median_us=50.0),
            a_record(2, median_us=40.0, family="simt", template_digest=DIGEST["simt"]),
            a_record(3, median_us=1.0, outcome=Outcome.WRONG_RESULT),
            a_record(4, median_us=None),
            a_record(5, median_us=1.0, template_digest="00" * 32),
            a_record(6, median_us=1.0, family="wgmma"),  # the caller knows no such family
            a_record(7, median_us=1.0, arch="sm_80"),
            a_record(8, median_us=1.0, problem_key=ConvProblem.parse("cv9", batch=1).key),
        ]
    )
    assert [r.config["block_m"] for r in best(database)] == [2, 1]
    assert [r.config["block_m"] for r in best(database, template_digests={"mma": DIGEST["mma"]})] == [1]
    assert best(database, limit=1) == best(database)[:1]
    assert best(database, template_digests={}) == []
    assert best(database, "cv99") == []


def test_near_returns_no_problem_without_usable_records(database):
    one, two = (ConvProblem.parse("cv9", batch=batch).key for batch in (1, 2))
    database.record_all([a_record(problem_key=one), a_record(problem_key=two, template_digest="00" * 32)])
    found = LayeredRecords((database,)).near(PROBLEM, arch=ARCH, device_name=H200, template_digests=DIGEST)
    assert [(n.level, n.record.problem_key) for n in found] == [("batch", one)]


def test_a_study_comes_back_in_the_order_of_its_trials(database):
    records = [a_record(trial=10), a_record(trial=9), a_record(trial=9, play_off=True), a_record(study="study-b")]
    database.record_all(records)
    assert [(r.trial, r.play_off) for r in database.trials("study-a")] == [(9, False), (10, False), (9, True)]
    assert database.trials("none") == []


def test_studies_of_a_problem_the_latest_first(database):
    database.record_all(
        a_record(study=f"study-{day}", created_at=f"2025-11-0{day}T00:00:00.000000+00:00") for day in (1, 3, 2)
    )
    assert database.studies(PROBLEM.key) == ["study-3", "study-2", "study-1"]


def test_problems(database):
    database.record_all(
        [
            a_record(median_us=4.0),
            a_record(trial=1, median_us=3.0, device_name="NVIDIA H100"),
            a_record(trial=2, median_us=1.0, predicted=True),
            a_record(trial=3, median_us=0.5, outcome=Outcome.WRONG_RESULT),
            a_record(problem_key=ConvProblem.parse("cv1").key, outcome=Outcome.SPILLS, median_us=None),
        ]
    )
    first, second = database.problems()
    assert (first.trials, first.measured, first.best_us, first.devices) == (1, 0, None, 1)
    assert (second.trials, second.measured, second.best_us, second.devices) == (4, 2, 3.0, 2)


def test_records_of_one_problem(database):
    other = a_record(problem_key=ConvProblem.parse("cv1").key)
    database.record_all([a_record(), other])
    assert database.records(PROBLEM.key) == [a_record()]
    assert database.records() == [other, a_record()]


def test_gc_removes_nothing_unasked(database):
    database.record(a_record())
    assert database.gc() == GcCount(stale=0, surplus=0)
    assert len(database.records()) == 1


def test_gc_counts_what_it_removes_and_removes_what_nothing_points_at(database):
    keep = [a_record(1, median_us=1.0), a_record(2, median_us=2.0), a_record(9, device_name="NVIDIA H100")]
    stale = [a_record(4, template_digest="00" * 32, problem_key=ConvProblem.parse("cv1").key)]
    unknown = [a_record(5, family="wgmma", median_us=1.5, problem_key=ConvProblem.parse("cv2").key)]
    surplus = [a_record(3, median_us=3.0), a_record(1, median_us=1.1, trial=7), a_record(6, outcome=Outcome.SPILLS)]
    surplus += [a_record(8, trial=trial, outcome=Outcome.ILLEGAL) for trial in range(1200)]  # several statements
    database.record_all([*keep, *stale, *unknown, *surplus])
    expected = GcCount(stale=1, surplus=len(surplus))
    before = database.records()
    assert database.gc(template_digests=DIGEST, keep_best=2, dry_run=True) == expected
    assert database.records() == before
    assert database.gc(template_digests=DIGEST, keep_best=2) == expected
    assert {r.identity for r in database.records()} == {r.identity for r in [*keep, *unknown]}
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM problem").scalar() == 2
        assert connection.exec_driver_sql("SELECT count(*) FROM configuration").scalar() == 4
    assert database.gc(template_digests=DIGEST, keep_best=2) == GcCount(stale=0, surplus=0)


def test_a_row_that_another_process_stored_at_the_same_moment(database):
    """What PostgreSQL lets happen: the same problem appears between our look and our insert."""
    raced = []

    @event.listens_for(database.engine, "before_cursor_execute", retval=True)
    def race(connection, cursor, statement, parameters, context, many):
        if statement.startswith("INSERT INTO problem") and not raced:
            raced.append(True)
            cursor.execute(statement, parameters)  # then ours meets a unique constraint
        return statement, parameters

    database.record(a_record())
    assert raced
    assert database.records() == [a_record()]


def test_a_lasting_conflict_is_an_error_not_a_loop(database):
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE device")
        connection.exec_driver_sql("CREATE TABLE device (id INTEGER, name, arch, sm_count, driver_version, x NOT NULL)")
    with pytest.raises(DatabaseError, match="NOT NULL"):
        database.record(a_record())


def test_serving_reads_the_users_database_then_the_shipped_records(tmp_path):
    url = f"sqlite:///{tmp_path}/tuning.sqlite"
    assert [type(source) for source in open_records(url).sources] == [ShippedRecords]
    assert list(tmp_path.iterdir()) == []
    with TuningDatabase.open(url) as database:
        database.record(a_record())
    layered = open_records(url)
    assert isinstance(layered, LayeredRecords)
    assert [type(source) for source in layered.sources] == [TuningDatabase, ShippedRecords]
    assert layered.best(PROBLEM.key, arch=ARCH, template_digests=DIGEST) == [a_record()]
