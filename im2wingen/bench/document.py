"""Values of dataclasses as JSON files, and back with every type checked."""

import dataclasses
import json
import os
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from im2wingen.errors import UsageError


def parse(text: str, where: str) -> Any:
    """The JSON document; UsageError if it's none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is no benchmark result: {error}") from error


def read(path: Path) -> Any:
    """The JSON document of a file; UsageError if it's missing or holds something else."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    return parse(text, str(path))


def write(text: str, path: Path) -> None:
    """Write atomically, so that a run cut short leaves the last whole state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o644)
    os.replace(name, path)


def typed(hint: Any, value: Any, where: str) -> Any:
    """`value`, as JSON gives it, as a value of type `hint`; UsageError names the first field that does not fit."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        fields = {f.name: f.default is dataclasses.MISSING for f in dataclasses.fields(hint)}
        if not isinstance(value, Mapping):
            raise UsageError(f"{where} is no benchmark result: fields missing or unknown: all")
        needed = {name for name, is_needed in fields.items() if is_needed}
        if odd := (set(value) - set(fields)) | (needed - set(value)):
            raise UsageError(f"{where} is no benchmark result: fields missing or unknown: {', '.join(sorted(odd))}")
        hints = get_type_hints(hint)
        return hint(**{name: typed(hints[name], value[name], f"{where}: {name}") for name in fields if name in value})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(value, list):
        return tuple(typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {str(k): typed(arguments[1], item, f"{where}[{k}]") for k, item in value.items()}
    if origin in (Union, types.UnionType):
        return None if value is None else typed(arguments[0], value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise UsageError(f"{where} is {value!r}; that does not fit a benchmark result")
