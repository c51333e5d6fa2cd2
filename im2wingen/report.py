"""Tables and progress for people, from the values that everything else works with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.table import Table

from im2wingen.cpu_target import CpuTarget
from im2wingen.db.records import TrialRecord
from im2wingen.families.base import AnyTarget, TemplateValue
from im2wingen.problem import ConvProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The time that no kernel of a problem can beat on a target, from the target's data-sheet ceilings."""

    floor_us: float
    bound: str  # "arithmetic" or "memory"; of a CPU its FMAs and the clock that they are counted at

    @classmethod
    def of(cls, problem: ConvProblem, target: AnyTarget) -> "Roofline":
        """The larger of flops over peak and compulsory bytes over DRAM bandwidth, which isn't known of CPUs."""
        if isinstance(target, CpuTarget):
            bound = f"FMA (at {target.clock_mhz} MHz)"  # the clock that it tells; it may run faster
            return cls(floor_us=problem.flops / target.gflops(problem.element_bytes) * 1e-3, bound=bound)
        arithmetic_us = problem.flops / target.peak_tflops(problem.precision) * 1e-6
        memory_us = problem.compulsory_bytes / target.dram_gbps * 1e-3
        bound = "arithmetic" if arithmetic_us >= memory_us else "memory"
        return cls(floor_us=max(arithmetic_us, memory_us), bound=bound)

    def share(self, median_us: float) -> float:
        """1.0 at the floor."""
        return self.floor_us / median_us


def tflops(problem: ConvProblem, median_us: float) -> float:
    """The problem's flops over the time, 1e12 a second, whatever the kernel really computes."""
    return problem.flops / median_us * 1e-6


def format_us(microseconds: float | None) -> str:
    return "-" if microseconds is None else f"{microseconds:.2f}" if microseconds < 100 else f"{microseconds:.1f}"


def format_bytes(count: int | None) -> str:
    """With a binary unit, 3 digits or so."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def speed_sentence(problem: ConvProblem, target: AnyTarget, median_us: float, *, predicted: bool) -> str:
    """`812.3 us, 251 TFLOPS, 40 % of the arithmetic roofline` and whether it's a prediction."""
    roofline = Roofline.of(problem, target)
    return (
        f"{format_us(median_us)} us{' (predicted)' if predicted else ''}, {_rate(problem, target, median_us)}, "
        f"{100 * roofline.share(median_us):.0f} % of the {roofline.bound} roofline"
    )


def _rate(problem: ConvProblem, target: AnyTarget, median_us: float) -> str:
    rate = tflops(problem, median_us)
    return f"{1e3 * rate:.1f} GFLOPS" if isinstance(target, CpuTarget) else f"{rate:.1f} TFLOPS"


def records_table(title: str, records: Iterable[TrialRecord]) -> Table:
    """Stored trials, best first as they come."""
    table = _table(
        title, ("device", "family", "config", "outcome", "#us", "#TFLOPS", "#spread", "#regs", "#workspace", "study")
    )
    for record in records:
        problem = ConvProblem.from_key(record.problem_key)
        time_us = record.median_us
        table.add_row(
            f"{record.device_name} ({record.arch})",
            record.family,
            record.config_digest,
            f"{record.outcome}{', predicted' if record.predicted else ''}",
            format_us(time_us),
            "-" if time_us is None else _short(tflops(problem, time_us)),
            "-" if record.spread is None else f"{100 * record.spread:.1f} %",
            "-" if record.num_regs is None else str(record.num_regs),
            format_bytes(record.workspace_bytes),
            f"{record.study} #{record.trial}{' play-off' if record.play_off else ''}",
        )
    return table


def _short(rate: float) -> str:
    return f"{rate:.1f}" if rate >= 10 else f"{rate:.3g}"


def config_table(title: str, config: Mapping[str, TemplateValue]) -> Table:
    table = _table(title, ("field", "value"))
    for name, value in config.items():
        table.add_row(name, str(value))
    return table


def rows_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A plain table; a column whose name starts with # is aligned to the right."""
    table = _table(title, columns)
    for row in rows:
        table.add_row(*row)
    return table


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", highlight=False)
    for column in columns:
        right = column.startswith("#")
        table.add_column(column.removeprefix("#"), justify="right" if right else "left", overflow="fold")
    return table
