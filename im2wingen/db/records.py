"""TrialRecord: one trial with all that makes its numbers comparable, and its canonical text."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from im2wingen.families.base import TemplateValue
from im2wingen.outcome import Outcome

_FLOATS = ("median_us", "min_us", "spread", "max_error", "norm_error")


def utc_now() -> str:
    """The time of a trial as records keep it: ISO 8601 with microseconds, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """What became of one configuration on one device; failures are records too, with their reason.

    A float that is no finite number is kept as None. `driver_version` is empty on a predicted record, whose
    `median_us` is the cost model's estimate and whose device is a preset.
    """

    problem_key: str  # ConvProblem.key
    family: str
    config: Mapping[str, TemplateValue]
    config_digest: str  # Config.digest()
    template_digest: str  # of all the templates of the family; a look-up demands that it still matches
    source_digest: str  # of the rendered kernels; empty where nothing was rendered
    outcome: Outcome
    reason: str = ""  # a sentence wherever the outcome is not ok
    device_name: str
    arch: str
    sm_count: int
    driver_version: str
    nvrtc_version: str
    predicted: bool
    median_us: float | None = None
    min_us: float | None = None
    spread: float | None = None  # (75th - 25th percentile) / median
    samples: int = 0
    clock_mhz: int = 0  # 0 where it can't be read
    protocol_version: int  # of the measuring protocol; 0 on a predicted record
    max_error: float | None = None
    norm_error: float | None = None
    workspace_bytes: int | None = None
    num_regs: int | None = None
    smem_bytes: int | None = None
    cubin_sha256: tuple[str, ...] = ()  # one a launch; empty: this record brings no right to load a binary
    study: str
    trial: int
    play_off: bool = False
    created_at: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        for name in _FLOATS:
            value = getattr(self, name)
            finite = value is not None and math.isfinite(value)
            object.__setattr__(self, name, float(value) + 0.0 if finite else None)  # + 0.0: SQLite keeps no -0.0
        object.__setattr__(self, "outcome", Outcome(self.outcome))
        object.__setattr__(self, "cubin_sha256", tuple(self.cubin_sha256))
        # compiler logs end up here; PostgreSQL takes no NUL and no database a lone surrogate
        reason = self.reason.encode("utf-8", "replace").decode().replace("\0", "?")
        object.__setattr__(self, "reason", reason)

    @property
    def text(self) -> str:
        """The record as one line of canonical JSON (without the line's end): fields in the order declared here."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["config"] = dict(sorted(self.config.items()))
        return json.dumps(values, allow_nan=False)

    @property
    def identity(self) -> str:
        """sha256, in hex, of all but `cubin_sha256`: two records of one identity are the same trial."""
        return hashlib.sha256(dataclasses.replace(self, cubin_sha256=()).text.encode()).hexdigest()

    @property
    def sort_key(self) -> tuple[str, str, str, str, int, bool, str]:
        """The order of exports: what a reviewer reads together stands together; total, by the text."""
        return (self.problem_key, self.device_name, self.family, self.study, self.trial, self.play_off, self.text)


def config_text(config: Mapping[str, TemplateValue]) -> str:
    """A config as canonical JSON; its sha256's first 16 hex digits are the config's digest."""
    return json.dumps(dict(config), sort_keys=True)


def stronger(one: TrialRecord, other: TrialRecord) -> TrialRecord:
    """Which of two records of one identity stays: one with cubin hashes before one without, then the smaller text."""
    return min(one, other, key=lambda record: (not record.cubin_sha256, record.text))
