"""Engines for the tuning database: safe creation, SQLite's set-up, the schema, and errors as sentences."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from im2wingen.db.models import REVISIONS, VERSION_TABLE
from im2wingen.errors import DatabaseError, UsageError

_MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a database is: `file` for one on disk, `shown` in messages (never with a password)."""

    url: URL
    file: Path | None
    shown: str
    busy_timeout_s: float


def parse_place(url: str, busy_timeout_s: float) -> Place:
    """A Place for an SQLAlchemy URL or a path; UsageError says what is allowed."""
    try:
        parsed = make_url(url) if "://" in url else URL.create("sqlite", database=url)
    except (ArgumentError, ValueError) as error:
        raise UsageError(f"database is {url!r}; allowed is a path or a URL such as sqlite:///tuning.sqlite") from error
    if parsed.get_backend_name() != "sqlite":
        return Place(
            url=parsed, file=None, shown=parsed.render_as_string(hide_password=True), busy_timeout_s=busy_timeout_s
        )
    path = parsed.database or ":memory:"
    options = "://" in url and "?" in url
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite") or options or path.startswith("file:"):
        raise UsageError(f"database is {url!r}; allowed for SQLite is a path or sqlite:///PATH without options")
    file = None if path == ":memory:" else Path(path).expanduser().absolute()
    return Place(url=parsed, file=file, shown=str(file or path), busy_timeout_s=busy_timeout_s)


def connect(place: Place, *, read_only: bool) -> Engine:
    """An engine on a database of the current schema; DatabaseError if it can't be had, and then nothing was changed."""
    if place.file is not None:
        if not read_only:
            _create_file(place.file)
        elif not place.file.is_file():
            raise DatabaseError(f"there is no tuning database at {place.shown}")
    engine = _engine(place, read_only)
    try:
        with database_errors(place):
            _check_schema(engine, place, read_only)
            if place.file is not None and not read_only:
                _switch_to_wal(engine, place.busy_timeout_s)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _create_file(file: Path) -> None:
    try:
        for folder in reversed(file.parents):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
        if not file.exists():
            # SQLite takes an empty file for a new database, and gives its side files the mode of this one
            with suppress(FileExistsError):  # another process was faster
                os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise DatabaseError(f"the tuning database {file} can't be created: {error.strerror}") from error
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        raise DatabaseError(f"the tuning database {file} can't be written: its file or its folder is read-only")


def _engine(place: Place, read_only: bool) -> Engine:
    if place.url.get_backend_name() != "sqlite":
        try:
            return create_engine(place.url, pool_pre_ping=True)
        except (ModuleNotFoundError, ArgumentError) as error:
            raise UsageError(f"database {place.shown} can't be used: {error}; see the extra `cluster`") from error
    if place.file is None:
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        uri = f"{place.file.as_uri()}?mode={'ro' if read_only else 'rw'}"
        if read_only and not os.access(place.file.parent, os.W_OK) and not _has_wal(place.file):
            uri += "&immutable=1"  # a WAL database can't be read otherwise where its side files can't be made

        def open_file() -> sqlite3.Connection:
            return sqlite3.connect(uri, uri=True, timeout=place.busy_timeout_s, check_same_thread=False)

        engine = create_engine("sqlite://", creator=open_file, poolclass=QueuePool)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _has_wal(file: Path) -> bool:
    wal = file.with_name(file.name + "-wal")
    return wal.exists() and wal.stat().st_size > 0


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; _begin_sqlite does
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at once where a write is meant: a read transaction can't always be upgraded to one."""
    writes = connection.get_execution_options().get("im2wingen_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def writing(engine: Engine) -> Engine:
    """The same engine, its transactions meant for writing."""
    return engine.execution_options(im2wingen_write=True)


def _switch_to_wal(engine: Engine, wait_s: float) -> None:
    """Set WAL, which lasts; SQLite does not wait by itself where another process uses the file at that moment."""
    connection = engine.raw_connection()
    try:
        deadline = time.monotonic() + wait_s
        while connection.cursor().execute("PRAGMA journal_mode").fetchone() != ("wal",):
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return  # a file system without WAL answers with the mode it keeps
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        connection.close()


def _check_schema(engine: Engine, place: Place, read_only: bool) -> None:
    with engine.connect() as connection:
        revision = _revision(connection, place)
    if revision == REVISIONS[-1]:
        return
    if read_only:
        what = "holds no im2wingen tables yet" if revision is None else f"has the older schema {revision}"
        raise DatabaseError(
            f"the tuning database {place.shown} {what}; open it for writing once to bring it up to date"
        )
    try:
        with writing(engine).begin() as connection:
            if _revision(connection, place) != REVISIONS[-1]:  # else another process has done it in the meantime
                _upgrade(connection)
    except SQLAlchemyError:
        with engine.connect() as connection:  # PostgreSQL lets two processes begin it; one of them fails
            if _revision(connection, place) != REVISIONS[-1]:
                raise


def _revision(connection: Connection, place: Place) -> str | None:
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables:
            raise DatabaseError(
                f"{place.shown} is a database of another program: it has the table {sorted(tables)[0]}; "
                "nothing was changed"
            )
        return None
    revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if revision not in REVISIONS:
        raise DatabaseError(
            f"the tuning database {place.shown} has the schema {revision}, which a newer im2wingen made; "
            "update im2wingen to use it (nothing was changed)"
        )
    return str(revision)


def _upgrade(connection: Connection) -> None:
    from alembic import command, config  # here alone: a database that is up to date does without

    settings = config.Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")


_SENTENCES = {
    sqlite3.SQLITE_PERM: "can't be used: access to it was denied",
    sqlite3.SQLITE_BUSY: "is locked: another process kept it for more than {wait:g} s; nothing was changed, try again",
    sqlite3.SQLITE_LOCKED: "is locked by another connection; nothing was changed, try again",
    sqlite3.SQLITE_READONLY: "is read-only; nothing was changed",
    sqlite3.SQLITE_IOERR: "can't be read or written: the disk reports an error; nothing was changed",
    sqlite3.SQLITE_CORRUPT: "is damaged; nothing was changed: keep it, and restore a copy or use sqlite3's .recover",
    sqlite3.SQLITE_FULL: "has no room to grow: the disk or a quota is full; what was stored before is intact",
    sqlite3.SQLITE_CANTOPEN: "can't be opened: its folder is missing or access to it was denied",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database; nothing was changed",
}


@contextmanager
def database_errors(place: Place) -> Iterator[None]:
    """Turn what the driver raises into a DatabaseError of one sentence; the transaction was rolled back by then."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        sentence = None if code is None else _SENTENCES.get(code & 0xFF)
        if sentence is None:
            sentence = "can't be used: " + (str(cause).strip().splitlines() or [type(cause).__name__])[0]
            raise DatabaseError(f"the tuning database {place.shown} {sentence}") from error
        raise DatabaseError(
            f"the tuning database {place.shown} {sentence.format(wait=place.busy_timeout_s)}"
        ) from error
