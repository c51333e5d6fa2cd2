"""Who leads a tuning run."""

from dataclasses import dataclass

from im2wingen.db import TrialRecord
from im2wingen.outcome import Outcome
from im2wingen.tuning.attempt import Compiled
from im2wingen.tuning.study import Identity, Pick


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """A config with a time; `compiled` is None where it comes from an earlier run."""

    pick: Pick
    record: TrialRecord
    compiled: Compiled | None

    @property
    def rank(self) -> tuple[float, str]:
        """Smaller is better: median in us, then the config's digest."""
        assert self.record.median_us is not None
        return self.record.median_us, self.record.config_digest


class Standings:
    """The contenders of a run. Configs of the same kernels compete once, by the first of them."""

    def __init__(self) -> None:
        self._contenders: list[Contender] = []
        self._timed: dict[Identity, TrialRecord] = {}

    def add(self, pick: Pick, record: TrialRecord, compiled: Compiled | None) -> None:
        """Take a trial in if it has a time."""
        if self.note(record):
            self._contenders.append(Contender(pick=pick, record=record, compiled=compiled))

    def note(self, record: TrialRecord) -> bool:
        """Remember a record's time alone; False if it has none."""
        if record.outcome != Outcome.OK or record.median_us is None:
            return False
        self._timed[record.family, record.config_digest] = record
        return True

    def refute(self, record: TrialRecord) -> None:
        """Forget all times of a record's config: a play-off found it wrong."""
        identity = (record.family, record.config_digest)
        self._contenders = [contender for contender in self._contenders if contender.pick.identity != identity]
        self._timed.pop(identity, None)

    @property
    def best(self) -> Contender | None:
        return min(self._contenders, key=lambda contender: contender.rank, default=None)

    @property
    def best_us(self) -> float | None:
        best = self.best
        return best.record.median_us if best else None

    def ranked(self) -> list[Contender]:
        """All of them, the best first."""
        return sorted(self._contenders, key=lambda contender: contender.rank)

    def timed(self, identity: Identity) -> TrialRecord | None:
        """The latest record of a config that has a time."""
        return self._timed.get(identity)
