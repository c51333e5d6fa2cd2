"""Steps from config to config; the spaces are those of the families."""

from dataclasses import fields

import pytest

from im2wingen.families.base import Config, Family
from im2wingen.families.climb import climb, variants
from im2wingen.families.mma import MMA
from im2wingen.families.simt import SIMT
from im2wingen.problem import ConvProblem
from im2wingen.target import preset

TARGET = preset("sm_90a")


def problem_of(family: Family) -> ConvProblem:
    return ConvProblem.parse("n4c64h14w14k64r3s3", precision="fp32" if family is SIMT else "fp16")


@pytest.mark.parametrize("family", [MMA, SIMT], ids=lambda family: family.name)
def test_variants_choose_otherwise_and_are_legal(family: Family) -> None:
    problem = problem_of(family)
    config = next(c for c in family.random_configs(problem, TARGET, 3) if not family.broken_rules(problem, TARGET, c))
    for name in ("num_stages", "tile_order"):
        found = list(variants(family, problem, TARGET, config, name))
        assert found
        for variant in found:
            assert getattr(variant, name) != getattr(config, name)
            assert not family.broken_rules(problem, TARGET, variant)
            assert family.choices_of(problem, TARGET, variant) is not None
    assert all(
        sum(getattr(v, f.name) != getattr(config, f.name) for f in fields(config)) == 1
        for v in variants(family, problem, TARGET, config, "tile_order")
    )


def test_a_climb_ends_where_no_choice_is_better() -> None:
    problem = problem_of(MMA)

    def rank(config: Config) -> tuple[float, str]:
        return float(sum(v for v in config.to_dict().values() if isinstance(v, int))), config.digest()

    start = next(c for c in MMA.random_configs(problem, TARGET, 5) if not MMA.broken_rules(problem, TARGET, c))
    end = climb(MMA, problem, TARGET, start, rank)
    assert rank(end) < rank(start)
    assert climb(MMA, problem, TARGET, end, rank) == end
    for name in ("tile_n,tile_p,tile_q", "num_stages", "warps_n,warp_n"):
        assert all(rank(variant) > rank(end) for variant in variants(MMA, problem, TARGET, end, name))


def test_a_config_outside_the_space_stays() -> None:
    problem = ConvProblem.parse("n4c64h14w14k64r3s3")
    default = MMA.default(problem, TARGET)
    outside = type(default)(**{**default.to_dict(), "num_stages": 7})
    assert climb(MMA, problem, TARGET, outside, lambda config: (0.0, config.digest())) == outside
