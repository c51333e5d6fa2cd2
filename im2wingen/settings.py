"""What the environment says; no other module reads it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

import platformdirs

from im2wingen.errors import UsageError

Mode = Literal["frozen", "cache", "tune"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment's wishes, each overridden by the argument of the same meaning."""

    db_url: str
    cache_dir: Path
    mode: Mode
    tune_budget_s: float
    cxx: str | None
    log_level: str


def read_settings() -> Settings:
    """Read the IM2WINGEN_* variables now; UsageError names a variable that holds something else than allowed."""
    data = Path(platformdirs.user_data_dir("im2wingen"))
    db = os.environ.get("IM2WINGEN_DB") or str(data / "tuning.sqlite")
    mode = os.environ.get("IM2WINGEN_MODE", "cache")
    if mode not in get_args(Mode):
        raise UsageError(f"IM2WINGEN_MODE is {mode!r}; allowed are {', '.join(get_args(Mode))}")
    budget = os.environ.get("IM2WINGEN_TUNE_BUDGET", "30")
    try:
        budget_s = float(budget)
    except ValueError:
        budget_s = -1.0
    if not 0 < budget_s < 1e6:
        raise UsageError(f"IM2WINGEN_TUNE_BUDGET is {budget!r}; allowed is a number of seconds above 0")
    return Settings(
        db_url=db if "://" in db else f"sqlite:///{db}",
        cache_dir=Path(os.environ.get("IM2WINGEN_CACHE") or platformdirs.user_cache_dir("im2wingen")),
        mode=cast(Mode, mode),
        tune_budget_s=budget_s,
        cxx=os.environ.get("IM2WINGEN_CXX") or None,
        log_level=os.environ.get("IM2WINGEN_LOG", "WARNING").upper(),
    )


def environment_with(changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with changes, for a process that it starts."""
    return {**os.environ, **changes}
