"""simt: search space and default, rules against the kernel's static_asserts, compilation, emulated arithmetic."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import im2wingen.emulator.plan
from im2wingen.dtypes import STORAGE_DTYPE
from im2wingen.emulator import run_plan
from im2wingen.errors import CompileError, EmulatorError, UsageError
from im2wingen.families.base import Launch
from im2wingen.families.simt import SIMT
from im2wingen.families.simt_banks import wavefronts
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_geometry import SimtGeometry
from im2wingen.families.simt_patch import WARP
from im2wingen.nvrtc import compile_cubin
from im2wingen.problem import ConvProblem, Precision
from im2wingen.reference import conv_reference
from im2wingen.render import Source, render
from im2wingen.sass import instruction_counts
from im2wingen.target import PRESETS, preset

TARGET = preset("sm_90a")
TWO_SMS = replace(TARGET, sm_count=2)  # a persistent CTA computes several boxes
SMALL = SimtConfig(
    staging="window", tile_n=1, tile_p=4, tile_q=8, block_n=32, block_c=4, block_r=1, thread_p=2, thread_q=4,
    thread_n=4, slices=1, lanes_m=4, num_stages=2, ctas_per_sm=1, persistent=False, unroll_r=True, unroll_c=1,
    reads="free", x_vector=1,
    store="registers", store_n=1, tile_order="linear", fragment_order="linear", fragment_outer="pixels",
    accumulators="stored",
)  # fmt: skip
LARGE = replace(
    SMALL, tile_p=16, tile_q=16, block_n=64, block_c=8, block_r=3, thread_n=8, ctas_per_sm=2, unroll_r=True
)  # fmt: skip


def problem_of(shape: str, layout: str = "nchw", epilogue: str = "none", precision: Precision = "fp32") -> ConvProblem:
    return ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)


def arrays_of(problem: ConvProblem, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Small integers, so that y is exact; read-only inputs, y full of NaN."""
    rng = np.random.default_rng(seed)
    dtype = STORAGE_DTYPE[problem.precision]
    arrays = {
        name: rng.integers(-4, 5, shape).astype(dtype)
        for name, shape in (("x", problem.x_shape), ("w", problem.w_shape), ("bias", (problem.k,)))
    }
    for array in arrays.values():
        array.flags.writeable = False
    return arrays | {"y": np.full(problem.y_shape, np.nan, dtype)}


def run(problem: ConvProblem, config: SimtConfig, arrays: dict[str, np.ndarray[Any, Any]], **options: Any) -> None:
    """Emulate the plan of a legal config; arrays["y"] changes."""
    assert SIMT.broken_rules(problem, TARGET, config) == []
    run_plan(SIMT.plan(problem, TWO_SMS, config), arrays, **options)


def assert_exact(problem: ConvProblem, config: SimtConfig, **options: Any) -> None:
    arrays = arrays_of(problem)
    run(problem, config, arrays, **options)
    wanted = conv_reference(problem, arrays["x"], arrays["w"], arrays["bias"])
    np.testing.assert_array_equal(arrays["y"], wanted.astype(arrays["y"].dtype))


# ---- what is supported, the space, the default ----


def test_says_why_it_cannot() -> None:
    grouped = ConvProblem.parse("n1c4h4w4k4r1s1g2", precision="fp32")
    assert "groups" in (SIMT.unsupported(grouped, TARGET) or "")
    assert "fp16" in (SIMT.unsupported(problem_of("cv1").parse("cv1"), TARGET) or "")
    assert "4 GiB" in (SIMT.unsupported(problem_of("n1c1024h2w2k1r1s1pad1023"), TARGET) or "")
    assert SIMT.unsupported(problem_of("cv1"), TARGET) is None


PROBLEMS = st.builds(
    lambda **sizes: sizes,
    n=st.integers(1, 40), c=st.integers(1, 70), h=st.integers(1, 60), w=st.integers(1, 60), k=st.integers(1, 200),
    r=st.integers(1, 7), s=st.integers(1, 31), stride_h=st.integers(1, 4), stride_w=st.integers(1, 4),
    pad_top=st.integers(0, 3), pad_left=st.integers(0, 3), dilation_h=st.integers(1, 2), dilation_w=st.integers(1, 9),
    x_layout=st.sampled_from(("nchw", "nhwc")), y_layout=st.sampled_from(("nchw", "nhwc")), precision=st.just("fp32"),
)  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True)
@given(PROBLEMS, st.sampled_from(("sm_80", "sm_86", "sm_90a")))
def test_default_is_legal(sizes: dict[str, Any], arch: str) -> None:
    try:
        problem = ConvProblem(**sizes)
    except UsageError:  # the window is larger than the input
        return
    assert SIMT.broken_rules(problem, preset(arch), SIMT.default(problem, preset(arch))) == []


