"""Records as text: sorted, mergeable, diffable JSON lines, and reading them back with every field checked.

The merge rule: a trial is a fact and is never edited, so a merge is the union of what both sides know. Two records
that differ in nothing but `cubin_sha256` are one trial, of which the record with hashes stays (then the smaller text);
records that differ anywhere else, be it in one number, are different trials and both stay. So merging is commutative,
associative and idempotent, and no import can take a record away.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from im2wingen.db.records import TrialRecord, config_text, stronger
from im2wingen.errors import UsageError
from im2wingen.outcome import Outcome
from im2wingen.problem import ConvProblem

_INTEGER_MAX = 2**31 - 1
_BYTES_MAX = 2**63 - 1


def export_lines(records: Iterable[TrialRecord]) -> Iterator[str]:
    """One line a record, ends included; the same records give the same bytes wherever they came from."""
    return (f"{record.text}\n" for record in sorted(merge_records(records), key=lambda record: record.sort_key))


def write_export(records: Iterable[TrialRecord], path: Path) -> int:
    """Write an export in one step (the old file or the new one, never half of it); returns the number of lines."""
    lines = list(export_lines(records))
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
            file.writelines(lines)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(lines)


def export_name(device_name: str) -> str:
    """The file name of a device's export: `NVIDIA H200` -> `nvidia-h200.jsonl`."""
    return re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-") + ".jsonl"


def merge_records(*sides: Iterable[TrialRecord]) -> list[TrialRecord]:
    """The union of all sides by the module's merge rule, in the order of exports."""
    merged: dict[str, TrialRecord] = {}
    for side in sides:
        for record in side:
            known = merged.get(record.identity)
            merged[record.identity] = record if known is None else stronger(known, record)
    return sorted(merged.values(), key=lambda record: record.sort_key)


def read_export(path: Path, *, trust: bool = False) -> list[TrialRecord]:
    """The records of an export file; UsageError names the file, the line and the field.

    They bring configs, not the right to load binaries: `cubin_sha256` is dropped unless `trust`. Whether a config fits
    its family is checked where it is used, by Family.config_from_dict.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text, so it is no export") from error
    return parse_export(text, name=str(path), trust=trust)


def parse_export(text: str, *, name: str, trust: bool = False) -> list[TrialRecord]:
    """`read_export` for a text; `name` is what errors call it."""
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                record = _parse_line(line)
            except UsageError as error:
                raise UsageError(f"{name} line {number}: {error}") from error
            records.append(record if trust else replace(record, cubin_sha256=()))
    return records


def _parse_line(line: str) -> TrialRecord:
    try:
        stored = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError("it is not a JSON object") from error
    if not isinstance(stored, dict):
        raise UsageError("it is not a JSON object")
    for field in fields(TrialRecord):
        if field.name not in stored and field.default is MISSING:
            raise UsageError(f"field {field.name} is missing")
    for name, value in stored.items():
        if name not in _ALLOWED:
            raise UsageError(f"field {name!r} is unknown; allowed are {', '.join(_ALLOWED)}")
        allowed, holds = _ALLOWED[name]
        if not holds(value):
            raise UsageError(f"field {name} is {_excerpt(value)}; allowed is {allowed}")
    digest = hashlib.sha256(config_text(stored["config"]).encode()).hexdigest()[:16]
    if stored["config_digest"] != digest:
        raise UsageError(f"field config_digest is {stored['config_digest']!r}; the config's digest is {digest!r}")
    return TrialRecord(**stored)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not re.search(r"[\0\ud800-\udfff]", value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.+-]{1,64}", value) is not None


def _is_short_text(value: object) -> bool:
    return isinstance(value, str) and _is_text(value) and len(value) <= 200 and value.isprintable()


def _is_problem_key(value: object) -> bool:
    try:
        return isinstance(value, str) and ConvProblem.from_key(value).key == value
    except UsageError:
        return False


def _is_config(value: object) -> bool:
    return isinstance(value, dict) and all(
        _is_name(name) and (isinstance(item, bool) or _is_integer(-_BYTES_MAX, _BYTES_MAX)(item) or _is_name(item))
        for name, item in value.items()
    )


def _is_integer(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_float(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _is_hex(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, str) and low <= len(value) <= high and re.fullmatch(r"[0-9a-f]*", value) is not None
    )


def _is_utc(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _or_null(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or holds(value)


_Check = tuple[str, Callable[[Any], bool]]
_NAME: _Check = ("a name of letters, digits and _.+-", _is_name)
_SHORT: _Check = ("a printable text of up to 200 characters", _is_short_text)
_BOOL: _Check = ("true or false", lambda value: isinstance(value, bool))
_COUNT: _Check = (f"an integer from 0 to {_INTEGER_MAX}", _is_integer(0, _INTEGER_MAX))
_COUNT_OR_NULL: _Check = (f"null or an integer from 0 to {_INTEGER_MAX}", _or_null(_is_integer(0, _INTEGER_MAX)))
_FLOAT: _Check = ("null or a finite number that is not negative", _or_null(_is_float))
_ALLOWED: dict[str, _Check] = {
    "problem_key": ("a canonical problem key, SHAPE/PRECISION/X-W-Y/EPILOGUE", _is_problem_key),
    "family": _NAME,
    "config": ("an object of integers, booleans and names", _is_config),
    "config_digest": ("16 hex digits", _is_hex(16, 16)),
    "template_digest": ("8 to 64 hex digits", _is_hex(8, 64)),
    "source_digest": ("empty or up to 64 hex digits", _is_hex(0, 64)),
    "outcome": (", ".join(Outcome), lambda value: isinstance(value, str) and value in list(Outcome)),
    "reason": ("a text", _is_text),
    "device_name": _SHORT,
    "arch": _NAME,
    "sm_count": _COUNT,
    "driver_version": _SHORT,
    "nvrtc_version": _SHORT,
    "predicted": _BOOL,
    "median_us": ("null or a finite number above 0", _or_null(lambda value: _is_float(value) and value != 0)),
    "min_us": _FLOAT,
    "spread": _FLOAT,
    "samples": _COUNT,
    "clock_mhz": _COUNT,
    "protocol_version": _COUNT,
    "max_error": _FLOAT,
    "norm_error": _FLOAT,
    "workspace_bytes": (f"null or an integer from 0 to {_BYTES_MAX}", _or_null(_is_integer(0, _BYTES_MAX))),
    "num_regs": _COUNT_OR_NULL,
    "smem_bytes": _COUNT_OR_NULL,
    "cubin_sha256": (
        "a list of texts of 64 hex digits",
        lambda value: isinstance(value, list) and all(map(_is_hex(64, 64), value)),
    ),
    "study": _SHORT,
    "trial": _COUNT,
    "play_off": _BOOL,
    "created_at": ("a time in UTC such as 2025-01-31T12:00:00.000000+00:00", _is_utc),
}
