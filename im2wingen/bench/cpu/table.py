"""A CPU's result as a table."""

from im2wingen.bench.cpu.result import ONEDNN, CpuBenchResult, CpuLayerResult
from im2wingen.bench.markdown import MISSING, BenchTable, Column, left_out, ratio, share, table_from
from im2wingen.bench.result import OURS, Measurement, missing_layers

_PEER_TITLES = {ONEDNN: "oneDNN", "im2col": "im2col + BLAS", "direct": "direct"}


def cpu_table_of(result: CpuBenchResult) -> BenchTable:
    """One row a layer: times and rates, share of the peak, our gain over each peer's best, memory for windows."""
    peers = [peer for peer in _PEER_TITLES if peer in result.options.against]
    columns: list[Column[CpuLayerResult]] = [
        Column(title="layer", cell=lambda layer: layer.layer, mean="geometric mean"),
        Column(title="GFLOP", cell=lambda layer: f"{layer.flops * 1e-9:.2f}"),
        Column(title="im2wingen ms (GFLOPS)", cell=lambda layer: _time(layer.best(OURS))),
        Column(
            title="of the peak",
            cell=lambda layer: share(result.peak_share(layer, OURS)),
            mean=share(result.geometric_mean_peak_share(OURS)),
        ),
        *_clock_columns(result),
        *(column for peer in peers for column in _peer_columns(result, peer)),
        Column(
            title="window / im2col",
            cell=lambda layer: _percent(layer.window_share),
            mean=_average(result.mean_window_share()),
        ),
        Column(
            title="explicit window / im2col",
            cell=lambda layer: _percent(layer.im2win_share),
            mean=_average(result.mean_im2win_share()),
        ),
        Column(title="im2col MB", cell=lambda layer: f"{layer.im2col_bytes * 1e-6:.1f}"),
        Column(title="error", cell=lambda layer: _error(layer.best(OURS))),
    ]
    return table_from(columns, result.layers, cpu_caption_of(result))


def cpu_caption_of(result: CpuBenchResult) -> str:
    """CPU, threads, versions, protocol, peak and date, in one paragraph."""
    options, versions = result.options, result.versions
    known = {"compiler": "", "torch": "PyTorch ", "onednn": "oneDNN ", "numpy": "NumPy ", "blas": ""}
    there = {key: versions[key] for key in known if versions.get(key, "not installed") != "not installed"}
    software = ", ".join(known[key] + version for key, version in there.items())
    batch = f"batch {options.batch}, " if options.batch is not None else ""
    packing = "filters packed beforehand, oneDNN's too" if options.prepacked else "packing included"
    clocks = {m.clock_mhz for layer in result.layers for m in layer.measurements if m.clock_mhz}
    clock = f" at {_span(clocks)} MHz" if clocks else ""
    return (
        f"{result.device} ({result.arch}){clock}, {options.threads} pinned threads, {software}, {result.date[:10]}: "
        f"{options.precision} {options.layout}, {batch}{packing}; median of {options.rounds} rounds, interleaved in "
        f"one process (CPU protocol {result.protocol}){_spreads(result)}. "
        f"Peak: {_kind(options.precision)}multiply-adds on registers in the same "
        f"process, {result.peak_gflops:.0f} GFLOPS.{_at_clock(result)} Speed-ups are over the peer's best way. Window: "
        f"copies of x that our kernel makes; explicit: the im2win tensor; both over the im2col matrix, averaged "
        f"arithmetically. Error: norm-relative against float64."
        f"{left_out(missing_layers(options.layers, result.layers))}"
    )


def cpu_default_name(result: CpuBenchResult) -> str:
    """A marker name from what was measured: cpu-fp32-nhwc-n1-prepacked."""
    options = result.options
    batch = f"-n{options.batch}" if options.batch is not None else ""
    return f"cpu-{options.precision}-{options.layout}{batch}" + ("-prepacked" if options.prepacked else "")


def _peer_columns(result: CpuBenchResult, peer: str) -> tuple[Column[CpuLayerResult], Column[CpuLayerResult]]:
    title = _PEER_TITLES[peer]
    return (
        Column(title=f"{title} ms (GFLOPS)", cell=lambda layer: _time(layer.best(peer))),
        Column(
            title=f"speed-up over {title}",
            cell=lambda layer: ratio(layer.speedup(OURS, peer)),
            mean=ratio(result.geometric_mean_speedup(OURS, peer)),
        ),
    )


def _clock_columns(result: CpuBenchResult) -> list[Column[CpuLayerResult]]:
    """None for a result without clocks."""
    if not any(layer.clock_share for layer in result.layers):
        return []
    return [
        Column(title="clock GHz / peak's", cell=_clocks),
        Column(
            title="of the peak at its clock",
            cell=lambda layer: share(result.peak_share_at_clock(layer)),
            mean=share(result.geometric_mean_peak_share_at_clock()),
        ),
    ]


def _kind(precision: str) -> str:
    """Of the peak's multiply-adds, where it isn't the layers' own."""
    return "" if precision == "fp32" else "fp32 "


def _at_clock(result: CpuBenchResult) -> str:
    if not any(layer.clock_share for layer in result.layers):
        return ""
    return (
        " At its clock: of that peak at the clock that a core has right after our kernel, which is lower where "
        "multiplications load operands."
    )


def _clocks(layer: CpuLayerResult) -> str:
    if layer.clock_share is None:
        return MISSING
    return f"{layer.busy_mhz * 1e-3:.2f} / {layer.peak_mhz * 1e-3:.2f}"


def _time(found: Measurement | None) -> str:
    if found is None:
        return MISSING
    gflops = found.tflops * 1e3
    return f"{found.median_us * 1e-3:.3f} ({gflops:.{0 if gflops >= 10 else 1}f})"


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %" if value else "0"


def _average(value: float | None) -> str:
    return f"average {_percent(value)}" if value else _percent(value)


def _error(found: Measurement | None) -> str:
    return f"{found.norm_error:.1e}" if found else MISSING


def _spreads(result: CpuBenchResult) -> str:
    """What a disturbed run can be told by: the largest spread of each peer's best."""
    parts = []
    for peer, title in ((OURS, "im2wingen"), *_PEER_TITLES.items()):
        spreads = [found.spread for layer in result.layers if (found := layer.best(peer))]
        parts += [f"{title} {100 * max(spreads):.0f} %"] if spreads else []
    return f"; largest spreads: {', '.join(parts)}" if parts else ""


def _span(numbers: set[int]) -> str:
    ends = sorted({min(numbers), max(numbers)}) if numbers else []
    return " to ".join(map(str, ends))
