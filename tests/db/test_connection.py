"""What can be wrong with a database: each gives one sentence, and what was stored stays."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from db_records import a_record
from sqlalchemy import event

from im2wingen.db import TuningDatabase
from im2wingen.db.connection import database_errors, parse_place
from im2wingen.errors import DatabaseError, UsageError


@pytest.fixture
def file(tmp_path):
    """A database with one record, closed."""
    path = tmp_path / "tuning.sqlite"
    with TuningDatabase.open(str(path)) as database:
        database.record(a_record())
    return path


def folder_state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def as_plain_user(body) -> str:
    """Run `body` in a child to which permissions apply (root's child becomes nobody); returns what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            body()
            os.write(writer, b"nothing")
        except DatabaseError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


@pytest.fixture
def shared_folder():
    """A folder that nobody can reach, other than tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="im2wingen-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_new_files_and_folders_are_the_users_alone(tmp_path):
    path = tmp_path / "new" / "deeper" / "tuning.sqlite"
    old = os.umask(0)
    try:
        with TuningDatabase.open(f"sqlite:///{path}") as database:
            database.record(a_record())
            files = sorted(path.parent.iterdir())
            assert [file.name for file in files] == ["tuning.sqlite", "tuning.sqlite-shm", "tuning.sqlite-wal"]
            assert {mode(file) for file in files} == {0o600}
    finally:
        os.umask(old)
    assert mode(path.parent) == mode(path.parent.parent) == 0o700


def test_modes_of_what_exists_are_left_alone(file):
    file.chmod(0o640)
    file.parent.chmod(0o750)
    TuningDatabase.open(str(file)).close()
    assert (mode(file), mode(file.parent)) == (0o640, 0o750)


def test_sqlite_is_set_up(file):
    with TuningDatabase.open(str(file), busy_timeout_s=7) as database, database.engine.connect() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "busy_timeout", "foreign_keys")
        }
    assert values == {"journal_mode": "wal", "busy_timeout": 7000, "foreign_keys": 1}


@pytest.mark.parametrize("name", ["tuning db.sqlite", "100%.sqlite", "a?b#c.sqlite", "größe.sqlite"])
def test_any_path_can_be_a_database(tmp_path, name):
    with TuningDatabase.open(str(tmp_path / name)) as database:
        database.record(a_record())
    assert (tmp_path / name).is_file()
    with TuningDatabase.open(str(tmp_path / name), read_only=True) as database:
        assert database.records() == [a_record()]


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///x.sqlite?mode=ro",
        "sqlite:///x?y",
        "sqlite:///file:x",
        "sqlite+aiosqlite:///x",
        "nodialect://x/y",
        "://",
    ],
)
def test_a_wrong_url_is_a_usage_error(url):
    with pytest.raises(UsageError, match="database"):
        TuningDatabase.open(url)


def test_a_password_is_never_shown():
    assert "secret" not in parse_place("postgresql+psycopg://me:secret@host/tuning", 1).shown


def test_read_only_of_a_missing_file_makes_nothing(tmp_path):
    for path in (tmp_path / "none.sqlite", tmp_path / "no folder" / "none.sqlite"):
        with pytest.raises(DatabaseError, match="there is no tuning database at"):
            TuningDatabase.open(str(path), read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_read_only_of_an_empty_file_migrates_nothing(tmp_path):
    path = tmp_path / "empty.sqlite"
    path.touch()
    with pytest.raises(DatabaseError, match="holds no im2wingen tables yet"):
        TuningDatabase.open(str(path), read_only=True)
    assert folder_state(tmp_path) == {"empty.sqlite": b""}


def test_a_read_only_database_refuses_to_write(file):
    before = file.read_bytes()
    with TuningDatabase.open(str(file), read_only=True) as database:
        with pytest.raises(DatabaseError, match="opened read-only"):
            database.record(a_record(64))
        with pytest.raises(DatabaseError, match="opened read-only"):
            database.gc(keep_best=0)
        assert database.records() == [a_record()]
    assert file.read_bytes() == before


def test_sqlites_own_refusal_is_a_sentence(file):
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    with pytest.raises(DatabaseError, match="is read-only; nothing was changed"), database_errors(parse_place("x", 1)):
        connection.execute("DELETE FROM trial")
    connection.close()


def test_a_write_protected_database(shared_folder):
    file = shared_folder / "tuning.sqlite"
    with TuningDatabase.open(str(file)) as database:
        database.record(a_record())
    file.chmod(0o444)
    shared_folder.chmod(0o555)

    def read():
        with TuningDatabase.open(str(file), read_only=True) as database:
            assert database.records() == [a_record()]

    assert as_plain_user(read) == "nothing"
    assert as_plain_user(lambda: TuningDatabase.open(str(file))).endswith("its file or its folder is read-only")
    new = shared_folder / "new" / "tuning.sqlite"
    assert as_plain_user(lambda: TuningDatabase.open(str(new))).endswith("can't be created: Permission denied")
    shared_folder.chmod(0o755)
    file.chmod(0o600)
    assert re.search(r"denied", as_plain_user(lambda: TuningDatabase.open(str(file), read_only=True))) or (
        os.geteuid() != 0  # the owner may still read
    )
    assert [path.name for path in shared_folder.iterdir()] == ["tuning.sqlite"]


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "blocked").touch()
    with pytest.raises(DatabaseError, match="can't be created: "):
        TuningDatabase.open(str(tmp_path / "blocked" / "tuning.sqlite"))


def test_a_folder_where_the_file_should_be(tmp_path):
    with pytest.raises(DatabaseError, match="can't be opened"):
        TuningDatabase.open(str(tmp_path))


@pytest.mark.parametrize("read_only", [False, True])
def test_not_a_database(tmp_path, read_only):
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)
    before = folder_state(tmp_path)
    with pytest.raises(DatabaseError, match="is not an SQLite database"):
        TuningDatabase.open(str(path), read_only=read_only)
    assert folder_state(tmp_path) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_another_program(tmp_path, read_only):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmark (url)")
    connection.close()
    before = folder_state(tmp_path)
    with pytest.raises(DatabaseError, match=r"another program: it has the table bookmark"):
        TuningDatabase.open(str(path), read_only=read_only)
    assert folder_state(tmp_path) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_schema(file, read_only):
    connection = sqlite3.connect(file)
    connection.execute("UPDATE im2wingen_schema SET version_num = 'r9999'")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    with pytest.raises(DatabaseError, match="schema r9999, which a newer im2wingen made; update im2wingen"):
        TuningDatabase.open(str(file), read_only=read_only)
    assert file.read_bytes() == before


def test_a_damaged_page(file):
    with TuningDatabase.open(str(file)) as database:
        database.record_all(a_record(64, trial=trial) for trial in range(1, 200))
    content = bytearray(file.read_bytes())
    content[8192:-4096] = b"\xa5" * (len(content) - 12288)  # the schema's pages stay
    file.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"is damaged|did not write"):
        _use(file)
    assert file.read_bytes() == content


def _use(file: Path) -> None:
    with TuningDatabase.open(str(file), read_only=True) as database:
        database.records()


def test_a_cut_off_file(file):
    content = file.read_bytes()[:10000]
    file.write_bytes(content)
    with pytest.raises(DatabaseError, match="is damaged"):
        _use(file)
    assert file.read_bytes() == content


def test_a_row_that_someone_else_wrote(file):
    connection = sqlite3.connect(file)
    connection.execute("UPDATE configuration SET text = '{oops'")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match="holds a row that im2wingen did not write"):
        _use(file)


def test_a_missing_table(file):
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE trial")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match="no such table: trial"):
        _use(file)


def test_a_locked_database(file):
    other = sqlite3.connect(file, isolation_level=None)
    with TuningDatabase.open(str(file), busy_timeout_s=0.05) as database:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match=r"is locked: another process kept it for more than 0\.05 s"):
            database.record(a_record(64))
        assert database.records() == [a_record()]  # WAL: a writer does not keep readers out
        other.execute("ROLLBACK")
        database.record(a_record(64))
        assert len(database.records()) == 2
    other.close()


def test_a_new_file_locked_by_another_process(tmp_path):
    path = tmp_path / "tuning.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseError, match="is locked"):
        TuningDatabase.open(str(path), busy_timeout_s=0.05)
    other.execute("ROLLBACK")
    other.close()
    TuningDatabase.open(str(path)).close()


def test_a_full_disk(file):
    with TuningDatabase.open(str(file)) as database:

        @event.listens_for(database.engine, "connect")
        def no_more_pages(connection, _):
            connection.execute("PRAGMA max_page_count = 1")  # SQLite raises it to the present size

        database.engine.dispose()
        with pytest.raises(DatabaseError, match="has no room to grow"):
            database.record_all(a_record(64, trial=trial, reason="x" * 4000) for trial in range(100))
        assert database.records() == [a_record()]
    with TuningDatabase.open(str(file)) as database:
        database.record(a_record(64))
        assert len(database.records()) == 2


def test_a_migration_that_fails_leaves_nothing(tmp_path, monkeypatch):
    import im2wingen.db.connection as connection_module

    def breaks(connection):
        upgrade(connection)
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    upgrade = connection_module._upgrade
    path = tmp_path / "tuning.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(connection_module, "_upgrade", breaks)
        with pytest.raises(DatabaseError, match="no such table: nowhere"):
            TuningDatabase.open(str(path))
    assert path.read_bytes() == b""
    TuningDatabase.open(str(path)).close()


def test_opening_a_current_database_does_without_alembic(file):
    code = f"""
import sys
from im2wingen.db import TuningDatabase
TuningDatabase.open({str(file)!r})
print("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
