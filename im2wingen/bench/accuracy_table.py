"""What each way to compute the layers costs in accuracy: several results' errors in one table."""

from collections.abc import Sequence

from im2wingen.bench.markdown import MISSING, BenchTable, Column, table_from
from im2wingen.bench.result import CUDNN, OURS, BenchResult, LayerResult, Measurement, geometric_mean
from im2wingen.errors import UsageError

_PEERS = {CUDNN: "cuDNN", OURS: "im2wingen"}


def accuracy_table(results: Sequence[BenchResult]) -> BenchTable:
    """One row a layer; of each result cuDNN's best and ours, a peer of the same arithmetic once.

    Results are of one layout and batch, or UsageError.
    """
    shapes = {(result.options.layout, result.options.batch, result.device) for result in results}
    if len(shapes) != 1:
        raise UsageError("results of an accuracy table must share layout, batch and device")
    names = list(dict.fromkeys(layer.layer for result in results for layer in result.layers))
    columns: list[Column[str]] = [Column(title="layer", cell=lambda name: name, mean="geometric mean of norms")]
    seen: set[str] = set()
    for result in results:
        for peer in _PEERS:
            title = _title(result, peer)
            if title not in seen and any(layer.best(peer) for layer in result.layers):
                seen.add(title)
                columns.append(_column(title, result, peer))
    return table_from(columns, names, _caption(results))


def default_accuracy_name(results: Sequence[BenchResult]) -> str:
    """A marker name from what was measured: accuracy-nhwc-n128."""
    options = results[0].options
    return f"accuracy-{options.layout}" + (f"-n{options.batch}" if options.batch is not None else "")


def _title(result: BenchResult, peer: str) -> str:
    """Who, in what: cuDNN's strict fp32 is the same whatever our cores."""
    options = result.options
    cores = f", {options.cores} cores" if options.cores and peer == OURS else ""
    return f"{_PEERS[peer]} {options.precision}{cores}"


def _column(title: str, result: BenchResult, peer: str) -> Column[str]:
    layers: dict[str, LayerResult] = {layer.layer: layer for layer in result.layers}
    found = {name: layer.best(peer) for name, layer in layers.items()}
    mean = geometric_mean(best.norm_error for best in found.values() if best)
    return Column(
        title=title, cell=lambda name: _errors(found.get(name)), mean=f"{mean:.1e}" if mean is not None else MISSING
    )


def _errors(found: Measurement | None) -> str:
    return f"{found.norm_error:.1e} / {found.max_error:.1e}" if found else MISSING


def _caption(results: Sequence[BenchResult]) -> str:
    options = results[0].options
    batch = f", batch {options.batch}" if options.batch is not None else ""
    return (
        f"{results[0].device}, {options.layout}{batch}: norm-relative error / largest absolute error of y against the "
        f"float64 convolution of the same stored x and w, over the first, the middle and the last image; x is normal, "
        f"w normal of variance 1/gemm_k, so that y's standard deviation is about 1. fp16's and bf16's numbers hold the "
        f"rounding of y to the precision."
    )
