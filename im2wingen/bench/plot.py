"""A result as a picture: the rate of each contestant at each layer, and its ceiling."""

import importlib
from pathlib import Path
from typing import Any

from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.bench.result import OURS
from im2wingen.bench.stored import AnyResult, rate_unit


def save_plot(result: AnyResult, path: Path) -> None:
    """Grouped bars; the ending of `path` picks the format. PeerUnavailableError where matplotlib is missing."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise PeerUnavailableError("a plot needs matplotlib: pip install matplotlib") from error
    peers = (OURS, *result.options.against)
    layers, (unit, scale) = result.layers, rate_unit(result)
    figure = figures.Figure(figsize=(max(6.0, 1.1 * len(layers)), 4.0), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(peers)
    for i, peer in enumerate(peers):
        found = [layer.best(peer) for layer in layers]
        heights = [measurement.tflops * scale if measurement else 0.0 for measurement in found]
        axes.bar([x + i * width for x in range(len(layers))], heights, width, label=peer)
    for x, layer in enumerate(layers):
        ceiling = layer.ceiling_tflops * scale
        axes.hlines(
            ceiling, x - width / 2, x + 0.8 - width / 2, color="black", linewidth=1, label=None if x else "ceiling"
        )
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(layers))], [layer.layer for layer in layers])
    axes.set_ylabel(unit)
    options = result.options
    axes.set_title(f"{result.device}: {options.precision} {options.layout}")
    axes.legend()
    figure.savefig(path)
