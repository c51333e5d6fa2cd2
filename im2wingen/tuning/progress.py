"""What a tuning run tells its caller while it goes on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from im2wingen.db.records import TrialRecord
from im2wingen.outcome import Outcome

Phase = Literal["setup", "search", "play_off", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneProgress:
    """The state after something happened; `last` is the trial that ended just now, if one did."""

    phase: Phase
    elapsed_s: float
    time_budget_s: float
    max_trials: int | None
    trials: int  # ended in this run
    restored: int  # taken over from earlier runs
    counts: Mapping[Outcome, int]  # of this run's trials
    compiling: int
    ready: int  # compiled, waiting for a device
    best: TrialRecord | None
    last: TrialRecord | None = None


OnProgress = Callable[[TuneProgress], None]
