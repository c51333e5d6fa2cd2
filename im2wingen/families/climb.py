"""Better configs step by step: one choice changed at a time, judged by an estimate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from im2wingen.families.base import Choose, Config, Family
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
C = TypeVar("C", bound=Config)
Rank = Callable[[Config], tuple[float, str]]


def climb(family: Family, problem: ConvProblem, target: Target, config: C, rank: Rank) -> C:
    """From a legal `config` on, the lowest ranked variant of each choice in turn, until no choice gives a lower one.

    A config outside the search space comes back as it is.
    """
    lowest, before = rank(config), None
    while lowest != before:
        before = lowest
        for field in _by_field(family.choices_of(problem, target, config) or {}):
            for variant in list(variants(family, problem, target, config, field)):
                lowest, config = min((lowest, config), (rank(variant), variant), key=lambda entry: entry[0])
    return config


def variants(family: Family, problem: ConvProblem, target: Target, config: C, field: str) -> Iterator[C]:
    """The legal configs that choose `field` otherwise; where that takes another choice away, its first value stands."""
    own = _by_field(family.choices_of(problem, target, config) or {})
    prefer_own = preferring(own)
    offered: Sequence[Any] = ()

    def pick(name: str, choices: Sequence[T], /) -> T:
        nonlocal offered
        if name.partition(".")[0] == field:
            offered = choices
        return prefer_own(name, choices)

    family.suggest(problem, target, pick)
    for value in offered:
        if value != own[field]:
            variant: Any = family.suggest(problem, target, preferring(own | {field: value}))
            if not family.broken_rules(problem, target, variant):
                yield variant


def preferring(wanted: Mapping[str, Any]) -> Choose:
    """Picks a field's wanted value where it is among the choices, else the first of them."""

    def pick(name: str, choices: Sequence[T], /) -> T:
        value = wanted.get(name.partition(".")[0])
        return cast(T, value) if value in choices else choices[0]

    return pick


def _by_field(choices: Mapping[str, Any]) -> dict[str, Any]:
    return {name.partition(".")[0]: value for name, value in choices.items()}
