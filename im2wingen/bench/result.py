"""What a benchmark run says, as values, and its JSON form."""

import dataclasses
import json
import math
import os
import tempfile
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from im2wingen.errors import UsageError

PROTOCOL = 2  # bench.timing's way to measure; results of different numbers are not compared
OURS = "im2wingen"
CUDNN = "cudnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One contestant at one layer, verified before it was timed; times are of one convolution, all kernels included."""

    contestant: str  # unique in its layer
    peer: str  # im2wingen, cudnn, im2col, direct, inductor
    detail: str  # which plan, or where our configuration comes from
    median_us: float
    min_us: float
    spread: float  # (75th - 25th percentile) / median
    samples: int
    clock_mhz: int  # SM clock after its last round; 0 where it can't be read
    tflops: float  # the problem's flops over the median, whatever the contestant really computed
    workspace_bytes: int  # what the contestant asks for
    peak_bytes: int  # what PyTorch's allocator saw beyond x, w and y
    norm_error: float  # ||y - ref|| / ||ref|| over some images of the batch, ref in float64
    max_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult:
    """One layer and all that ran on it; `skipped` maps a contestant to the sentence why it has no measurement."""

    layer: str
    problem_key: str
    flops: int
    compulsory_bytes: int
    floor_us: float
    buffer_sets: int
    plans_offered: int  # by cuDNN's heuristics, duplicates left out
    plans_screened: int  # built and timed within the limit
    measurements: tuple[Measurement, ...]
    skipped: dict[str, str]

    def best(self, peer: str) -> Measurement | None:
        """The peer's fastest measurement."""
        return min((m for m in self.measurements if m.peer == peer), key=lambda m: m.median_us, default=None)

    def speedup(self, peer: str, over: str = CUDNN) -> float | None:
        """How many times faster `peer`'s best is than `over`'s best; None where one is missing."""
        ours, theirs = self.best(peer), self.best(over)
        return theirs.median_us / ours.median_us if ours and theirs else None

    def floor_share(self, peer: str) -> float | None:
        """floor / time of the peer's best: 1 is the floor itself."""
        found = self.best(peer)
        return self.floor_us / found.median_us if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What this device reached, in this process, before the layers ran."""

    gemm_tflops: dict[str, float]  # precision -> 8192 cubed through cuBLAS
    copy_tbps: float  # read plus write, 1e12 bytes a second


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What was asked for."""

    layers: tuple[str, ...]
    against: tuple[str, ...]
    precision: str
    layout: str
    batch: int | None  # None: each shape's own
    prepacked: bool  # the filter was packed before, outside the time
    rounds: int
    plan_seconds: float  # time a layer for building and screening cuDNN's plans
    finalists: int  # plans of cuDNN that go through the whole protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """A run; written after every layer, so `complete` is false while layers are missing."""

    protocol: int
    date: str  # UTC, ISO 8601
    device: str
    arch: str
    versions: dict[str, str]
    options: BenchOptions
    ceilings: Ceilings
    elapsed_s: float
    complete: bool
    layers: tuple[LayerResult, ...]

    def geometric_mean_speedup(self, peer: str, over: str = CUDNN) -> float | None:
        """Over the layers where both have a measurement."""
        return geometric_mean(layer.speedup(peer, over) for layer in self.layers)

    def geometric_mean_floor_share(self, peer: str) -> float | None:
        return geometric_mean(layer.floor_share(peer) for layer in self.layers)

    def to_dict(self) -> dict[str, object]:
        """JSON's types alone."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "the text") -> "BenchResult":
        """Read what `to_json` wrote; UsageError names the first field that does not fit."""
        try:
            loaded = json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"{where} is no benchmark result: {error}") from error
        result = _typed(cls, loaded, where)
        assert isinstance(result, cls)
        return result


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are there; None if none is."""
    logs = [math.log(v) for v in values if v is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def save(result: BenchResult, path: Path) -> None:
    """Write atomically, so that a run cut short leaves the last whole state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(result.to_json())
    Path(name).chmod(0o644)
    os.replace(name, path)


def load(path: Path) -> BenchResult:
    """Read a result file; UsageError if it's missing or holds something else."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    return BenchResult.from_json(text, str(path))


def _typed(hint: Any, value: Any, where: str) -> Any:
    """`value`, as JSON gives it, as a value of type `hint`."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        names = [f.name for f in dataclasses.fields(hint)]
        if not isinstance(value, Mapping) or set(value) != set(names):
            odd = ", ".join(sorted(set(value) ^ set(names))) if isinstance(value, Mapping) else "all"
            raise UsageError(f"{where} is no benchmark result: fields missing or unknown: {odd}")
        hints = get_type_hints(hint)
        return hint(**{name: _typed(hints[name], value[name], f"{where}: {name}") for name in names})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(value, list):
        return tuple(_typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {str(k): _typed(arguments[1], item, f"{where}[{k}]") for k, item in value.items()}
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(arguments[0], value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise UsageError(f"{where} is {value!r}; that does not fit a benchmark result")
