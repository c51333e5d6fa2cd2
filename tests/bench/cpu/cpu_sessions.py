"""One layer's arrays and reference for the peers' tests, and made-up results of a run."""

from im2wingen.bench.cpu.accuracy import CpuReference
from im2wingen.bench.cpu.contestant import Arrays, CpuContestant, CpuSession
from im2wingen.bench.cpu.result import CpuBenchOptions, CpuBenchResult, CpuLayerResult
from im2wingen.bench.result import Measurement
from im2wingen.cpu.devices import cpu_with
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem


def session(
    shape: str, layout: str = "nhwc", *, prepacked: bool = False, db: str | None = None, precision: str = "fp32"
) -> CpuSession:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout)
    return CpuSession(
        problem=problem, arrays=Arrays.of(problem), target=cpu_with(), prepacked=prepacked, db=db
    )  # fmt: skip


def error_of(asked: CpuSession, contestant: CpuContestant) -> ErrorStats:
    """Of a run on a spoiled y; PeerUnavailableError if it's wrong."""
    asked.arrays.spoil()
    contestant.launch()
    return CpuReference.of(asked.problem, asked.arrays).check(contestant.output())


def measurement(contestant: str, peer: str, median_us: float) -> Measurement:
    return Measurement(
        contestant=contestant, peer=peer, detail="made up", median_us=median_us, min_us=median_us * 0.9, spread=0.02,
        samples=15, clock_mhz=2600, tflops=2e3 / median_us, workspace_bytes=None if peer == "onednn" else 64,
        peak_bytes=None, norm_error=3e-7, max_error=1e-6,
    )  # fmt: skip


def layer(name: str, *measurements: Measurement, window_bytes: int | None = 0, **skipped: str) -> CpuLayerResult:
    return CpuLayerResult(
        layer=name, problem_key=f"{name}/fp32", flops=2 * 10**9, compulsory_bytes=10**6, peak_gflops=250.0,
        window_bytes=window_bytes, im2win_bytes=4 * 10**6, im2col_bytes=10**7, measurements=measurements,
        skipped=skipped,
    )  # fmt: skip


def two_layers() -> CpuBenchResult:
    """Ours takes 10 and 40 ms; oneDNN's best is its packed way in one layer, the plain one in the other."""
    return CpuBenchResult(
        backend="cpu", protocol=1, date="2026-11-29T12:00:00+00:00", device="Some CPU", arch="x86-64-avx512",
        versions={"compiler": "g++ 12.2.0", "torch": "2.11.0", "onednn": "3.7.1", "numpy": "2.4.0", "blas": "openblas"},
        options=CpuBenchOptions(
            layers=("cv5", "cv8"), against=("onednn", "direct"), precision="fp32", layout="nhwc", batch=1,
            prepacked=True, rounds=5, threads=2,
        ),
        elapsed_s=3.5, complete=True,
        layers=(
            layer(
                "cv5", measurement("im2wingen", "im2wingen", 10_000.0), measurement("onednn", "onednn", 11_000.0),
                measurement("onednn packed", "onednn", 9_000.0), measurement("direct", "direct", 900_000.0),
            ),
            layer(
                "cv8", measurement("im2wingen", "im2wingen", 40_000.0), measurement("onednn", "onednn", 44_000.0),
                measurement("onednn packed", "onednn", 50_000.0), window_bytes=10**6, direct="no time",
            ),
        ),
    )  # fmt: skip
