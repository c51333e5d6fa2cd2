"""Family simd's cycles: what must cost more than what."""

from dataclasses import replace
from typing import Any

import pytest

from im2wingen.cost_model import estimate_us
from im2wingen.cpu_target import cpu_preset
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_config import SimdConfig
from im2wingen.problem import ConvProblem
from tests.families.simd_cases import problem_of

TARGET = replace(cpu_preset("x86-64-avx512"), cores=2)


def us(problem: ConvProblem, config: SimdConfig) -> float:
    assert SIMD.broken_rules(problem, TARGET, config) == []
    return estimate_us(SIMD.plan(problem, TARGET, config), TARGET)


@pytest.mark.parametrize(
    "worse",
    [
        {"tile_q": 1},  # loads and latency, not FMAs
        {"vectors_k": 1, "tile_q": 2},
        {"block_c": 8, "block_p": 1},  # partial sums come and go
        {"window": "explicit"},  # a pass over memory
        {"steps": "taps"},  # strides through NHWC
        {"schedule": "static"},
        {"block_p": 54},  # one item: the other core has nothing to do
        {"block_c": 64, "window": "copied", "block_p": 1},  # every row is copied three times
    ],
    ids=str,
)
def test_what_is_worse_costs_more(worse: dict[str, Any]) -> None:
    problem = problem_of("n1c64h56w56k32r3s3")
    good = replace(
        SIMD.default(problem, TARGET), vectors_k=2, tile_n=1, tile_p=1, tile_q=14, block_p=14, block_k=1
    )  # fmt: skip
    assert us(problem, replace(good, **worse)) > us(problem, good)


@pytest.mark.parametrize("layout", ["nhwc", "nchw", "chwn", "chwn8"])
def test_the_estimate_lies_near_the_ceiling(layout: str) -> None:
    for layer in ("cv1", "cv5", "cv9", "cv12"):
        problem = ConvProblem.parse(layer, precision="fp32", layout=layout, batch=32)
        least = problem.flops / TARGET.fp32_gflops * 1e-3
        assert least < us(problem, SIMD.default(problem, TARGET)) < 3 * least
