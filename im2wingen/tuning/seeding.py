"""The configs that a study tries after the defaults: what served alike problems, and the cost model's favourites."""

import dataclasses
import itertools
import logging
import sys
from collections.abc import Iterator, Sequence

from im2wingen.cost_model import estimate_us
from im2wingen.db import LayeredRecords, TrialRecord
from im2wingen.errors import UsageError
from im2wingen.families.base import AnyTarget, Config, Family
from im2wingen.problem import ConvProblem
from im2wingen.render import template_digests

log = logging.getLogger(__name__)

_STORED = 4  # configs of the problem itself that were measured, as many predicted ones, as many of its neighbours
_MODEL_SAMPLES = 800  # legal configs a family that the cost model looks at
_MODEL_DRAWS = 4096  # random picks a family, at most, to get them
_MODEL_BEST = 12  # of all families together
_APART = 3  # fields in which two of them differ, at the least


def seeds(
    problem: ConvProblem, target: AnyTarget, families: Sequence[Family], records: LayeredRecords, *, seed: int
) -> Iterator[tuple[Family, Config]]:
    """Stored configs, then the cost model's best; repeats and illegal ones included."""
    yield from stored_configs(problem, target, families, records)
    yield from promising_configs(problem, target, families, seed=seed)


def stored_configs(
    problem: ConvProblem, target: AnyTarget, families: Sequence[Family], records: LayeredRecords
) -> Iterator[tuple[Family, Config]]:
    """The best configs stored for the problem itself, measured or predicted, then the nearest other problems'."""
    by_name = {family.name: family for family in families}
    digests = template_digests(families)
    every = records.best(
        problem.key, arch=target.arch, device_name=target.name, template_digests=digests, limit=sys.maxsize
    )
    found = [record for kind in (False, True) for record in [r for r in every if r.predicted == kind][:_STORED]]
    near = records.near(problem, arch=target.arch, device_name=target.name, template_digests=digests, limit=_STORED)
    for record in [*found, *(neighbour.record for neighbour in near)]:
        family = by_name[record.family]
        config = config_of(family, record)
        if config is not None:
            yield family, config


def promising_configs(
    problem: ConvProblem, target: AnyTarget, families: Sequence[Family], *, seed: int
) -> list[tuple[Family, Config]]:
    """Of several hundred random legal configs a family, those with the smallest estimates that are not much alike.

    Configs that the model can't tell apart, or that differ in a field or two, the study will try by itself.
    """
    estimates: dict[float, tuple[str, Family, Config]] = {}
    for family in families:
        draws = itertools.islice(family.random_configs(problem, target, seed), _MODEL_DRAWS)
        legal = (config for config in draws if not family.broken_rules(problem, target, config))
        for config in dict.fromkeys(itertools.islice(legal, _MODEL_SAMPLES)):
            estimate = estimate_us(family.plan(problem, target, config), target)
            entry = (config.digest(), family, config)
            estimates[estimate] = min(estimates.get(estimate, entry), entry, key=lambda entry: entry[0])
    chosen: list[tuple[Family, Config]] = []
    for _, (_, family, config) in sorted(estimates.items(), key=lambda entry: entry[0]):
        if len(chosen) < _MODEL_BEST and all(family is not other or _apart(config, known) for other, known in chosen):
            chosen.append((family, config))
    return chosen


def _apart(a: Config, b: Config) -> bool:
    names = [field.name for field in dataclasses.fields(a)]
    differ = [name for name in names if getattr(a, name) != getattr(b, name)]
    return len(differ) >= min(_APART, len(names) - 1)


def config_of(family: Family, record: TrialRecord) -> Config | None:
    """The record's config, or None where it doesn't fit the family's fields."""
    try:
        return family.config_from_dict(record.config)
    except UsageError as error:
        log.debug("a stored config of %s is left out: %s", record.problem_key, error)
        return None
