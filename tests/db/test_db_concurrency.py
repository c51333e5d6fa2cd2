"""Several processes at one database: nothing is lost, also when one is killed in the middle."""

import multiprocessing
import os
import signal

from db_records import a_record

from im2wingen.db import TuningDatabase
from im2wingen.db.connection import writing
from im2wingen.db.rows import RowWriter

WRITERS, EACH = 8, 40
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["im2wingen.db"])


def write(path: str, writer: int) -> None:
    with TuningDatabase.open(path, busy_timeout_s=120) as database:
        for trial in range(EACH):
            database.record(a_record(trial % 7, study=f"study-{writer}", trial=trial))


def read(path: str, done, counts) -> None:
    """Counts that are seen while others write; each a consistent state of the database."""
    seen = []
    with TuningDatabase.open(path, read_only=True) as database:
        while not done.is_set():
            records = database.records()
            assert len({record.identity for record in records}) == len(records)
            seen.append(len(records))
    counts.put(seen)


def killed_while_writing(path: str) -> None:
    from sqlalchemy.orm import Session

    database = TuningDatabase.open(path)
    with Session(writing(database.engine)) as session:
        adder = RowWriter(session)
        for trial in range(50):
            adder.add(a_record(64, study="killed", trial=trial))
        session.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_eight_processes_open_a_new_database_and_lose_nothing(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    writers = [PROCESSES.Process(target=write, args=(path, number)) for number in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * WRITERS
    with TuningDatabase.open(path) as database:
        records = database.records()
    expected = {(f"study-{writer}", trial) for writer in range(WRITERS) for trial in range(EACH)}
    assert {(record.study, record.trial) for record in records} == expected
    assert len(records) == WRITERS * EACH


def test_a_reader_meanwhile_sees_whole_states_that_only_grow(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    TuningDatabase.open(path).close()
    done, counts = PROCESSES.Event(), PROCESSES.Queue()
    reader = PROCESSES.Process(target=read, args=(path, done, counts))
    writers = [PROCESSES.Process(target=write, args=(path, number)) for number in range(2)]
    for process in (reader, *writers):
        process.start()
    for process in writers:
        process.join()
    done.set()
    seen = counts.get(timeout=60)
    reader.join()
    assert [process.exitcode for process in (reader, *writers)] == [0, 0, 0]
    assert seen == sorted(seen)


def test_a_writer_killed_in_the_middle_leaves_a_usable_database(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    with TuningDatabase.open(path) as database:
        database.record(a_record())
    victim = PROCESSES.Process(target=killed_while_writing, args=(path,))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    with TuningDatabase.open(path, busy_timeout_s=1) as database:
        assert database.records() == [a_record()]
        database.record(a_record(64))
        assert len(database.records()) == 2
        with database.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