def test_default_of_the_least_problem_is_legal() -> None:
    problem = problem_of("n1c1h1w1k1r1s1")
    assert SIMT.broken_rules(problem, TARGET, SIMT.default(problem, TARGET)) == []


@pytest.mark.parametrize("layer", [f"cv{i}" for i in range(1, 13)])
def test_default_wastes_little(layer: str) -> None:
    problem = problem_of(layer)
    launch = SIMT.plan(problem, TARGET, SIMT.default(problem, TARGET)).launches[-1]
    assert launch.flops <= 1.1 * problem.flops
    assert launch.grid[0] >= 0.9 * TARGET.sm_count


@pytest.mark.parametrize("shape", ["cv1", "cv7", "cv8", "cv12", "n3c5h9w9k33r3s3pad1"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_space_is_mostly_legal_and_replays(shape: str, layout: str) -> None:
    problem = problem_of(shape, layout)
    configs = list(itertools.islice(SIMT.random_configs(problem, TARGET, 0), 100))
    legal = [config for config in configs if not SIMT.broken_rules(problem, TARGET, config)]
    assert len(legal) >= 25
    for config in configs:
        assert SIMT.choices_of(problem, TARGET, config) is not None
        assert SIMT.config_from_dict(config.to_dict()) == config


# ---- rules and static_asserts ----


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"thread_q": 3}, "whole threads along the columns"),
        ({"block_n": 30, "thread_n": 15}, "16-byte copies"),
        ({"lanes_m": 2}, "whole warps"),
        ({"block_r": 2}, "whole tap groups"),
        ({"x_vector": 2}, "vectors of x"),  # the width is odd
        ({"tile_n": 2, "tile_p": 3, "thread_p": 4}, "whole threads along the rows or the images"),
    ],
)
def test_what_a_rule_forbids_does_not_compile(broken: dict[str, Any], words: str) -> None:
    problem = problem_of("n4c8h20w21k32r3s3")
    config = replace(SMALL, **broken)
    assert SIMT.broken_rules(problem, TARGET, config)
    with pytest.raises(CompileError, match=words):
        compile_cubin(render(SIMT.plan(problem, TARGET, config).launches[-1]), "sm_80")


@pytest.mark.parametrize("shape", ["cv1", "cv8", "cv12", "n3c5h9w9k33r3s3pad1"])
def test_what_the_rules_allow_compiles(shape: str) -> None:
    problem = problem_of(shape)
    configs = (c for c in SIMT.random_configs(problem, TARGET, 3) if not SIMT.broken_rules(problem, TARGET, c))
    for config in itertools.islice(configs, 4):
        compile_cubin(render(SIMT.plan(problem, TARGET, config).launches[-1]), TARGET.arch)


