"""A table as text: for the terminal, and as Markdown between a README's markers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.table import Table

from im2wingen.errors import UsageError

MISSING = "-"
Layer = TypeVar("Layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """Cells as text, the means in the last row; `caption` says what was measured on what."""

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
class Column(Generic[Layer]):
    title: str
    cell: Callable[[Layer], str]
    mean: str = ""  # the last row's


def table_from(columns: Sequence[Column[Any]], layers: Sequence[Any], caption: str) -> BenchTable:
    """One row a layer, and the means."""
    cells = (tuple(column.cell(layer) for column in columns) for layer in layers)
    return BenchTable(
        header=tuple(column.title for column in columns),
        rows=(*cells, tuple(column.mean for column in columns)),
        caption=caption,
    )


def ratio(value: float | None) -> str:
    return f"{value:.2f}x" if value is not None else MISSING


def share(value: float | None) -> str:
    return f"{100 * value:.0f} %" if value is not None else MISSING


def left_out(missing: Sequence[str]) -> str:
    """What a caption says of layers that were asked for."""
    return f" Not measured in the time: {', '.join(missing)}." if missing else ""


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


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
