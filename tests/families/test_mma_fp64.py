"""mma: fp64. Every shape of mma.sync, every staging, the bound, machine code."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from arithmetic import random_problem, run_integers
from mma_cases import TARGET, WAYS, config_of, verify
from mutants import mutate

from im2wingen.families.mma import MMA
from im2wingen.families.mma_choices import shape_choices
from im2wingen.families.mma_config import MmaConfig, MmaGeometry
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.sass import instruction_counts
from im2wingen.target import PRESETS, preset
from im2wingen.verify_data import WrongResultError, error_bound

SHAPES = ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")


def parse(shape: str, **fields: str) -> ConvProblem:
    return ConvProblem.parse(shape, precision="fp64", **fields)


@pytest.mark.parametrize(
    ("way", "mma_shape", "layout"),
    [(way, SHAPES[i % 4], ("nhwc", "nhwc-nchw")[i % 2]) for i, way in enumerate((*WAYS, "row", "tap", "run"))],
)
def test_every_staging_and_shape(way: str, mma_shape: str, layout: str) -> None:
    # stride 2; P = 4, Q = 7, K = 33, C in no unit: none a multiple of the tile; pads of three sides
    problem = parse("n2c5h9w13k33r3s3st2pad1,0,2,1", layout=layout, epilogue="bias_relu")
    config = config_of(problem, way, tile=(2, 3, 4), warps_n=2, mma_shape=mma_shape, steps=2)
    assert problem.gemm_m * problem.k >= 256  # the norm counts
    verify(problem, config, seeds=(0, 3))


CASES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "channels first": ("n2c7h6w9k16r2s3pad1", "row", {"mma_shape": "m16n8k8", "steps": 2}, "nchw"),
    "channels first, tap": ("n2c7h6w9k16r2s3pad1", "tap", {"mma_shape": "m16n8k16", "steps": 1}, "nchw"),
    # three units of a tap: the second one of a pair is the next tap's
    "half a pair in the next tap": ("n1c6h7w9k20r3s3", "row", {"mma_shape": "m16n8k4", "steps": 3 + 1}, "nhwc"),
    # 9 units of K in a slice of eight
    "beyond the last tap": ("n1c2h7w9k20r3s3", "row", {"mma_shape": "m16n8k8", "steps": 2}, "nhwc"),
    "chunks": ("n1c24h7w7k16r2s2", "row", {"patch_k": 8, "mma_shape": "m16n8k8", "steps": 1, "num_stages": 3}, "nhwc"),
    "warps share a tile": (
        "n1c12h6w9k16r3s3", "row", {"warps_k": 2, "steps": 4, "fragment_stages": 2, "mma_shape": "m8n8k4"}, "nhwc"
    ),
    "one element": ("n1c1h1w1k1r1s1", "row", {"warps_m": 1}, "nhwc"),
    "stride 4, run": ("n1c3h23w27k5r11s11st4", "run", {"tile": (1, 2, 3), "mma_shape": "m16n8k8"}, "nhwc"),
    "padded rows": ("n2c4h9w9k16r3s3st2x1", "row", {"pad_rows": True, "tile": (2, 3, 3)}, "nhwc"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    shape, way, changes, layout = CASES[name]
    problem = parse(shape, layout=layout, epilogue="bias")
    verify(problem, config_of(problem, way, **changes))


@pytest.mark.parametrize("seed", range(8))
def test_random_configs_of_random_problems(seed: int) -> None:
    problem = random_problem(
        np.random.default_rng(seed), precisions=("fp64", "fp32"), largest_filter=4, largest_stride=3,
        c=(1, 2, 3, 8, 17, 40), k=(1, 5, 16, 33),
    )  # fmt: skip
    legal = (c for c in MMA.random_configs(problem, TARGET, seed) if not MMA.broken_rules(problem, TARGET, c))
    for config in itertools.islice(legal, 1):
        assert isinstance(config, MmaConfig)
        verify(problem, config, seeds=(seed,))


@pytest.mark.parametrize("way", ["row", "run"])
def test_no_byte_is_touched_that_is_not_ours(way: str) -> None:
    problem = parse("n2c3h6w7k5r3s3st1x2pad1", layout="nhwc-nchw", epilogue="bias")
    verify(problem, config_of(problem, way, warps_m=1, tile=(1, 3, 3), steps=2), sanitize=True)


@pytest.mark.parametrize("way", ["row", "run", "tap"])
def test_padding_is_skipped_not_multiplied(way: str) -> None:
    problem = parse("n2c4h5w6k9r3s3pad1", epilogue="bias_relu")
    weights = {(0, 0, 0, 0): np.inf, (5, 2, 2, 3): np.nan, (8, 1, 0, 1): -np.inf}
    found, wanted = run_integers(
        problem, MMA.plan(problem, TARGET, config_of(problem, way, tile=(1, 3, 4))), {"w": weights}
    )
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


MUTANTS = {
    "the rows of a lane are swapped": (
        "f.a[j][2 * i] = word_at(exists ? base + a_place[j] : zero);",
        "f.a[j][2 * i] = word_at(exists ? base + a_next[j] : zero);",
    ),
    "a word of the filter is the next one's": ("row + j * 8 * B_PITCH + i * 4", "row + j * 8 * B_PITCH + (i ^ 1) * 4"),
    "the second pair of units is the first": ("i * (2 * UNIT);", "0;"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse("n2c16h6w9k24r2s2")
    config = config_of(problem, "tap", mma_shape="m16n8k8", steps=2)
    mutate(monkeypatch, "mma", [MUTANTS[name]])
    with pytest.raises(WrongResultError):
        verify(problem, config)


def test_sums_in_fp32_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse("n2c16h6w9k24r2s2")
    mutate(monkeypatch, "mma", [("from_number(epilogue(sum0, bias0))", "from_number(float(epilogue(sum0, bias0)))")])
    with pytest.raises(WrongResultError, match="on normal data"):
        verify(problem, config_of(problem, "row"))
    assert error_bound(parse("cv12")).norm < 1e-13


# ---- shapes, machine code ----


def test_shapes_are_those_of_the_arch() -> None:
    problem = parse("n2c16h6w9k24r2s2")
    assert shape_choices(problem, preset("sm_80")) == shape_choices(problem, preset("sm_120a")) == ["m8n8k4"]
    assert "m16n8k16" in shape_choices(problem, preset("sm_90a"))
    config = config_of(problem, "row", mma_shape="m16n8k8")
    (sentence,) = MMA.broken_rules(problem, preset("sm_80"), config)
    assert sentence.startswith("mma_shape is")
    assert not MMA.broken_rules(problem, preset("sm_100a"), config)
    half = ConvProblem.parse("n2c16h6w9k24r2s2")
    assert MMA.broken_rules(half, TARGET, replace(config_of(half, "row"), mma_shape="m16n8k8"))


@pytest.mark.parametrize(("layer", "layout"), [("cv8", "nhwc"), ("cv1", "nhwc"), ("cv11", "nchw")])
def test_defaults_do_not_spill(layer: str, layout: str) -> None:
    problem = parse(layer, layout=layout)
    plan = MMA.plan(problem, TARGET, MMA.default(problem, TARGET))
    assert compile_cubin(render(plan.launches[-1]), TARGET.arch).spill_bytes == 0


@pytest.mark.parametrize("arch", PRESETS)
def test_compiles_for_every_arch_without_spills(arch: str) -> None:
    problem, target = parse("cv12", layout="nchw" if arch == "sm_86" else "nhwc"), preset(arch)
    shape = shape_choices(problem, target)[0]
    config = config_of(problem, "row", tile=(4, 4, 4), warp_n=32, patch_k=16, steps=2, mma_shape=shape)
    assert not MMA.broken_rules(problem, target, config)
    cubin = compile_cubin(render(MMA.plan(problem, target, config).launches[-1]), arch)
    assert cubin.spill_bytes == 0
    counts = instruction_counts(cubin)
    assert counts["DMMA"] >= config.warp_steps * (config.warp_m // config.mma_m) * (config.warp_n // 8)
    assert "LDL" not in counts


def test_rows_lie_in_different_banks() -> None:
    problem = parse("cv12")
    for elements in (4, 8, 12, 16, 22, 32):
        pitch_bytes = 8 * MmaGeometry(problem=problem, config=config_of(problem, "row")).pitch(elements)
        banks = {(row * pitch_bytes + 8 * k) % 128 for row in range(4) for k in range(4)}
        assert pitch_bytes >= 8 * elements
        assert len(banks) == 16  # half a warp's loads of 8 bytes
