"""A GPU's result as a table."""

from collections.abc import Callable, Sequence

from im2wingen.bench.markdown import MISSING, BenchTable, Column, left_out, ratio, share, table_from
from im2wingen.bench.result import CUDNN, OURS, PLANS, UNTRIED, BenchResult, LayerResult, Measurement, missing_layers

_PEER_TITLES = {
    OURS: "im2wingen",
    CUDNN: "cuDNN",
    "im2col": "im2col + cuBLAS",
    "direct": "direct",
    "inductor": "Inductor",
}


def table_of(result: BenchResult) -> BenchTable:
    """One row a layer: times and rates, our gain over each peer's best, share of the floor, memory, error."""
    peers = [peer for peer in _PEER_TITLES if peer in result.options.against]
    floor_share = share(result.geometric_mean_floor_share(OURS))
    columns: list[Column[LayerResult]] = [
        Column(title="layer", cell=lambda layer: layer.layer, mean="geometric mean"),
        Column(title="GFLOP", cell=lambda layer: f"{layer.flops * 1e-9:.1f}"),
        Column(title="im2wingen us (TFLOPS)", cell=lambda layer: _time(layer.best(OURS))),
        *(column for peer in peers for column in _peer_columns(result, peer)),
        Column(title="of the floor", cell=lambda layer: share(layer.floor_share(OURS)), mean=floor_share),
        Column(title="workspace MB", cell=lambda layer: _both(layer, peers, _workspace)),
        Column(title="error", cell=lambda layer: _both(layer, peers, lambda m: f"{m.norm_error:.1e}")),
    ]
    return table_from(columns, result.layers, caption_of(result))


def caption_of(result: BenchResult) -> str:
    """Device, versions, protocol and date, in one paragraph."""
    options, ceilings = result.options, result.ceilings
    known = {"driver": "driver", "cudnn": "cuDNN", "torch": "PyTorch"}
    software = ", ".join(f"{title} {result.versions[key]}" for key, title in known.items() if key in result.versions)
    peaks = ", ".join(f"{name} GEMM {tflops:.0f} TFLOPS" for name, tflops in ceilings.gemm_tflops.items())
    batch = f"batch {options.batch}, " if options.batch is not None else ""
    cores = f"kernels on {options.cores} cores, " if options.cores else ""
    packing = "the filter packed beforehand" if options.prepacked else "packing included"
    return (
        f"{result.device}, {software}, {result.date[:10]}: {options.precision} {options.layout}, {batch}{cores}"
        f"{packing}; median of CUDA-graph replays over rotating buffers, interleaved in one process (protocol "
        f"{result.protocol}). "
        f"Ceilings of the same process: {peaks}, copy {ceilings.copy_tbps:.2f} TB/s; the floor is flops or compulsory "
        f"bytes at those.{_runs(result)} Workspace and norm-relative error against float64: im2wingen / cuDNN's best."
        f"{left_out(missing_layers(options.layers, result.layers))}{_untried(result)}"
    )


def default_name(result: BenchResult) -> str:
    """A marker name from what was measured: fp16-nhwc-n128."""
    options = result.options
    batch = f"-n{options.batch}" if options.batch is not None else ""
    cores = f"-{options.cores}" if options.cores else ""
    return f"{options.precision}-{options.layout}{batch}{cores}" + ("-prepacked" if options.prepacked else "")


def _runs(result: BenchResult) -> str:
    return f" Each layer is the median, by its speed-up, of {result.runs} runs." if result.runs > 1 else ""


def _untried(result: BenchResult) -> str:
    """Where cuDNN's best may be another one."""
    sentences = {layer.layer: layer.skipped.get(PLANS, "") for layer in result.layers}
    found = [f"{name} {text.removesuffix(UNTRIED)}" for name, text in sentences.items() if text.endswith(UNTRIED)]
    return f" Plans of cuDNN that were not tried in the time: {', '.join(found)}." if found else ""


def _peer_columns(result: BenchResult, peer: str) -> tuple[Column[LayerResult], Column[LayerResult]]:
    title = _PEER_TITLES[peer]
    return (
        Column(title=f"{title} us (TFLOPS)", cell=lambda layer: _time(layer.best(peer))),
        Column(
            title=f"speed-up over {title}",
            cell=lambda layer: ratio(layer.speedup(OURS, peer)),
            mean=ratio(result.geometric_mean_speedup(OURS, peer)),
        ),
    )


def _time(found: Measurement | None) -> str:
    return f"{found.median_us:.1f} ({found.tflops:.0f})" if found else MISSING


def _workspace(found: Measurement) -> str:
    return MISSING if found.workspace_bytes is None else f"{found.workspace_bytes * 1e-6:.1f}"


def _both(layer: LayerResult, peers: Sequence[str], cell: Callable[[Measurement], str]) -> str:
    """Ours, and cuDNN's best where it took part."""
    asked = (OURS, CUDNN) if CUDNN in peers else (OURS,)
    return " / ".join(cell(found) if found else MISSING for found in map(layer.best, asked))
