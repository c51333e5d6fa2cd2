"""Several runs of the same layers as one result."""

from collections.abc import Sequence
from dataclasses import replace

from im2wingen.bench.result import OURS, BenchResult, LayerResult
from im2wingen.errors import UsageError

_OPTIONS = ("layers", "against", "precision", "layout", "batch", "prepacked", "cores")  # not: how long was measured
_SAME = ("device", "protocol", *_OPTIONS)


def median_of(results: Sequence[BenchResult]) -> BenchResult:
    """Each layer from the run in which its speed-up over the first peer is the median, the lower one of two.

    So the numbers of a layer are of one process. The rest is the first run's. Raises UsageError where the runs are not
    of the same device and protocol, or did not ask for the same.
    """
    first = results[0]
    for other in results[1:]:
        for name, one, another in zip(_SAME, _facts(first), _facts(other), strict=True):
            if one != another:
                raise UsageError(f"table: the runs differ in their {name}: {one} and {another}")
    layers = [
        [layer for run in results for layer in run.layers if layer.layer == name] for name in first.options.layers
    ]
    return replace(
        first,
        runs=len(results),
        elapsed_s=sum(run.elapsed_s for run in results),
        complete=all(run.complete for run in results),
        layers=tuple(_median(found, first.options.against[:1]) for found in layers if found),
    )


def _facts(run: BenchResult) -> tuple[object, ...]:
    return run.device, run.protocol, *(getattr(run.options, name) for name in _OPTIONS)


def _median(runs: list[LayerResult], peers: tuple[str, ...]) -> LayerResult:
    def gain(layer: LayerResult) -> float:
        """Over the peer; without one, the shorter the time the more."""
        ours = layer.best(OURS)
        if ours is None:
            return 0.0
        return (layer.speedup(OURS, peers[0]) or 0.0) if peers else 1 / ours.median_us

    return sorted(runs, key=gain)[(len(runs) - 1) // 2]