@pytest.mark.parametrize(
    ("thread_q", "lanes_m", "vector"), [(14, 4, 2), (14, 16, 2), (5, 4, 1), (5, 2, 1), (8, 4, 4), (13, 8, 1)]
)
def test_lanes_write_outputs_to_different_banks(thread_q: int, lanes_m: int, vector: int) -> None:
    lanes_n = WARP // lanes_m
    config = replace(
        SMALL, tile_p=lanes_m, tile_q=thread_q, thread_p=1, thread_q=thread_q, block_n=4 * lanes_n, lanes_m=lanes_m,
        store="shared",
    )  # fmt: skip
    pitch = SimtGeometry(problem=problem_of("n1c4h50w57k64r3s3"), config=config).outputs_bytes // (4 * lanes_n)
    pixels = [lane // 2 % lanes_m * thread_q for lane in range(WARP)]
    filters = [lane // (2 * lanes_m) * 2 + lane % 2 for lane in range(WARP)]
    starts = [pixel + k * pitch for pixel, k in zip(pixels, filters, strict=True)]
    assert wavefronts(starts, vector, 32) == vector


# ---- compilation ----

COMPILED: dict[str, tuple[str, dict[str, Any]]] = {
    "window": ("cv8", {"num_stages": 2}),
    "window, 16-byte copies, shared stores": ("cv8", {"x_vector": 4, "store": "shared", "store_n": 4}),
    "persistent, ordered reads, stores of sectors, slices": (
        "cv9",
        {"tile_p": 8, "ctas_per_sm": 1, "persistent": True, "store": "sectors", "store_n": 2, "slices": 2,
         "accumulators": "shifted", "reads": "ordered"},
    ),
    "rows in turn, odd planes": (
        "cv12",
        {"reads": "rows", "store": "sectors", "store_n": 4, "tile_n": 4, "tile_p": 5, "tile_q": 5, "thread_p": 5,
         "thread_q": 5, "thread_n": 4, "ctas_per_sm": 1},
    ),
    "persistent, bulk copies": (
        "cv9",
        {"tile_p": 4, "tile_q": 54, "thread_q": 6, "thread_p": 2, "ctas_per_sm": 2, "persistent": True, "store": "bulk",
         "block_c": 2},
    ),
    "window, stride 4": (
        "cv1",
        {"block_r": 11, "block_c": 1, "tile_p": 8, "tile_q": 8, "tile_n": 2, "block_n": 96, "thread_n": 12,
         "unroll_r": False, "num_stages": 1, "ctas_per_sm": 1},
    ),
    "tap": ("cv8", {"staging": "tap", "block_r": 1}),
    "explicit": ("cv8", {"staging": "explicit", "block_c": 4}),
}  # fmt: skip


@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_spills(name: str, arch: str) -> None:
    shape, changes = COMPILED[name]
    fewer = {"num_stages": 1, "ctas_per_sm": 1} if PRESETS[arch].smem_per_block_bytes < 128 * 1024 else {}
    config = replace(LARGE, **(changes | fewer))
    problem = problem_of(shape)
    broken = SIMT.broken_rules(problem, PRESETS[arch], config)
    if config.store == "bulk" and PRESETS[arch].compute_capability < 90:
        assert len(broken) == 1
        assert "sm_90 or later" in broken[0]
        return
    assert broken == []
    launch = SIMT.plan(problem, PRESETS[arch], config).launches[-1]
    cubin = compile_cubin(render(launch), arch)
    counts = instruction_counts(cubin)
    assert cubin.spill_bytes == 0
    assert counts["LDGSTS"] > 0
    assert ("UBLKCP" in counts) == (config.store == "bulk")
    assert "LDL" not in counts
    assert "STL" not in counts
    assert counts["FFMA"] >= config.thread_p * config.thread_q * config.thread_n


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("layer", [f"cv{i}" for i in range(1, 13)])
def test_defaults_do_not_spill(layer: str, layout: str) -> None:
    problem = problem_of(layer, layout)
    cubin = compile_cubin(render(SIMT.plan(problem, TARGET, SIMT.default(problem, TARGET)).launches[-1]), TARGET.arch)
    assert cubin.spill_bytes == 0


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_doubles_compile_without_spills(layout: str) -> None:
    problem = problem_of("cv9", layout, precision="fp64")
    cubin = compile_cubin(render(SIMT.plan(problem, TARGET, SIMT.default(problem, TARGET)).launches[-1]), TARGET.arch)
    assert cubin.spill_bytes == 0
    assert instruction_counts(cubin)["DFMA"] > 0


# ---- emulated arithmetic ----


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any]
    layout: str = "nchw"
    epilogue: str = "none"
    precision: Precision = "fp32"


CASES = {
    # one pixel, one channel, one filter: everything is tail
    "one of all": Case("n1c1h1w1k1r1s1", {"tile_p": 1, "tile_q": 1, "thread_p": 1, "thread_q": 1, "thread_n": 1,
                                          "lanes_m": 1, "block_c": 1}),
    # W smaller than the box, C and K beyond no multiple; bias
    "narrow": Case("n1c5h9w5k33r3s3", {"tile_q": 4, "thread_q": 4, "tile_p": 8}, "nchw", "bias"),
    # stride 2, pads of all four sides, C = 3 and K = 5; channels last
    "stride 2": Case("n2c3h12w13k5r3s3st2pad1,2,0,2", {"tile_n": 2, "tile_p": 2, "block_r": 3}, "nhwc", "bias_relu"),
    # stride 4, a phase without a tap (S = 3), rows of the box that share nothing
    "stride 4": Case("n1c4h19w23k8r3s3st4", {"block_n": 16, "tile_p": 4, "thread_p": 1, "lanes_m": 8}),
    "stride 4, all rows": Case("n1c4h19w23k8r5s5st4", {"block_n": 16, "tile_p": 4, "thread_p": 1, "block_r": 5,
                                                      "block_c": 2, "lanes_m": 8, "unroll_r": False, "num_stages": 3}),
    # dilation along both, more along w than a thread has columns
    "dilation": Case("n1c17h14w20k8r3s3pad1,0,2,1dil2x5", {"block_n": 16, "tile_p": 4, "thread_p": 1, "block_r": 3,
                                                                "lanes_m": 8}),
    # stride and dilation share a factor: all taps in one phase
    "one phase": Case("n1c4h11w17k8r2s3st2dil1x2", {"block_n": 16, "tile_p": 4, "thread_p": 1, "block_r": 2,
                                                         "lanes_m": 8}),
    # threads over several images; Q = 5 in one thread, rows of 7
    "small images": Case("n5c9h7w7k40r3s3", {"tile_n": 4, "tile_p": 5, "tile_q": 5, "thread_q": 5, "thread_p": 5,
                                            "block_n": 32, "block_r": 3, "block_c": 2, "num_stages": 4}),
    "rows across images": Case("n6c4h7w7k16r3s3", {"tile_n": 4, "tile_p": 5, "tile_q": 5, "thread_q": 5, "thread_p": 2,
                                                  "block_n": 64, "lanes_m": 2, "block_r": 3}, "nhwc-nchw"),
    # vectors of x and pads that are vectors too; stores by way of shared memory; both zig-zags
    "vectors": Case("n2c6h9w12k40r3s3pad1,1,4,0", {"x_vector": 4, "store": "shared", "tile_order": "zigzag",
                                                  "fragment_order": "zigzag", "block_r": 3}, "nchw", "bias"),
    "pairs, one stage": Case("n1c6h9w10k33r3s3", {"x_vector": 2, "num_stages": 1, "block_r": 3, "store": "shared"}),
    # several passes of shared stores, an odd width, boxes beyond the right and lower edge
    "shared stores": Case("n1c2h10w13k24r3s3", {"store": "shared", "thread_n": 8, "block_n": 64, "block_c": 2,
                                               "store_n": 2, "tile_p": 8, "tile_q": 12}),
    # three boxes a CTA and one that has two: the next box's inputs land while the last outputs are stored
    "persistent": Case("n3c5h9w13k40r3s3pad1", {"persistent": True, "store": "shared", "block_c": 2, "num_stages": 3,
                                               "tile_q": 8}, "nchw", "bias"),
    "persistent, one stage": Case("n2c4h9w13k33r3s3st2pad1", {"persistent": True, "num_stages": 1, "block_c": 2,
                                                             "block_r": 3, "tile_q": 4, "thread_p": 1}, "nhwc"),
    # all filters in one step: they stay in both stages while a CTA takes four boxes
    "filters stay": Case("n7c3h9w13k25r3s3st2pad1", {"persistent": True, "block_r": 3, "tile_q": 8, "thread_p": 1},
                         "nhwc", "bias"),
    # three teams' sums are added to the first's; the channels of the last chunk are one team's alone (C = 9 of 12)
    "slices": Case("n2c9h7w9k20r3s3pad1", {"slices": 4, "tile_p": 8, "thread_n": 8, "lanes_m": 8, "store": "shared"},
                   "nchw", "bias"),
    # fp64: copies of one element and of two, an odd K, a thread's columns that are no whole vectors
    "doubles": Case("n1c6h9w10k33r3s3", {"x_vector": 2, "store": "shared", "block_r": 3, "accumulators": "placed"},
                    "nchw", "bias", "fp64"),
    "doubles, channels last": Case(
        "n2c5h9w13k9r3s3st2pad1",
        {"slices": 2, "persistent": True, "thread_p": 1, "thread_q": 3, "tile_q": 6, "tile_n": 2, "lanes_m": 16,
         "block_n": 8, "accumulators": "copied"},
        "nhwc", "bias_relu", "fp64",
    ),
    "doubles, explicit": Case("n1c5h9w11k20r3s3", {"staging": "explicit", "thread_p": 1, "block_n": 16, "lanes_m": 8},
                              "nhwc-nchw", "none", "fp64"),
    # parts of rows; boxes beyond the right and lower edge; planes of odd size, so that every run begins elsewhere
    "sectors": Case(
        "n3c2h11w15k24r3s3",
        {"store": "sectors", "store_n": 2, "thread_n": 8, "block_n": 64, "block_c": 2, "tile_n": 2, "tile_p": 8,
         "tile_q": 12, "lanes_m": 8, "persistent": True, "accumulators": "shifted", "reads": "ordered"},
        "nhwc-nchw",
    ),
    # whole rows of three images' odd planes; one of a thread's rows at a time
    "sectors of whole rows": Case(
        "n6c4h7w7k16r3s3",
        {"store": "sectors", "tile_n": 4, "tile_p": 5, "tile_q": 5, "thread_q": 5, "block_n": 64, "lanes_m": 2,
         "slices": 2, "reads": "rows", "unroll_c": 2},
    ),
    # every run is whole sectors
    "aligned sectors": Case("n2c4h10w10k20r3s3", {"store": "sectors", "tile_p": 3, "thread_p": 3, "tile_q": 8,
                                                 "reads": "rows", "unroll_r": False, "block_r": 3, "unroll_c": 4}),
    # whole rows, fewer in the last box, columns beyond Q, idle lanes (18 threads, 8 a warp); padding
    "bulk copies": Case(
        "n3c5h10w14k33r3s3pad1",
        {"store": "bulk", "tile_p": 6, "tile_q": 16, "thread_p": 2, "persistent": True, "lanes_m": 8, "block_c": 2},
        "nchw", "bias",
    ),
    # a run may lie within one sector
    "bulk copies of parts of rows": Case(
        "n3c5h9w13k33r3s3",
        {"store": "bulk", "tile_p": 4, "tile_n": 2, "block_n": 64, "slices": 2, "persistent": True},
    ),
    "bulk copies of doubles": Case(
        "n5c4h8w6k16r3s2",
        {"store": "bulk", "tile_n": 4, "tile_p": 2, "tile_q": 5, "thread_q": 5, "thread_p": 4},
        "nhwc-nchw", "none", "fp64",
    ),
    "idle lanes": Case("n3c4h8w14k20r3s3", {"tile_p": 6, "tile_q": 12, "thread_p": 2, "lanes_m": 32}),
    "tap": Case("n2c5h9w11k33r3s3st2x1pad1dil1x2", {"staging": "tap", "num_stages": 3, "tile_q": 8}, "nhwc", "bias"),
    "tap, channels first": Case("n1c5h9w11k20r2s3", {"staging": "tap", "num_stages": 1}, "nchw-nhwc", "bias_relu"),
    "pointwise": Case("n2c20h9w9k20r1s1st2", {"staging": "window", "block_c": 8, "tile_p": 4, "tile_q": 4,
                                             "block_n": 32, "thread_p": 1}),
    "explicit": Case("n2c5h9w11k20r3s3st2pad1,0,1,0", {"staging": "explicit", "block_r": 3, "tile_q": 4,
                                                             "thread_p": 1}, "nchw", "bias"),
    "explicit, channels last": Case("n1c5h9w14k8r3s2dil2x3", {"staging": "explicit", "block_r": 1}, "nhwc"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integers_are_exact(name: str) -> None:
    case = CASES[name]
    problem = problem_of(case.shape, case.layout, case.epilogue, case.precision)
    least = {"block_n": 32, "tile_p": 4} | case.config
    for seed, poison in ((0, "nan"), (1, "finite")):
        assert_exact(problem, replace(SMALL, **least), seed=seed, poison=poison)


def test_filter_layout_is_free() -> None:
    problem = replace(problem_of("n1c5h6w9k33r3s3"), w_layout="krsc")
    assert_exact(problem, SMALL, seed=7)


def test_default_of_a_small_problem_is_exact() -> None:
    problem = problem_of("n3c5h10w9k12r3s3st2pad1", "nhwc-nchw", "bias_relu")
    assert_exact(problem, SIMT.default(problem, TARGET))


def test_reals_are_close() -> None:
    problem = problem_of("n1c40h8w12k32r3s3pad1")
    arrays = arrays_of(problem)
    rng = np.random.default_rng(0)
    for name in ("x", "w"):
        arrays[name] = rng.standard_normal(arrays[name].shape).astype(np.float32)
    run(problem, replace(SMALL, block_r=3), arrays)
    wanted = conv_reference(problem, arrays["x"], arrays["w"])
    assert np.linalg.norm(arrays["y"] - wanted) <= 1e-6 * np.linalg.norm(wanted)


NON_FINITE = problem_of("n1c3h6w10k8r3s3pad1", "nchw", "bias")


def non_finite_arrays() -> dict[str, np.ndarray[Any, Any]]:
    """A weight that is Inf and one that is NaN, at taps that meet the padding."""
    arrays = arrays_of(NON_FINITE)
    w = arrays["w"].copy()
    w[0, 0, 0, 0], w[5, 2, 2, 1] = np.inf, np.nan
    return arrays | {"w": w}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"staging": "tap"},
        {"staging": "explicit"},
        {"store": "shared", "store_n": 2},
        {"store": "bulk", "tile_q": 12},
    ],
    ids=str,
)
def test_padding_is_skipped_not_multiplied(changes: dict[str, Any]) -> None:
    arrays = non_finite_arrays()
    run(NON_FINITE, replace(SMALL, block_c=2, **changes), arrays, poison="finite")
    with np.errstate(invalid="ignore"):
        wanted = conv_reference(NON_FINITE, arrays["x"], arrays["w"], arrays["bias"])
    np.testing.assert_array_equal(arrays["y"], wanted.astype(np.float32))


