"""The kernel families, as a table."""

from collections.abc import Sequence
from typing import get_args

from im2wingen.errors import UnsupportedError, UsageError
from im2wingen.families.base import AnyTarget, Config, Cores, Family, Launch, Plan, Rule
from im2wingen.families.mma import MMA
from im2wingen.families.simd import SIMD
from im2wingen.families.simt import SIMT
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_pointwise import WGMMA_POINTWISE
from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.problem import ConvProblem

FAMILIES: dict[str, Family] = {family.name: family for family in (SIMT, MMA, WGMMA, WGMMA_ROWS, WGMMA_POINTWISE, SIMD)}


def family_named(name: str) -> Family:
    """The family of that name; UsageError lists the known ones."""
    if name not in FAMILIES:
        raise UsageError(f"family is {name!r}; allowed are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def check_cores(cores: str | None) -> Cores | None:
    """The name as Cores; UsageError for another."""
    for known in get_args(Cores):
        if cores == known:
            found: Cores = known
            return found
    if cores is not None:
        raise UsageError(f"cores is {cores!r}; allowed are {', '.join(get_args(Cores))}")
    return None


def family_names(names: Sequence[str] | None, cores: str | None) -> Sequence[str] | None:
    """Those of `names` (None: every family) that multiply on `cores`, `cuda` or `tensor`; `names` itself for None.

    UsageError for other cores, for an unknown family and where none is left.
    """
    if check_cores(cores) is None:
        return names
    asked = [family_named(name) for name in (FAMILIES if names is None else names)]
    left = [family.name for family in asked if family.cores == cores]
    if not left:
        raise UsageError(
            f"cores is {cores!r}, and family {', '.join(names or ())} doesn't multiply there; leave one out"
        )
    return left


def families_for(problem: ConvProblem, target: AnyTarget, names: Sequence[str] | None = None) -> list[Family]:
    """Every family, or of those named every one, that can run the problem on the target.

    UnsupportedError with each family's reason if none can, UsageError for an unknown name.
    """
    asked = [family_named(name) for name in dict.fromkeys(FAMILIES if names is None else names)]
    reasons = {family.name: family.unsupported(problem, target) for family in asked}
    able = [family for family in asked if reasons[family.name] is None]
    if not able:
        raise UnsupportedError(problem.key, {name: reason for name, reason in reasons.items() if reason})
    return able


__all__ = [
    "FAMILIES", "AnyTarget", "Config", "Cores", "Family", "Launch", "Plan", "Rule", "check_cores", "families_for",
    "family_named", "family_names",
]  # fmt: skip
