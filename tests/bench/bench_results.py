"""Made-up results for the benchmark's tests."""

from im2wingen.bench.result import BenchOptions, BenchResult, Ceilings, LayerResult, Measurement


def measurement(contestant: str, peer: str, median_us: float) -> Measurement:
    return Measurement(
        contestant=contestant, peer=peer, detail="made up", median_us=median_us, min_us=median_us * 0.9, spread=0.01,
        samples=15, clock_mhz=1500, tflops=2e6 / median_us, workspace_bytes=0 if peer == "im2wingen" else 3_000_000,
        peak_bytes=0, norm_error=2e-4, max_error=1e-3,
    )  # fmt: skip


def layer(name: str, *measurements: Measurement, floor_us: float = 50.0, **skipped: str) -> LayerResult:
    return LayerResult(
        layer=name, problem_key=f"{name}/fp16", flops=2 * 10**12, compulsory_bytes=10**6, floor_us=floor_us,
        buffer_sets=3, plans_offered=7, plans_screened=5, measurements=measurements, skipped=skipped,
    )  # fmt: skip


def result(*layers: LayerResult, against: tuple[str, ...] = ("cudnn",), asked: tuple[str, ...] = ()) -> BenchResult:
    return BenchResult(
        protocol=1, date="2026-11-29T12:00:00+00:00", device="NVIDIA H200", arch="sm_90a",
        versions={"cudnn": "9.19.0", "torch": "2.11.0", "driver": "580.159"},
        options=BenchOptions(
            layers=asked or tuple(found.layer for found in layers), against=against, precision="fp16", layout="nhwc",
            batch=128, prepacked=False, rounds=3, plan_seconds=4.0, finalists=3,
        ),
        ceilings=Ceilings(gemm_tflops={"fp16": 790.0}, copy_tbps=4.3), elapsed_s=12.5, complete=not asked,
        layers=layers,
    )  # fmt: skip


def two_layers() -> BenchResult:
    """Ours is 2x and 8x faster than cuDNN: its best is a plan in one layer, PyTorch in the other."""
    return result(
        layer(
            "cv5", measurement("im2wingen", "im2wingen", 100.0), measurement("cudnn eng1", "cudnn", 200.0),
            measurement("torch", "cudnn", 250.0),
        ),
        layer(
            "cv8", measurement("im2wingen", "im2wingen", 80.0), measurement("cudnn eng7", "cudnn", 700.0),
            measurement("torch", "cudnn", 640.0), direct="the direct kernel has no groups",
        ),
        against=("cudnn", "direct"),
    )  # fmt: skip