# ---- mutants ----

MUTANTS: dict[str, tuple[str, str]] = {
    "a tap skipped": ("for (int s = 0; s < BLOCK_S; ++s) {", "for (int s = 1; s < BLOCK_S; ++s) {"),
    "a filter row skipped": ("for (int j = 0; j < INNER; ++j) {\n      const int r",
                             "for (int j = 1; j < INNER; ++j) {\n      const int r"),
    "wait for one step less": ("kNumStages > 1 ? kNumStages - 2 : 0", "kNumStages - 1"),
    "stage off by one": ("use.stage * STAGE_ELEMENTS", "(use.stage + 1) % kNumStages * STAGE_ELEMENTS"),
    "no barrier before use": ("__syncthreads();\n      if constexpr (kNumStages > 1) issue();",
                              "if constexpr (kNumStages > 1) issue();"),
    "no barrier after the plan": ("__syncthreads();  // the plan is complete\n", "\n"),
    "no barrier in the store": ("__syncthreads();  // the pass is written\n", "\n"),
    "no barrier between stores": ("__syncthreads();  // the stages, or the outputs", "// the stages, or the outputs"),
    "channels beyond C": ("(C % BLOCK_C == 0 || c + channel + j < C)", "true"),
    "columns beyond W": ("unsigned(col) < unsigned(W)", "col < W"),
    "rows beyond H": ("unsigned(h) < unsigned(H)", "h < H"),
    "filters beyond K": ("if (K % BLOCK_N != 0 && first_k + k >= K) continue;", ""),
    "a slice's sums taken away": ("+= mine[", "-= mine["),
    "no barrier before the sums": ("__syncthreads();  // the sums of the other", "// the sums of the other"),
    "the next box's copies are this one's": ("load_cta += gridDim.x;", ""),
    "no bias": ("kHasBias ? acc + bias : acc", "acc"),
}  # fmt: skip

