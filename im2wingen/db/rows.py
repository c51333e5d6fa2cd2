"""TrialRecord <-> rows of the normalised tables."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from im2wingen.db.look_up import kind_of
from im2wingen.db.models import Configuration, Device, Problem, Trial
from im2wingen.db.records import TrialRecord, config_text, stronger
from im2wingen.outcome import Outcome
from im2wingen.problem import ConvProblem

_Values = Mapping[InstrumentedAttribute[Any], object]
_TRIAL_FIELDS = (
    "study", "trial", "play_off", "predicted", "reason", "template_digest", "source_digest", "nvrtc_version",
    "protocol_version", "median_us", "min_us", "spread", "samples", "clock_mhz", "max_error", "norm_error",
    "workspace_bytes", "num_regs", "smem_bytes", "created_at",
)  # fmt: skip
RECORD_COLUMNS = (
    Problem.key.label("problem_key"),
    Configuration.family.label("family"),
    Configuration.digest.label("config_digest"),
    Configuration.text.label("config"),
    Device.name.label("device_name"),
    Device.arch.label("arch"),
    Device.sm_count.label("sm_count"),
    Device.driver_version.label("driver_version"),
    Trial.outcome.label("outcome"),
    Trial.cubin_sha256.label("cubin_sha256"),
    *(getattr(Trial, name) for name in _TRIAL_FIELDS),
)


def to_record(row: Row[Any]) -> TrialRecord:
    """A row of RECORD_COLUMNS as a record; ValueError or TypeError where a value is none that im2wingen writes."""
    values = dict(row._mapping)
    values["config"] = json.loads(values["config"])
    values["cubin_sha256"] = tuple(values["cubin_sha256"].split())
    values["outcome"] = Outcome(values["outcome"])
    return TrialRecord(**values)


class RowWriter:
    """Adds records within one transaction; call `session.flush()` or commit after the last.

    An IntegrityError means that another process stored the same at the same time (SQLite has one writer, so never
    there): the transaction is to be done again.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids: dict[tuple[object, ...], int] = {}
        self._added: dict[str, Trial] = {}

    def add(self, record: TrialRecord) -> bool:
        """Add the record, or let the stronger of it and the stored one stay; True if its identity is new."""
        identity = record.identity
        stored = self._added.get(identity) or self._stored(identity)
        if stored is None:
            self._added[identity] = self._row(identity, record)
            self._session.add(self._added[identity])
            return True
        known = tuple(stored.cubin_sha256.split())
        if known != record.cubin_sha256:
            stays = stronger(record, replace(record, cubin_sha256=known))
            stored.cubin_sha256 = " ".join(stays.cubin_sha256)
        return False

    def _stored(self, identity: str) -> Trial | None:
        with self._session.no_autoflush:
            return self._session.scalars(select(Trial).where(Trial.identity == identity)).first()

    def _row(self, identity: str, record: TrialRecord) -> Trial:
        device: _Values = {
            Device.name: record.device_name,
            Device.arch: record.arch,
            Device.sm_count: record.sm_count,
            Device.driver_version: record.driver_version,
        }
        configuration: _Values = {
            Configuration.family: record.family,
            Configuration.digest: record.config_digest,
            Configuration.text: config_text(record.config),
        }
        return Trial(
            identity=identity,
            problem_id=self._problem_id(record.problem_key),
            device_id=self._id(Device, device),
            configuration_id=self._id(Configuration, configuration),
            outcome=record.outcome.value,  # not the enum itself: psycopg would store its name
            cubin_sha256=" ".join(record.cubin_sha256),
            **{name: getattr(record, name) for name in _TRIAL_FIELDS},
        )

    def _problem_id(self, key: str) -> int:
        if (Problem, key) not in self._ids:
            kind = kind_of(ConvProblem.from_key(key))
            self._ids[Problem, key] = self._id(Problem, {Problem.key: key, Problem.kind: kind})
        return self._ids[Problem, key]

    def _id(self, model: type[Problem | Device | Configuration], values: _Values) -> int:
        remembered = (model, *values.values())
        if remembered not in self._ids:
            conditions = [column == value for column, value in values.items()]
            found = self._session.scalars(select(model.id).where(*conditions)).first()
            if found is None:
                row = model(**{column.key: value for column, value in values.items()})
                self._session.add(row)
                self._session.flush()
                found = row.id
            self._ids[remembered] = found
        return self._ids[remembered]
