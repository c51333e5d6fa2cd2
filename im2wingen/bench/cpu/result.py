"""What a benchmark run on a CPU says, as values; JSON as for a GPU."""

from dataclasses import dataclass

from im2wingen.bench.result import OURS, LayerTimes, Measurement, Run, geometric_mean

BACKEND = "cpu"
CPU_PROTOCOL = 1  # results of different numbers are not compared
ONEDNN = "onednn"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLayerResult(LayerTimes):
    """One layer and all that ran on it; `skipped` maps a contestant to the sentence why it has no measurement."""

    layer: str
    problem_key: str
    flops: int
    compulsory_bytes: int
    peak_gflops: float  # multiply-adds on registers alone, timed in the layer's own rounds
    window_bytes: int | None  # that our kernel, as served, takes for copies of x; None: it didn't run
    im2win_bytes: int  # the im2win tensor of the whole batch, which the explicit variant writes
    im2col_bytes: int  # the im2col matrix of the whole batch
    measurements: tuple[Measurement, ...]
    skipped: dict[str, str]
    peak_mhz: int = 0  # read right after those multiply-adds; 0: not read
    busy_mhz: int = 0  # read right after our kernel

    @property
    def im2win_share(self) -> float:
        """Bytes of the im2win tensor over those of the im2col matrix."""
        return self.im2win_bytes / self.im2col_bytes

    @property
    def window_share(self) -> float | None:
        """Our kernel's bytes likewise."""
        return None if self.window_bytes is None else self.window_bytes / self.im2col_bytes

    @property
    def clock_share(self) -> float | None:
        """Our kernel's clock over that of the multiply-adds on registers alone; None where they weren't read."""
        return self.busy_mhz / self.peak_mhz if self.busy_mhz and self.peak_mhz else None

    @property
    def ceiling_tflops(self) -> float:
        return self.peak_gflops * 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBenchOptions:
    """What was asked for."""

    layers: tuple[str, ...]
    against: tuple[str, ...]
    precision: str
    layout: str
    batch: int | None  # None: each shape's own
    prepacked: bool  # filters were packed before, outside the time; oneDNN's too
    rounds: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBenchResult(Run):
    """A run; written after every layer, so `complete` is false while layers are missing."""

    backend: str  # BACKEND: what tells it from a GPU's
    protocol: int
    date: str  # UTC, ISO 8601
    device: str
    arch: str
    versions: dict[str, str]
    options: CpuBenchOptions
    elapsed_s: float
    complete: bool
    layers: tuple[CpuLayerResult, ...]

    @property
    def peak_gflops(self) -> float:
        """The process's: the highest of its layers."""
        return max((layer.peak_gflops for layer in self.layers), default=0.0)

    def peak_share(self, layer: CpuLayerResult, peer: str) -> float | None:
        """Of the process's peak, by the peer's best."""
        found = layer.best(peer)
        return layer.flops / found.median_us * 1e-3 / self.peak_gflops if found else None

    def peak_share_at_clock(self, layer: CpuLayerResult, peer: str = OURS) -> float | None:
        """Of the layer's peak as it would be at our kernel's clock: multiply-adds a cycle over the most possible."""
        found = layer.best(peer)
        if found is None or layer.clock_share is None:
            return None
        return layer.flops / found.median_us * 1e-3 / (layer.peak_gflops * layer.clock_share)

    def geometric_mean_peak_share_at_clock(self) -> float | None:
        return geometric_mean(self.peak_share_at_clock(layer) for layer in self.layers)

    def geometric_mean_peak_share(self, peer: str) -> float | None:
        return geometric_mean(self.peak_share(layer, peer) for layer in self.layers)

    def mean_im2win_share(self) -> float | None:
        """Arithmetic, as the 2022 paper averages it."""
        return _mean([layer.im2win_share for layer in self.layers])

    def mean_window_share(self) -> float | None:
        return _mean([layer.window_share for layer in self.layers if layer.window_share is not None])


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