BULK_MUTANTS: dict[str, tuple[str, str]] = {
    "no wait for the copies": ("if constexpr (kStore == Store::bulk) ptx::cp_async_bulk_wait_group_read<0>();\n    if",
                               "if"),
    "no barrier before the runs": ("__syncthreads();  // the stages, the slices'", "// the stages, the slices'"),
    "no barrier after the runs": ("__syncthreads();  // the runs are written", "// the runs are written"),
    "no fence": ("ptx::fence_proxy_async_shared_cta();\n  __syncthreads", "__syncthreads"),
    "rows beyond P": ("least(TILE_P, P - p) * Q", "TILE_P * Q"),
    "filters beyond K": ("n < N && p < P && k < K", "n < N && p < P"),
    "sectors that the run has only a part of": ("begin = (run.shift + SECTOR - 1) / SECTOR * SECTOR, end",
                                                "begin = run.shift / SECTOR * SECTOR, end"),
    "no first elements": ("(first ? run.shift / WHOLE * WHOLE :", "(first ? WHOLE :"),
    "no last elements": ("(first && at >= begin)", "at >= begin"),
}  # fmt: skip

SECTOR_MUTANTS: dict[str, tuple[str, str]] = {
    "runs begin at a boundary": ("Run::run_shift(tile.n + image, tile.p + p, tile.q, k)", "0"),
    "vectors that the run has only a part of": (": at < run.shift || at + UNIT > run.end())",
                                                ": at + UNIT <= run.shift || at >= run.end())"),
    "no first elements": ("(first ? run.shift / WHOLE * WHOLE :", "(first ? WHOLE :"),
    "no barrier after the runs": ("__syncthreads();  // the runs are written", "// the runs are written"),
    "no barrier before the runs": ("__syncthreads();  // the stages, the slices'", "// the stages, the slices'"),
    "a thread's rows are its first": ("acc[first_row * THREAD_Q + m][k] +=", "acc[m][k] +="),
    "one tap's filters for all": ("read(smem_filter + s * BLOCK_C * BLOCK_N)", "read(smem_filter)"),
    "one channel's filters for all": ("(r * BLOCK_S * BLOCK_C + c) * BLOCK_N", "r * BLOCK_S * BLOCK_C * BLOCK_N"),
}  # fmt: skip


