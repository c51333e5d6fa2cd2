"""What a benchmark run says, as values, and its JSON form: what every run shares, and a run on a GPU."""

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from im2wingen.bench import document
from im2wingen.outcome import ErrorStats, Timing
from im2wingen.problem import ConvProblem

PROTOCOL = 2  # bench.timing's way to measure; results of different numbers are not compared
OURS = "im2wingen"
CUDNN = "cudnn"
PLANS, UNTRIED = "cudnn plans", " not tried in the time"  # a layer's `skipped` says how many of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One contestant at one layer, verified before it was timed; times are of one convolution, all kernels included."""

    contestant: str  # unique in its layer
    peer: str  # im2wingen, cudnn, onednn, im2col, direct, inductor
    detail: str  # which plan, or where our configuration comes from
    median_us: float
    min_us: float
    spread: float  # (75th - 25th percentile) / median
    samples: int
    clock_mhz: int  # SM or core clock after its last round; 0 where it can't be read
    tflops: float  # the problem's flops over the median, whatever the contestant really computed
    workspace_bytes: int | None  # what the contestant asks for; None: not known
    peak_bytes: int | None  # what PyTorch's allocator saw on the GPU beyond x, w and y; None: not known
    norm_error: float  # ||y - ref|| / ||ref|| over some images of the batch, ref in float64
    max_error: float


def measurement_of(
    problem: ConvProblem,
    timing: Timing,
    error: ErrorStats,
    *,
    contestant: str,
    peer: str,
    detail: str,
    workspace_bytes: int | None,
    peak_bytes: int | None,
    tflops_digits: int,
) -> Measurement:
    """Rounded to what a reader can use."""
    return Measurement(
        contestant=contestant, peer=peer, detail=detail, median_us=round(timing.median_us, 3),
        min_us=round(timing.min_us, 3), spread=round(timing.spread, 5), samples=timing.samples,
        clock_mhz=timing.clock_mhz, tflops=round(problem.flops / timing.median_us * 1e-6, tflops_digits),
        workspace_bytes=workspace_bytes, peak_bytes=peak_bytes, norm_error=error.norm_error, max_error=error.max_error,
    )  # fmt: skip


class LayerTimes:
    """What follows from a layer's measurements."""

    __slots__ = ()
    layer: str
    measurements: tuple[Measurement, ...]

    def best(self, peer: str) -> Measurement | None:
        """The peer's fastest measurement."""
        return min((m for m in self.measurements if m.peer == peer), key=lambda m: m.median_us, default=None)

    def speedup(self, peer: str, over: str = CUDNN) -> float | None:
        """How many times faster `peer`'s best is than `over`'s best; None where one is missing."""
        ours, theirs = self.best(peer), self.best(over)
        return theirs.median_us / ours.median_us if ours and theirs else None

    @property
    def ceiling_tflops(self) -> float:
        """What no contestant can pass."""
        raise NotImplementedError


class Run:
    """What follows from a run's layers, and its JSON form; the dataclass below it says what a run holds."""

    __slots__ = ()
    layers: tuple[Any, ...]  # of LayerTimes

    def geometric_mean_speedup(self, peer: str, over: str = CUDNN) -> float | None:
        """Over the layers where both have a measurement."""
        return geometric_mean(layer.speedup(peer, over) for layer in self.layers)

    def to_dict(self) -> dict[str, object]:
        """JSON's types alone."""
        return dataclasses.asdict(cast(Any, self))

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_document(cls, loaded: object, where: str) -> Self:
        """What `to_dict` gave; UsageError names the first field that does not fit."""
        return cast(Self, document.typed(cls, loaded, where))

    @classmethod
    def from_json(cls, text: str, where: str = "the text") -> Self:
        """Read what `to_json` wrote; UsageError likewise."""
        return cls.from_document(document.parse(text, where), where)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult(LayerTimes):
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

    def floor_share(self, peer: str) -> float | None:
        """floor / time of the peer's best: 1 is the floor itself."""
        found = self.best(peer)
        return self.floor_us / found.median_us if found else None

    @property
    def ceiling_tflops(self) -> float:
        return self.flops / self.floor_us * 1e-6


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
    cores: str | None = None  # that our kernels multiply on, cuda or tensor; None: the faster


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult(Run):
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
    runs: int = 1  # of which each layer is the median one

    def geometric_mean_floor_share(self, peer: str) -> float | None:
        return geometric_mean(layer.floor_share(peer) for layer in self.layers)


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are there; None if none is."""
    logs = [math.log(v) for v in values if v is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def missing_layers(asked: Sequence[str], layers: Sequence[LayerTimes]) -> list[str]:
    """Those asked for that have no result, in their order."""
    measured = {layer.layer for layer in layers}
    return [name for name in asked if name not in measured]


def save(result: Run, path: Path) -> None:
    """Write atomically, so that a run cut short leaves the last whole state."""
    document.write(result.to_json(), path)


def load(path: Path) -> BenchResult:
    """Read a GPU's result file; UsageError if it's missing or holds something else."""
    return BenchResult.from_document(document.read(path), str(path))
