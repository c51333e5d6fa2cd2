"""A result as a table: for the terminal, and as Markdown between a README's markers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from im2wingen.bench.result import CUDNN, OURS, BenchResult, LayerResult, Measurement
from im2wingen.errors import UsageError

_MISSING = "-"
_PEER_TITLES = {
    OURS: "im2wingen",
    CUDNN: "cuDNN",
    "im2col": "im2col + cuBLAS",
    "direct": "direct",
    "inductor": "Inductor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """Cells as text, the geometric means in the last row; `caption` says what was measured on what."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str

    def to_markdown(self) -> str:
        """A GitHub table and its caption."""
        rule = "|".join(["---", *["---:"] * (len(self.header) - 1)])
        lines = [_line(self.header), f"|{rule}|", *map(_line, self.rows)]
        return "\n".join([*lines, "", self.caption])

    def to_rich(self) -> Table:
        """The same for the terminal."""
        table = Table(title=None, caption=self.caption)
        for i, title in enumerate(self.header):
            table.add_column(title, justify="left" if i == 0 else "right")
        for i, row in enumerate(self.rows):
            table.add_row(*row, end_section=i == len(self.rows) - 2)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    title: str
    cell: Callable[[LayerResult], str]
    mean: str = ""  # the last row's


def table_of(result: BenchResult) -> BenchTable:
    """One row a layer: times and rates, our gain over each peer's best, share of the floor, memory, error."""
    peers = [peer for peer in _PEER_TITLES if peer in result.options.against]
    floor_share = _share(result.geometric_mean_floor_share(OURS))
    columns = [
        _Column(title="layer", cell=lambda layer: layer.layer, mean="geometric mean"),
        _Column(title="GFLOP", cell=lambda layer: f"{layer.flops * 1e-9:.1f}"),
        _Column(title="im2wingen us (TFLOPS)", cell=lambda layer: _time(layer.best(OURS))),
        *(column for peer in peers for column in _peer_columns(result, peer)),
        _Column(title="of the floor", cell=lambda layer: _share(layer.floor_share(OURS)), mean=floor_share),
        _Column(title="workspace MB", cell=lambda layer: _both(layer, peers, _workspace)),
        _Column(title="error", cell=lambda layer: _both(layer, peers, lambda m: f"{m.norm_error:.1e}")),
    ]
    cells = (tuple(column.cell(layer) for column in columns) for layer in result.layers)
    return BenchTable(
        header=tuple(column.title for column in columns),
        rows=(*cells, tuple(column.mean for column in columns)),
        caption=caption_of(result),
    )


def caption_of(result: BenchResult) -> str:
    """Device, versions, protocol and date, in one paragraph."""
    options, ceilings = result.options, result.ceilings
    known = {"driver": "driver", "cudnn": "cuDNN", "torch": "PyTorch"}
    software = ", ".join(f"{title} {result.versions[key]}" for key, title in known.items() if key in result.versions)
    peaks = ", ".join(f"{name} GEMM {tflops:.0f} TFLOPS" for name, tflops in ceilings.gemm_tflops.items())
    batch = f"batch {options.batch}, " if options.batch is not None else ""
    packing = "the filter packed beforehand" if options.prepacked else "packing included"
    missing = sorted(set(options.layers) - {layer.layer for layer in result.layers}, key=options.layers.index)
    left_out = f" Not measured in the time: {', '.join(missing)}." if missing else ""
    return (
        f"{result.device}, {software}, {result.date[:10]}: {options.precision} {options.layout}, {batch}{packing}; "
        f"median of CUDA-graph replays over rotating buffers, interleaved in one process (protocol {result.protocol}). "
        f"Ceilings of the same process: {peaks}, copy {ceilings.copy_tbps:.2f} TB/s; the floor is flops or compulsory "
        f"bytes at those. Workspace and norm-relative error against float64: im2wingen / cuDNN's best.{left_out}"
    )


def rewrite(text: str, name: str, table: str) -> str:
    """`text` with `table` between its markers for `name`; UsageError unless both stand there once, in order."""
    start, end = f"<!-- bench:{name} -->", "<!-- /bench:" + name + " -->"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise UsageError(f"the file must hold {start} and then {end}, each once")
    head, _, rest = text.partition(start)
    return f"{head}{start}\n{table.strip()}\n{end}{rest.partition(end)[2]}"


def rewrite_file(path: Path, name: str, table: str) -> bool:
    """Rewrite a file's table in place; whether it changed."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    try:
        changed = rewrite(text, name, table)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    if changed != text:
        path.write_text(changed)
    return changed != text


def default_name(result: BenchResult) -> str:
    """A marker name from what was measured: fp16-nhwc-n128."""
    options = result.options
    batch = f"-n{options.batch}" if options.batch is not None else ""
    return f"{options.precision}-{options.layout}{batch}" + ("-prepacked" if options.prepacked else "")


def _peer_columns(result: BenchResult, peer: str) -> tuple[_Column, _Column]:
    title = _PEER_TITLES[peer]
    return (
        _Column(title=f"{title} us (TFLOPS)", cell=lambda layer: _time(layer.best(peer))),
        _Column(
            title=f"speed-up over {title}",
            cell=lambda layer: _ratio(layer.speedup(OURS, peer)),
            mean=_ratio(result.geometric_mean_speedup(OURS, peer)),
        ),
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _time(found: Measurement | None) -> str:
    return f"{found.median_us:.1f} ({found.tflops:.0f})" if found else _MISSING


def _ratio(value: float | None) -> str:
    return f"{value:.2f}x" if value is not None else _MISSING


def _share(value: float | None) -> str:
    return f"{100 * value:.0f} %" if value is not None else _MISSING


def _workspace(found: Measurement) -> str:
    return f"{found.workspace_bytes * 1e-6:.1f}"


def _both(layer: LayerResult, peers: Sequence[str], cell: Callable[[Measurement], str]) -> str:
    """Ours, and cuDNN's best where it took part."""
    asked = (OURS, CUDNN) if CUDNN in peers else (OURS,)
    return " / ".join(cell(found) if found else _MISSING for found in map(layer.best, asked))
