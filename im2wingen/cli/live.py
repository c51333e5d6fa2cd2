"""What `tune` shows while it runs: a live display on a terminal, a line for each new best elsewhere."""

from types import TracebackType
from typing import Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from im2wingen.cli.output import Output
from im2wingen.families.base import AnyTarget
from im2wingen.problem import ConvProblem
from im2wingen.report import speed_sentence
from im2wingen.tuning.progress import TuneProgress

_PHASES = {"setup": "setting up", "search": "searching", "play_off": "play-off of the best", "done": "done"}
_BAR_WIDTH = 30


class TuneDisplay:
    """Takes TuneProgress (call it) and shows it on stderr; a context manager."""

    def __init__(self, output: Output, problem: ConvProblem, target: AnyTarget, title: str) -> None:
        self._output, self._problem, self._target, self._title = output, problem, target, title
        self._live = Live(console=output.err, refresh_per_second=8, transient=True)
        self._best_us: float | None = None

    def __call__(self, progress: TuneProgress) -> None:
        if self._output.err.is_terminal:
            self._live.update(self._table(progress))
        best_us = progress.best.median_us if progress.best else None
        if best_us is not None and (self._best_us is None or best_us < self._best_us):
            self._best_us = best_us
            self._output.note(f"{progress.elapsed_s:7.1f} s  trial {progress.trials}: {self._best(progress)}")

    def __enter__(self) -> Self:
        if self._output.err.is_terminal:
            self._live.start()
        else:
            self._output.note(self._title)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def _table(self, progress: TuneProgress) -> Table:
        share = min(1.0, progress.elapsed_s / progress.time_budget_s)
        filled = round(_BAR_WIDTH * share)
        left_s = max(0.0, progress.time_budget_s - progress.elapsed_s)
        trials = f"{progress.trials}" + (f" of {progress.max_trials}" if progress.max_trials else "")
        if progress.restored:
            trials += f" (and {progress.restored} from earlier runs)"
        table = Table.grid(padding=(0, 2))
        table.add_row("", Text(self._title, style="bold"))
        table.add_row("phase", _PHASES[progress.phase])
        table.add_row("time", f"{'━' * filled}{'╺' * (_BAR_WIDTH - filled)} {left_s:.0f} s left")
        table.add_row("trials", f"{trials}; {progress.compiling} compiling, {progress.ready} waiting for the device")
        table.add_row("outcomes", _outcomes(progress))
        table.add_row("best", self._best(progress))
        return table

    def _best(self, progress: TuneProgress) -> str:
        best = progress.best
        if best is None or best.median_us is None:
            return "none yet"
        speed = speed_sentence(self._problem, self._target, best.median_us, predicted=best.predicted)
        return f"{speed} ({best.family} {best.config_digest})"


def _outcomes(progress: TuneProgress) -> str:
    counts = sorted(progress.counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {outcome}" for outcome, count in counts) or "none yet"
