"""Results of either kind: out of a file, as a table, as one line of progress."""

from pathlib import Path

from im2wingen.bench import document
from im2wingen.bench.cpu.result import BACKEND, CpuBenchResult
from im2wingen.bench.cpu.table import cpu_default_name, cpu_table_of
from im2wingen.bench.markdown import BenchTable
from im2wingen.bench.result import BenchResult
from im2wingen.bench.table import default_name, table_of

AnyResult = BenchResult | CpuBenchResult


def load_any(path: Path) -> AnyResult:
    """Read a result file; UsageError if it's missing or holds something else."""
    loaded = document.read(path)
    on_cpu = isinstance(loaded, dict) and loaded.get("backend") == BACKEND
    return (CpuBenchResult if on_cpu else BenchResult).from_document(loaded, str(path))


def any_table_of(result: AnyResult) -> BenchTable:
    return cpu_table_of(result) if isinstance(result, CpuBenchResult) else table_of(result)


def any_name(result: AnyResult) -> str:
    """The markers' name."""
    return cpu_default_name(result) if isinstance(result, CpuBenchResult) else default_name(result)


def rate_unit(result: AnyResult) -> tuple[str, float]:
    """The unit that rates are shown in, and how many of it are a TFLOPS."""
    return ("GFLOPS", 1e3) if isinstance(result, CpuBenchResult) else ("TFLOPS", 1.0)


def progress_of(result: AnyResult) -> str:
    """One line about the layer that was measured last."""
    unit, scale = rate_unit(result)
    layer = result.layers[-1]
    best = sorted(layer.measurements, key=lambda m: m.median_us)
    parts = [f"{m.contestant} {m.median_us:.1f} us ({m.tflops * scale:.0f} {unit})" for m in best]
    return f"{layer.layer} ({result.elapsed_s:.0f} s): {', '.join(parts) or 'nothing ran'}"
