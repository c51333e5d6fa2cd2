"""What became of one configuration: the words that workers, the study and the database share."""

from dataclasses import dataclass
from enum import StrEnum

from im2wingen.families.base import Plan
from im2wingen.nvrtc import Cubin


class Outcome(StrEnum):
    """Every way a trial can end; all are kept in the database."""

    OK = "ok"
    ILLEGAL = "illegal"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    SPILLS = "spills"
    LAUNCH_ERROR = "launch_error"
    RUN_TIMEOUT = "run_timeout"
    ILLEGAL_ACCESS = "illegal_access"
    WRONG_RESULT = "wrong_result"
    SLOWER = "slower"  # verified; its probe launch was too slow to be worth measuring


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration ready for a device: its plan and one cubin a launch."""

    family: str
    config_digest: str
    plan: Plan
    cubins: tuple[Cubin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Microseconds of one run of the whole plan, transforms included, and on a GPU packing."""

    median_us: float
    min_us: float
    spread: float  # (75th - 25th percentile) / median of the samples
    samples: int
    clock_mhz: int  # SM clock after the samples; 0 where it can't be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStats:
    """How far y is from the float64 reference on random-normal data."""

    max_error: float
    norm_error: float  # ||y - ref|| / ||ref||


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The answer of a worker; `reason` is a sentence wherever the outcome is not ok."""

    outcome: Outcome
    reason: str = ""
    timing: Timing | None = None
    error: ErrorStats | None = None
