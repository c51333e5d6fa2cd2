"""mma: fp32 by split numbers. Accuracy, fp32's whole range, what isn't finite, promotion, mutants."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import run_integers
from mma_cases import TARGET, WAYS, config_of, verify
from mutants import mutate
from numpy.typing import NDArray

from im2wingen.emulator import run_plan
from im2wingen.families.mma import MMA
from im2wingen.families.mma_choices import promote_choices, split_error
from im2wingen.families.mma_config import MmaConfig
from im2wingen.layers import IM2WIN_SUITE
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference
from im2wingen.render import render
from im2wingen.sass import instruction_counts
from im2wingen.target import PRESETS, preset
from im2wingen.verify_data import WrongResultError, error_bound
from im2wingen.verify_emulated import emulated_inputs, verify_emulated

FLT_MAX = float(np.finfo(np.float32).max)


def parse(shape: str, **fields: str) -> ConvProblem:
    return ConvProblem.parse(shape, precision="fp32", **fields)


@dataclass(frozen=True)
class Case:
    shape: str
    way: str
    config: dict[str, Any]
    layout: str = "nhwc"
    epilogue: str = "none"


CASES = {
    # gemm_k = 360: eleven partial sums of 32 and a rest, each two slices long
    "partial sums of two slices": Case("n2c40h7w9k24r3s3pad1", "row", {"steps": 2, "num_stages": 3, "promote_k": 32}),
    # two partial sums in a slice
    "slices of two partial sums": Case("n2c40h7w9k24r3s3", "tap", {"steps": 8, "promote_k": 32}, "nhwc-nchw", "bias"),
    # the K axis is shorter than a partial sum; a run of 4-byte words
    "one partial sum": Case("n2c3h9w11k24r3s3st2", "run", {"promote_k": 64}, epilogue="bias_relu"),
    "warps share a tile": Case(
        "n1c24h6w9k24r3s3", "row", {"warps_k": 2, "steps": 4, "fragment_stages": 2, "promote_k": 64}, "nchw"
    ),
    "a single stage": Case("n2c5h9w9k24r5s5st2", "explicit", {"num_stages": 1, "promote_k": 32}),
    "without partial sums": Case("n2c12h7w9k24r3s3", "row", {"steps": 4, "promote_k": 8, "fragment_stages": 2}),
    "columns": Case("n2c3h9w9k40r5s5", "column", {"steps": 4, "promote_k": 32, "warps_n": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_as_accurate_as_fp32(name: str) -> None:
    case = CASES[name]
    problem = parse(case.shape, layout=case.layout, epilogue=case.epilogue)
    assert problem.gemm_m * problem.k >= 256  # the norm counts
    verify(problem, config_of(problem, case.way, **case.config), seeds=(0, 3))


def test_plain_tf32_is_far_from_the_bound() -> None:
    problem = parse("n2c40h7w9k24r3s3pad1")
    tf32 = replace(problem, precision="tf32")
    plan = MMA.plan(tf32, TARGET, config_of(tf32, "row"))
    verify_emulated(tf32, plan)
    with pytest.raises(WrongResultError, match="elements of y are wrong on normal data"):
        verify_emulated(problem, replace(plan, arithmetic="split"))
    # the norm alone would tell, however long gemm_k: TF32 is off by 2.9e-4
    assert error_bound(parse("n9c5000h20w20k9r9s9"), "split").norm < 2e-6


@pytest.mark.parametrize("layer", IM2WIN_SUITE)
def test_promotion_keeps_the_error_below_fp32s_own(layer: str) -> None:
    problem = parse(layer)
    bound = error_bound(problem, "split")
    assert bound.norm == pytest.approx(3.5e-7, rel=1e-3)
    for promote_k in promote_choices(problem):
        assert split_error(problem, promote_k) <= 2.5e-7
    config = MMA.default(problem, TARGET)
    assert isinstance(config, MmaConfig)
    wrong = replace(config, promote_k=16)
    assert any("promote_k" in sentence for sentence in MMA.broken_rules(problem, TARGET, wrong))


# ---- the whole range ----


def run_scaled(problem: ConvProblem, x_scale: float, w_scale: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """y, the reference, and the sum of magnitudes, for normals times these."""
    arrays = emulated_inputs(problem, "normal", 0)
    x, w = (np.float32(scale * arrays[name].astype(np.float64)) for name, scale in (("x", x_scale), ("w", w_scale)))
    y = np.zeros(problem.y_shape, np.float32)
    run_plan(MMA.plan(problem, TARGET, config_of(problem, "row")), {"x": x, "w": w, "bias": arrays["bias"], "y": y})
    return y.astype(np.float64), conv_reference(problem, x, w), conv_magnitude(problem, x, w)


@pytest.mark.parametrize(
    ("x_scale", "w_scale"),
    [
        (3e27, 1e-3),  # sums beyond what scaled ones hold, of products within: Inf, computed again
        (1e30, 1e-3),  # of products beyond: NaN as well
        (1e-30, 1.0),
        (1e-30, 1e30),
        (1e30, 1e-30),
        (3e-41, 1e8),  # every x is a denormal
        (1e8, 3e-41),
        (1e-22, 1e-20),  # every y is one
    ],
)
def test_fp32s_whole_range(x_scale: float, w_scale: float) -> None:
    problem = parse("n1c17h5w6k16r3s3")
    y, wanted, magnitude = run_scaled(problem, x_scale, w_scale)
    bound = error_bound(problem, "split")
    allowed = bound.output_rounding * np.abs(wanted) + bound.term_rounding * magnitude
    allowed += 2.0**-149 * problem.gemm_k / promote_choices(problem)[0]  # denormal sums are rounded each time
    assert np.all(np.abs(y - wanted) <= allowed)


@pytest.mark.parametrize("epilogue", ["none", "bias_relu"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_finite_is_as_ieee_says(way: str, epilogue: str) -> None:
    problem = parse("n2c4h5w6k9r3s3pad1", epilogue=epilogue)
    x = {(0, 1, 1, 0): np.inf, (0, 4, 5, 3): -np.inf, (1, 0, 0, 1): np.nan}
    w = {(0, 0, 0, 0): np.inf, (5, 2, 2, 3): np.nan, (8, 1, 0, 1): -np.inf}
    for changes in ({"x": x}, {"w": w}, {"x": x, "w": w}):
        found, wanted = run_integers(
            problem, MMA.plan(problem, TARGET, config_of(problem, way, tile=(1, 3, 4))), dict(changes)
        )
        assert np.isfinite(wanted).any()
        assert np.isinf(wanted).any()
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("value", [FLT_MAX, -FLT_MAX, float.fromhex("0x1.fffp127"), 2.0**128 - 2.0**116, 2e31, 1.5e38])
def test_numbers_whose_rounding_overflows(value: float) -> None:
    # w is 1 at one tap and 0 elsewhere: y is x
    problem = parse("n1c4h4w4k16r2s2")
    w = {(k, r, s, c): float((k, r, s, c) == (k, 1, 0, 2)) for k in range(16) for r in (0, 1) for s in (0, 1)
         for c in range(4)}  # fmt: skip
    x = {(0, 2, 1, 2): value}
    found, wanted = run_integers(problem, MMA.plan(problem, TARGET, config_of(problem, "row")), {"x": x, "w": w})
    assert np.abs(wanted).max() == np.float32(abs(value))
    np.testing.assert_array_equal(found, wanted)


def test_a_product_below_flt_max_whose_parts_round_beyond_it() -> None:
    problem = parse("n1c4h1w1k16r1s1")
    below = float(np.nextafter(np.float32(2.0), np.float32(0)))
    places = {(0, 0, 0, 0): 2.0**126, **{(0, 0, 0, c): 0.0 for c in (1, 2, 3)}}
    weights = {(k, 0, 0, c): below if c == 0 else 0.0 for k in range(16) for c in range(4)}
    found, wanted = run_integers(
        problem, MMA.plan(problem, TARGET, config_of(problem, "row")), {"x": places, "w": weights}
    )
    assert np.isfinite(wanted).all()
    np.testing.assert_array_equal(found, wanted)


# ---- mutants ----

ACCURATE = Case("n2c40h7w9k24r3s3", "row", {"steps": 2, "num_stages": 3, "promote_k": 32})
MUTANTS = {
    "the small part of x is dropped": (
        "add_products(step, a.small[0], b.big, i, 0.0f);", ""
    ),
    "the small part of w is dropped": ("add_products(step, a.big[0], b.small, i, 0.0f);", ""),
    "both small parts are x's": (
        "add_products(step, a.big[0], b.small, i, 0.0f);",
        "add_products(step, a.small[0], b.big, i, 0.0f);",
    ),
    "the big parts are multiplied twice": (
        "add_products(step, a.small[0], b.big, i, 0.0f);",
        "add_products(step, a.big[0], b.big, i, 0.0f);",
    ),
    "tensor cores go on with a step's sum": (
        "add_products(step, a.big[0], b.big, i, 0.0f);\n        add_step(i, step);",
        "add_products(partial[i], a.big[0], b.big, i, 0.0f);",
    ),
    "the rest is not what is left": ("scaled - __uint_as_float(big)", "__uint_as_float(big) - scaled"),
    "the last partial sum is not promoted": ("  sums.promote();\n  if constexpr", "  if constexpr"),
    "a partial sum goes on after its promotion": ("partial[i][j][e] = 0.0f;", ""),
    "the sums are not scaled back": ("partial[i][j][e] * kSumScale", "partial[i][j][e]"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse(ACCURATE.shape)
    config = config_of(problem, ACCURATE.way, **ACCURATE.config)
    mutate(monkeypatch, "mma", [MUTANTS[name]])
    with pytest.raises(WrongResultError):
        verify(problem, config)


def test_a_partial_sum_that_is_not_promoted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse("n1c512h5w6k32r3s3")  # 576 additions to one sum round too often
    config = config_of(problem, "tap", promote_k=128)
    verify(problem, config)
    mutate(monkeypatch, "mma", [("step + 1 == WARP_STEPS && (slice + 1) % PROMOTE_SLICES == 0", "false")])
    with pytest.raises(WrongResultError, match="norm-relative"):
        verify(problem, config)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kSplitScale = 0x1p24f, kSumScale = 0x1p-48f", "kSplitScale = 1.0f, kSumScale = 1.0f"),
        ("+ 0x1000u) & 0xffffe000u", "+ 0x1000u) & 0xfffe0000u"),
    ],
    ids=["elements are not scaled", "big has too few bits"],
)
def test_a_mutant_is_found_among_denormals(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "mma", [(old, new)])
    with pytest.raises(AssertionError):
        test_fp32s_whole_range(3e-41, 1e8)


def test_an_overflow_that_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "mma", [("sum0 += Number(0) * sum0, sum1 += Number(0) * sum1;", ";")])
    with pytest.raises(AssertionError):
        test_fp32s_whole_range(3e27, 1e-3)


# ---- machine code ----


@pytest.mark.parametrize(("layer", "layout"), [("cv8", "nhwc"), ("cv1", "nhwc"), ("cv11", "nchw")])
def test_defaults_do_not_spill_and_multiply_thrice(layer: str, layout: str) -> None:
    problem = parse(layer, layout=layout)
    config = MMA.default(problem, TARGET)
    assert isinstance(config, MmaConfig)
    plan = MMA.plan(problem, TARGET, config)
    assert plan.arithmetic == "split"
    cubin = compile_cubin(render(plan.launches[-1]), TARGET.arch)
    assert cubin.spill_bytes == 0
    counts = instruction_counts(cubin)
    # every step of a slice is unrolled; an mma of TF32 is one HMMA.1688 or half an HMMA.16816
    assert counts["HMMA"] >= 3 * config.warp_steps * config.warp_m // 16 * config.warp_n // 8 / 2
    assert "LDL" not in counts
    assert counts["LDGSTS"] > 0


@pytest.mark.parametrize("arch", PRESETS)
def test_compiles_for_every_arch(arch: str) -> None:
    problem = parse("cv12", layout="nchw" if arch == "sm_86" else "nhwc")
    config = config_of(problem, "row", tile=(4, 4, 4), warp_n=32, patch_k=32, steps=4, fragment_stages=2)
    assert not MMA.broken_rules(problem, preset(arch), config)
    cubin = compile_cubin(render(MMA.plan(problem, preset(arch), config).launches[-1]), arch)
    assert cubin.spill_bytes == 0
    assert instruction_counts(cubin)["HMMA"] > 0
