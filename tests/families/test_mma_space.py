"""What the search space of the mma family promises for the suite's layers."""

import itertools

import pytest

from im2wingen.families.mma import MMA
from im2wingen.layers import IM2WIN_SUITE
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.target import preset

TARGET = preset("sm_90a")


@pytest.mark.parametrize("layer", IM2WIN_SUITE)
def test_most_random_picks_are_legal(layer: str) -> None:
    problem = ConvProblem.parse(layer)
    configs = list(itertools.islice(MMA.random_configs(problem, TARGET, 1), 200))
    assert sum(not MMA.broken_rules(problem, TARGET, config) for config in configs) > 120
    assert len(set(configs)) > 150


@pytest.mark.parametrize(
    ("layer", "tiles"),
    [("cv8", ("1x8x16", "1x10x16", "1x16x16")), ("cv6", ("2x10x10",)), ("cv3", ("2x5x16",)), ("cv9", ("1x14x18",))],
)
def test_tiles_that_measured_best_are_candidates(layer: str, tiles: tuple[str, ...]) -> None:
    offered: dict[str, list[object]] = {}

    def first(name, choices, /):  # type: ignore[no-untyped-def]
        offered[name] = list(choices)
        return choices[0]

    MMA.suggest(ConvProblem.parse(layer), TARGET, first)
    assert set(tiles) <= set(offered["tile_n,tile_p,tile_q"])
    assert len(offered["tile_n,tile_p,tile_q"]) <= 30


def test_the_default_is_in_the_space() -> None:
    for layer in IM2WIN_SUITE:
        problem = ConvProblem.parse(layer)
        assert MMA.choices_of(problem, TARGET, MMA.default(problem, TARGET)) is not None


@pytest.mark.parametrize(
    ("shape", "precision", "layout"),
    [
        ("cv12", "tf32", "nhwc"),  # rounding to tf32 takes registers
        ("cv3", "tf32", "nhwc"),  # runs too
        ("cv1", "fp16", "nhwc"),
        ("cv6", "fp16", "nchw"),  # x is transposed through registers
        ("n7c19h31w29k23r3s5st2x1pad1,0,2,1", "fp16", "nchw"),
    ],
)
def test_the_default_does_not_spill(shape: str, precision: str, layout: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout)
    convolution = MMA.plan(problem, TARGET, MMA.default(problem, TARGET)).launches[-1]
    assert compile_cubin(render(convolution), TARGET.arch).spill_bytes == 0
