"""Better configs step by step: one choice changed at a time, judged by an estimate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from im2wingen.families.base import Config, Family
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
    offered: Sequence[Any] = ()

    def pick(name: str, choices: Sequence[T], /, wanted: Mapping[str, Any] = own) -> T:
        nonlocal offered
        if name.partition(".")[0] == field:
            offered = choices
        value = wanted.get(name.partition(".")[0])
        return value if value in choices else choices[0]  # type: ignore[return-value]

    family.suggest(problem, target, pick)
    for value in offered:
        if value != own[field]:
            wanted = own | {field: value}
            variant: Any = family.suggest(problem, target, lambda name, choices, /, w=wanted: pick(name, choices, w))
            if not family.broken_rules(problem, target, variant):
                yield variant


def _by_field(choices: Mapping[str, Any]) -> dict[str, Any]:
    return {name.partition(".")[0]: value for name, value in choices.items()}
