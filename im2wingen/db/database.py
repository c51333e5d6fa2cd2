"""TuningDatabase: every trial is kept; the few questions that tuning, serving and the command line ask."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sqlalchemy import ColumnElement, Engine, Select, and_, case, delete, distinct, exists, false, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from im2wingen.db.connection import Place, connect, database_errors, parse_place, writing
from im2wingen.db.look_up import LayeredRecords, best_of_each
from im2wingen.db.models import Configuration, Device, Problem, Trial
from im2wingen.db.records import TrialRecord
from im2wingen.db.rows import RECORD_COLUMNS, RowWriter, to_record
from im2wingen.db.shipped import ShippedRecords
from im2wingen.errors import DatabaseError
from im2wingen.outcome import Outcome

_ATTEMPTS = 10  # where other processes store the same new problem, device or configuration
_CHUNK = 500  # bound parameters of one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSummary:
    """What is stored about a problem; `best_us` is the fastest measured median on any device."""

    problem_key: str
    trials: int
    measured: int  # ok and not predicted
    best_us: float | None
    devices: int
    last_created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GcCount:
    """Rows that gc() removed, or would remove: of stale templates, and beyond the best of each problem."""

    stale: int
    surplus: int


class TuningDatabase:
    """An open tuning database; a context manager. Threads may share it, processes open their own.

    Whatever goes wrong with the database is a DatabaseError of one sentence, and nothing stored before is lost.
    """

    def __init__(self, engine: Engine, place: Place, *, read_only: bool) -> None:
        self.engine, self.place, self.read_only = engine, place, read_only

    @classmethod
    def open(cls, url: str, *, read_only: bool = False, busy_timeout_s: float = 30.0) -> Self:
        """Open a path or SQLAlchemy URL; made and brought to the current schema first unless `read_only`.

        New files have the mode 0600 and new folders 0700. `busy_timeout_s` is how long to wait for other writers.
        """
        place = parse_place(url, busy_timeout_s)
        return cls(connect(place, read_only=read_only), place, read_only=read_only)

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def record(self, record: TrialRecord) -> None:
        """Store a trial; it is on disk when this returns."""
        self.record_all([record])

    def record_all(self, records: Iterable[TrialRecord]) -> int:
        """Store all the records or, on an error, none; returns how many were not there yet.

        A record whose identity is stored already follows the merge rule of `im2wingen.db.exchange`.
        """
        batch = list(records)
        attempt = 0
        while True:
            attempt += 1
            try:
                with self._write() as session:
                    writer = RowWriter(session)
                    return sum([writer.add(record) for record in batch])
            except DatabaseError as error:
                if attempt == _ATTEMPTS or not isinstance(error.__cause__, IntegrityError):
                    raise

    def candidates(self, problem_key: str, *, arch: str, template_digests: Mapping[str, str]) -> Sequence[TrialRecord]:
        """All that a look-up needs of a problem and arch, unranked (RecordSource)."""
        return self._records(_candidates(_joined(), arch, template_digests).where(Problem.key == problem_key))

    def problem_keys(self, kind: str, *, arch: str, template_digests: Mapping[str, str]) -> Sequence[str]:
        """The problems of a kind that have candidates (RecordSource)."""
        statement = select(Problem.key).distinct().select_from(Trial).join(Problem).join(Device).join(Configuration)
        with self._read() as session:
            return session.scalars(_candidates(statement, arch, template_digests).where(Problem.kind == kind)).all()

    def trials(self, study: str) -> list[TrialRecord]:
        """Every trial of a study in the order of their numbers, play-off last: what a resumed study is rebuilt from."""
        return self._records(
            _joined()
            .where(Trial.study == study)
            .order_by(Trial.play_off, Trial.trial, Trial.created_at, Trial.identity)
        )

    def studies(self, problem_key: str) -> list[str]:
        """The studies of a problem, the latest first."""
        newest = func.max(Trial.created_at)
        statement = select(Trial.study).join(Problem).where(Problem.key == problem_key).group_by(Trial.study)
        with self._read() as session:
            return list(session.scalars(statement.order_by(newest.desc(), Trial.study)))

    def records(self, problem_key: str | None = None) -> list[TrialRecord]:
        """All that is stored, or all about one problem, in the order of exports."""
        statement = _joined() if problem_key is None else _joined().where(Problem.key == problem_key)
        return sorted(self._records(statement), key=lambda record: record.sort_key)

    def problems(self) -> list[ProblemSummary]:
        """A summary of each problem, by key."""
        measured = and_(Trial.outcome == Outcome.OK.value, Trial.predicted == false())
        statement = (
            select(
                Problem.key,
                func.count(Trial.id),
                func.sum(case((measured, 1), else_=0)),
                func.min(case((measured, Trial.median_us))),
                func.count(distinct(Device.name)),
                func.max(Trial.created_at),
            )
            .select_from(Trial)
            .join(Problem)
            .join(Device)
            .group_by(Problem.key)
        )
        with self._read() as session:
            summaries = [
                ProblemSummary(
                    problem_key=key, trials=trials, measured=ok, best_us=best_us, devices=devices, last_created_at=last
                )
                for key, trials, ok, best_us, devices, last in session.execute(statement)
            ]
        return sorted(summaries, key=lambda summary: summary.problem_key)

    def gc(
        self, *, template_digests: Mapping[str, str] | None = None, keep_best: int | None = None, dry_run: bool = False
    ) -> GcCount:
        """Remove rows, and nothing unless asked for.

        `template_digests`: rows of these families with another template digest go (they can't be returned any more).
        `keep_best`: of the rest, only the best that many configs of each problem and device stay, one row each; trials
        that failed go too, so a study thinned out like this can't be resumed. `dry_run` only counts.
        """
        with self._read() if dry_run else self._write() as session:
            stale: set[str] = set()
            if template_digests:
                matches = _stale(template_digests)
                stale.update(session.scalars(select(Trial.identity).join(Configuration).where(matches)))
            surplus: set[str] = set()
            if keep_best is not None:
                rest = [record for record in self._fetch(session, _joined()) if record.identity not in stale]
                surplus = {record.identity for record in rest}
                surplus -= {record.identity for record in best_of_each(rest, keep_best)}
            if not dry_run:
                _remove(session, sorted(stale | surplus))
        return GcCount(stale=len(stale), surplus=len(surplus))

    def _records(self, statement: Select[Any]) -> list[TrialRecord]:
        with self._read() as session:
            return self._fetch(session, statement)

    def _fetch(self, session: Session, statement: Select[Any]) -> list[TrialRecord]:
        try:
            return [to_record(row) for row in session.execute(statement)]
        except (ValueError, TypeError) as error:
            raise DatabaseError(
                f"the tuning database {self.place.shown} holds a row that im2wingen did not write ({error}); "
                "nothing was changed"
            ) from error

    @contextmanager
    def _read(self) -> Iterator[Session]:
        with database_errors(self.place), Session(self.engine) as session:
            yield session

    @contextmanager
    def _write(self) -> Iterator[Session]:
        if self.read_only:
            raise DatabaseError(f"the tuning database {self.place.shown} was opened read-only; nothing was changed")
        with database_errors(self.place), Session(writing(self.engine)) as session, session.begin():
            yield session


def open_records(url: str) -> LayeredRecords:
    """What serving reads: the user's database, if there is one, then the shipped records; writes nothing."""
    place = parse_place(url, 0.0)
    if place.file is not None and not place.file.exists():
        return LayeredRecords((ShippedRecords(),))
    return LayeredRecords((TuningDatabase.open(url, read_only=True), ShippedRecords()))


def _joined() -> Select[Any]:
    return select(*RECORD_COLUMNS).select_from(Trial).join(Problem).join(Device).join(Configuration)


def _candidates(statement: Select[Any], arch: str, template_digests: Mapping[str, str]) -> Select[Any]:
    families = [
        and_(Configuration.family == family, Trial.template_digest == digest)
        for family, digest in sorted(template_digests.items())
    ]
    usable = and_(Trial.outcome == Outcome.OK.value, Trial.median_us.is_not(None))
    refutation = and_(Trial.outcome != Outcome.OK.value, Trial.play_off)
    return statement.where(or_(usable, refutation), Device.arch == arch, or_(false(), *families))


def _stale(template_digests: Mapping[str, str]) -> ColumnElement[bool]:
    families = [
        and_(Configuration.family == family, Trial.template_digest != digest)
        for family, digest in sorted(template_digests.items())
    ]
    return or_(false(), *families)


def _remove(session: Session, identities: Sequence[str]) -> None:
    for start in range(0, len(identities), _CHUNK):
        session.execute(delete(Trial).where(Trial.identity.in_(identities[start : start + _CHUNK])))
    for owner, reference in (
        (Problem, Trial.problem_id),
        (Device, Trial.device_id),
        (Configuration, Trial.configuration_id),
    ):
        session.execute(delete(owner).where(~exists().where(reference == owner.id)))