def mutate(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Every simt kernel of an emulated plan is changed from now on."""
    original: Callable[[Launch], Source] = render

    def changed(launch: Launch) -> Source:
        source = original(launch)
        if launch.template != "simt":
            return source
        if old not in source.text:
            raise ValueError(f"the kernel has no {old!r}")  # no failure that a mutant is expected to cause
        return Source(source.kernel, source.text.replace(old, new))

    monkeypatch.setattr(im2wingen.emulator.plan, "render", changed)


def assert_exact_in_every_order(problem: ConvProblem, config: SimtConfig) -> None:
    for seed in (0, 1, 5):
        assert_exact(problem, config, seed=seed, poison="finite")  # NaN would be repaired


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, *MUTANTS[name])
    problem = problem_of("n1c7h9w9k41r3s3pad1", "nhwc-nchw", "bias")
    config = replace(
        SMALL,
        store="shared",
        tile_p=8,
        block_c=2,
        block_r=3,
        thread_n=8,
        block_n=64,
        lanes_m=8,
        num_stages=3,
        slices=2,
        persistent=True,
        accumulators="placed",
    )
    assert SIMT.broken_rules(problem, TARGET, config) == []
    with pytest.raises((AssertionError, EmulatorError)):
        assert_exact_in_every_order(problem, config)


@pytest.mark.parametrize("name", BULK_MUTANTS)
def test_mutants_of_bulk_copies_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, *BULK_MUTANTS[name])
    case = CASES["bulk copies"]
    with pytest.raises((AssertionError, EmulatorError)):
        assert_exact_in_every_order(problem_of(case.shape, case.layout, case.epilogue), replace(SMALL, **case.config))


@pytest.mark.parametrize("name", SECTOR_MUTANTS)
def test_mutants_of_sectors_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, *SECTOR_MUTANTS[name])
    config = replace(SMALL, store="sectors", store_n=2, tile_p=3, thread_p=3, tile_q=12, lanes_m=4, reads="rows")
    with pytest.raises((AssertionError, EmulatorError)):
        assert_exact_in_every_order(problem_of("n2c3h8w15k33r3s3", "nchw"), config)


def test_a_stage_without_filters_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "kNumStages * int(gridDim.x)", "int(gridDim.x)")
    case = CASES["filters stay"]
    with pytest.raises(AssertionError):
        assert_exact_in_every_order(problem_of(case.shape, case.layout, case.epilogue), replace(SMALL, **case.config))


def test_copies_to_a_stage_in_use_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    free = "      if constexpr (kNumStages == 1) __syncthreads();\n"
    mutate(monkeypatch, free + "      if constexpr (kIssueAfter)", "      if constexpr (kIssueAfter)")
    case = CASES["persistent, one stage"]
    with pytest.raises((AssertionError, EmulatorError)):
        assert_exact_in_every_order(problem_of(case.shape, case.layout), replace(SMALL, **case.config))


def test_a_repair_before_the_copies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "ptx::cp_async_bulk_wait_group<0>();", "")
    with pytest.raises(AssertionError):
        test_padding_is_skipped_not_multiplied({"store": "bulk", "tile_q": 12})


def test_a_repair_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "if (__syncthreads_or(saw_nan))", "if (false)")
    with pytest.raises(AssertionError):
        test_padding_is_skipped_not_multiplied({})
