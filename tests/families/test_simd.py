"""Family simd: what it supports, its space and default, and its kernels' results, run for real."""

import itertools
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2wingen.cpu_compiler import compile_assembly, compile_shared_object
from im2wingen.cpu_target import CPU_PRESETS, cpu_preset
from im2wingen.errors import CompileError, UsageError
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_products import PRECISIONS
from im2wingen.problem import ConvProblem
from im2wingen.render import plan_sources, render
from im2wingen.target import preset
from tests.families.simd_cases import (
    ARCHS,
    AVX2,
    SMALL,
    arrays_of,
    assert_exact,
    problem_of,
    reference,
    run,
    run_sources,
)  # fmt: skip

# ---- what is supported, the space, the default ----


def test_says_why_it_cannot() -> None:
    assert "the target is NVIDIA H200" in (SIMD.unsupported(problem_of("cv9"), preset("sm_90a")) or "")
    assert (
        SIMD.unsupported(ConvProblem.parse("cv9", precision="fp16"), AVX2)
        == "simd computes fp32, fp64, bf16, int8; the problem is fp16"
    )
    assert SIMD.unsupported(problem_of("cv9", "chwn", precision="bf16"), AVX2) == (
        "simd takes bf16 in nhwc and nchw; the problem is chwn"
    )
    assert "for both x and y" in (SIMD.unsupported(problem_of("cv9", "chwn-nhwc"), AVX2) or "")
    assert "2^30 elements" in (SIMD.unsupported(problem_of("n1c1h1w1k1r50000s50000pad25000"), AVX2) or "")
    assert SIMD.unsupported(problem_of("n1c4h4w4k4r1s1g2"), AVX2) is None


LAYOUTS = (*tuple(itertools.product(("nchw", "nhwc"), repeat=2)), ("chwn", "chwn"), ("chwn8", "chwn8"))
PROBLEMS = st.builds(
    lambda **sizes: sizes,
    n=st.integers(1, 40), c=st.integers(1, 700), h=st.integers(1, 60), w=st.integers(1, 60), k=st.integers(1, 900),
    r=st.integers(1, 7), s=st.integers(1, 31), stride_h=st.integers(1, 4), stride_w=st.integers(1, 4),
    pad_top=st.integers(0, 3), pad_left=st.integers(0, 3), dilation_h=st.integers(1, 2), dilation_w=st.integers(1, 9),
    layouts=st.sampled_from(LAYOUTS), precision=st.sampled_from(PRECISIONS),
)  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True)
@given(PROBLEMS, st.integers(1, 4), st.sampled_from(tuple(CPU_PRESETS)))
def test_default_is_legal_and_in_the_space(sizes: dict[str, Any], groups: int, arch: str) -> None:
    sizes["c"], sizes["k"] = groups * sizes["c"], groups * sizes["k"]
    sizes["x_layout"], sizes["y_layout"] = sizes.pop("layouts")
    try:
        problem = ConvProblem(**sizes, groups=groups)
    except UsageError:  # the window is larger than the input
        return
    target = cpu_preset(arch)
    if SIMD.unsupported(problem, target):  # bf16 and int8 in CHWN
        return
    config = SIMD.default(problem, target)
    assert SIMD.broken_rules(problem, target, config) == []
    assert SIMD.choices_of(problem, target, config) is not None


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ("n1c8h16w40000k64r3s3pad1", "nchw"),  # a row of y that is staged exceeds L2
        ("n128c64h64w4096k8r3s3", "chwn"),  # so does a window that is copied
    ],
)
def test_default_is_legal_where_a_thread_would_keep_too_much(shape: str, layout: str) -> None:
    problem = problem_of(shape, layout)
    for target in CPU_PRESETS.values():
        assert SIMD.broken_rules(problem, target, SIMD.default(problem, target)) == []


@pytest.mark.parametrize("layer", ["cv3", "cv7", "cv9"])
def test_the_default_writes_planes_row_by_row(layer: str) -> None:
    for target in CPU_PRESETS.values():
        assert SIMD.default(problem_of(layer, "nchw"), target).tile_p == 1
        assert SIMD.default(problem_of(layer, "nhwc"), target).tile_p > 1


def test_rows_of_a_default_tile_share_a_copied_window() -> None:
    config = SIMD.default(problem_of("cv4", "nchw"), CPU_PRESETS["x86-64-avx512"])
    assert config.window == "copied"
    assert config.tile_p > 1


@pytest.mark.parametrize("shape", ["cv1", "cv7", "cv8", "cv12", "n3c5h9w9k33r3s3pad1", "n2c24h9w9k24r3s3g24"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_space_is_mostly_legal_and_replays(shape: str, layout: str) -> None:
    problem = problem_of(shape, layout)
    configs = list(itertools.islice(SIMD.random_configs(problem, AVX2, 0), 100))
    assert sum(not SIMD.broken_rules(problem, AVX2, config) for config in configs) >= 50
    for config in configs:
        assert SIMD.choices_of(problem, AVX2, config) is not None
        assert SIMD.config_from_dict(config.to_dict()) == config


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_name_always_has_the_same_choices(layout: str) -> None:
    # Optuna demands it of categorical parameters
    problem, rng = problem_of("n3c24h17w13k100r3s3pad1", layout), random.Random(0)
    seen: dict[str, tuple[Any, ...]] = {}

    def pick(name: str, choices: Sequence[Any], /) -> Any:
        assert len(set(choices)) == len(choices) > 0, name
        assert seen.setdefault(name, tuple(choices)) == tuple(choices), name
        return rng.choice(choices)

    for _ in range(300):
        SIMD.suggest(problem, AVX2, pick)


def test_the_windows_bytes_are_the_papers() -> None:
    problem = problem_of("cv9")
    plans = {
        window: SIMD.plan(problem, AVX2, replace(SIMD.default(problem, AVX2), window=window))
        for window in ("direct", "copied", "explicit")
    }
    assert plans["explicit"].workspace["window"] == problem.im2win_bytes
    assert set(plans["direct"].workspace) == set(plans["copied"].workspace) == {"packed"}
    assert plans["direct"].workspace["packed"] == 4 * problem.k * problem.gemm_k


# ---- rules and static_asserts ----


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"tile_q": 5}, "equal parts"),  # Q is 8: five and three
        ({"tile_n": 2}, "equal parts"),
        ({"vectors_k": 3}, "equal parts"),
        ({"block_k": 9}, "equal parts"),
        ({"block_p": 4}, "whole tiles of rows"),  # P is 6: four and two
        ({"block_c": 9}, "channels of a group"),
        ({"tile_p": 6, "tile_q": 8, "block_p": 6}, "registers"),
        ({"store": "streamed"}, "whole vectors"),  # K is no multiple of a vector
        ({"store": "staged"}, "staged in NCHW alone"),
        ({"vector_of": "pixels"}, "vectors hold images in CHWN"),
        ({"tile_q": 0}, "at least 1"),
    ],
    ids=str,
)
def test_rules(broken: dict[str, Any], words: str) -> None:
    problem = problem_of("n1c8h8w10k28r3s3")
    assert SIMD.broken_rules(problem, AVX2, replace(SMALL, block_c=8)) == []
    sentences = SIMD.broken_rules(problem, AVX2, replace(SMALL, **broken))
    assert any(words in sentence for sentence in sentences), sentences


def test_a_streamed_vector_that_is_not_aligned_does_not_compile() -> None:
    problem = problem_of("n1c8h8w10k28r3s3")
    launch = SIMD.plan(problem, cpu_preset("generic"), replace(SMALL, store="streamed")).launches[-1]
    with pytest.raises(CompileError, match="whole vectors"):
        compile_shared_object(render(replace(launch, values=dict(launch.values) | {"K": 30})), "generic")


# ---- arithmetic ----


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any]
    layout: str = "nhwc"
    epilogue: str = "none"


CASES = {
    # one pixel, one channel, one filter: everything is tail
    "one of all": Case("n1c1h1w1k1r1s1", {"tile_q": 1, "block_c": 1}),
    # C in chunks with a remainder, K beyond whole vectors in tiles of two sizes; bias
    "remainders": Case("n1c7h6w13k43r3s3", {"block_c": 3, "vectors_k": 2, "tile_q": 6, "block_k": 2}, epilogue="bias"),
    # rows and columns of two tile sizes, blocks of rows of two sizes
    "two sizes": Case("n2c4h9w9k16r3s3", {"tile_p": 2, "tile_q": 4, "block_p": 4}),
    # tiles over images, two of them and one
    "images": Case("n3c5h3w4k8r3s3", {"tile_n": 2, "tile_q": 2, "block_c": 5}, "nhwc", "bias_relu"),
    # stride, four pads, dilation; columns missing left and right, both at once where W is small
    "pads": Case("n2c4h7w9k8r3s3pad1,2,2,1", {"tile_p": 3, "tile_q": 4, "block_p": 3}, epilogue="bias"),
    "pads, planes": Case("n1c4h7w13k8r3s5st1x2pad1,2,2,1", {"tile_q": 3, "steps": "taps"}, "nchw", "bias"),
    "pads, tiles of rows": Case("n1c4h8w6k8r3s3pad1", {"tile_p": 2, "tile_q": 3, "block_p": 4}),
    "more pad than image": Case("n1c4h2w2k8r5s5pad4", {"tile_q": 3, "tile_p": 1}),
    "all padding": Case("n1c2h1w1k8r1s1pad7", {"tile_q": 5, "tile_p": 1, "block_c": 2}, epilogue="bias"),
    "dilation": Case("n1c5h11w17k9r3s3st2pad1,0,2,1dil2x3", {"tile_q": 4, "block_c": 5}, "nchw-nhwc"),
    # windows copied: chunks, rows of a block, pads; and every order of loops
    "copied": Case("n2c10h9w9k24r3s3pad1", {"window": "copied", "tile_q": 5, "block_p": 3, "block_k": 3}),
    "copied, taps": Case("n1c10h9w9k24r3s3st2", {"window": "copied", "tile_q": 4, "steps": "taps"}, "nchw"),
    "copied, images": Case("n3c4h3w3k8r3s3", {"window": "copied", "tile_q": 1, "tile_n": 2}, "nchw"),
    "explicit": Case("n2c5h7w9k9r3s3st2x1pad1,2,2,1dil2x1", {"window": "explicit", "block_c": 3, "tile_q": 5}),
    "explicit, planes": Case("n2c5h7w9k9r3s2pad1", {"window": "explicit", "tile_q": 5, "steps": "taps"}, "nchw"),
    "filters inner": Case("n1c8h6w6k40r3s3", {"inner_loop": "filters", "block_k": 5, "block_p": 4, "unroll": 4}),
    "zigzag": Case("n3c4h6w6k40r3s3", {"tile_order": "zigzag", "prefetch": "near", "schedule": "dynamic"}),
    "zigzag, pixels": Case("n3c4h6w6k40r3s3", {"tile_order": "zigzag", "item_order": "pixels", "prefetch": "far"}),
    "streamed": Case("n1c4h6w6k16r3s3", {"store": "streamed", "vectors_k": 2}),
    "transposed stores": Case("n1c3h8w14k21r3s3", {"tile_q": 6, "vectors_k": 1, "block_c": 3}, "nhwc-nchw", "bias"),
    "staged": Case("n2c5h6w9k21r3s3", {"store": "staged", "tile_q": 4, "block_c": 2, "block_k": 3}, "nchw", "bias"),
    "streamed rows": Case("n3c3h8w10k20r3s3pad1", {"store": "streamed", "tile_q": 5, "block_p": 4, "block_c": 3,
                                                   "vectors_k": 2}, "nhwc-nchw"),
    "staged images": Case("n3c3h3w6k20r3s3", {"store": "staged", "tile_n": 2, "tile_q": 4, "block_c": 3}, "nchw"),
    "whole rows": Case("n1c3h5w5k8r3s3", {"tile_p": 3, "tile_q": 3, "block_p": 3, "block_c": 3}, "nchw"),
    "groups": Case("n2c12h6w8k30r3s3pad1g3", {"block_c": 2, "tile_q": 4, "item_order": "pixels"}, epilogue="bias"),
    # vectors of pixels: the last tile, or the last vector of the only one, computes some columns again
    "rows": Case("n2c5h6w19k7r3s3", {"vector_of": "pixels", "tile_q": 3, "block_c": 3}, "nchw", "bias_relu"),
    "rows, tiles": Case("n1c4h6w40k9r3s2", {"vector_of": "pixels", "tile_q": 2, "tile_p": 2, "block_p": 4,
                                            "vectors_k": 3}, "nchw"),
    "rows, copied": Case("n2c10h7w38k11r3s3pad1,1,0,0dil1x2", {"vector_of": "pixels", "tile_q": 2, "vectors_k": 4,
                                                              "window": "copied", "block_p": 3}, "nchw", "bias"),
    "rows, groups": Case("n2c6h7w38k12r3s3st2x1g3", {"vector_of": "pixels", "tile_q": 1, "vectors_k": 2, "block_c": 2,
                                                    "store": "staged"}, "nchw"),
    "rows, streamed": Case("n2c3h9w33k6r3s3", {"vector_of": "pixels", "tile_q": 2, "tile_p": 2, "block_p": 4,
        "vectors_k": 3, "store": "streamed", "steps": "taps", "block_c": 3}, "nchw"),
    "depthwise": Case("n1c10h6w8k10r3s3pad1g10", {"block_c": 1, "tile_q": 4}, epilogue="bias_relu"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integers_are_exact(name: str) -> None:
    case = CASES[name]
    if "x86-64-avx2" not in ARCHS:
        pytest.skip("the cases' tiles are cut for vectors of 8, which this machine's instructions lack")
    problem = problem_of(case.shape, case.layout, case.epilogue)
    assert_exact(problem, AVX2, replace(SMALL, **case.config))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_defaults_are_exact(arch: str, layout: str) -> None:
    for shape in ("n2c19h9w21k45r3s3pad1", "n1c3h23w23k20r7s7st2"):
        problem = problem_of(shape, layout, "bias_relu")
        assert_exact(problem, cpu_preset(arch), SIMD.default(problem, cpu_preset(arch)), seed=3)


def test_filter_layout_is_free() -> None:
    problem = replace(problem_of("n1c5h6w9k33r3s3"), w_layout="kcrs")
    assert_exact(problem, cpu_preset(ARCHS[0]), SIMD.default(problem, cpu_preset(ARCHS[0])))


def test_arrays_of_any_alignment() -> None:
    problem = problem_of("n1c4h6w6k16r3s3", epilogue="bias")
    arrays = {name: np.append(array, np.float32(0))[1:] for name, array in arrays_of(problem).items()}
    shapes = {"x": problem.x_shape, "w": problem.w_shape, "bias": (16,), "y": problem.y_shape}
    arrays = {name: array.reshape(shapes[name]) for name, array in arrays.items()}
    target = cpu_preset(ARCHS[0])
    run(problem, target, replace(SIMD.default(problem, target), store="streamed"), arrays)
    np.testing.assert_array_equal(arrays["y"], reference(problem, arrays))


@pytest.mark.parametrize("window", ["direct", "copied", "explicit"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_padding_is_skipped_not_multiplied(window: str, layout: str) -> None:
    problem = problem_of("n1c3h6w9k8r3s3pad1,2,1,2", layout, "bias")
    target = cpu_preset(ARCHS[0])
    arrays = arrays_of(problem)
    w = arrays["w"] if problem.w_layout == "kcrs" else arrays["w"].transpose(0, 3, 1, 2)
    w[0, 0, 0, 0], w[5, 2, 2, 1] = np.inf, np.nan  # taps that meet the padding
    run(problem, target, replace(SIMD.default(problem, target), window=window), arrays)
    np.testing.assert_array_equal(arrays["y"], reference(problem, arrays))
    assert np.isfinite(arrays["y"]).any()


@pytest.mark.parametrize("seed", range(3))
def test_random_configs_are_exact(seed: int) -> None:
    target = cpu_preset(ARCHS[0])
    for shape, layout in (("n2c9h8w11k37r3s3st2x1pad1", "nhwc"), ("n3c6h7w7k40r3s2pad0,1,1,0", "nchw")):
        problem = problem_of(shape, layout, "bias")
        configs = SIMD.random_configs(problem, target, seed)
        legal = (config for config in configs if not SIMD.broken_rules(problem, target, config))
        assert_exact(problem, target, next(legal), seed=seed)


# ---- compilation ----


@pytest.mark.parametrize("arch", SIMD.archs)
def test_compiles_for(arch: str) -> None:
    if arch == "aarch64-neon" and arch not in ARCHS and shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs aarch64-linux-gnu-g++")
    images = problem_of("n17c8h9w9k40r3s3pad1", "chwn8", precision="fp64")
    cases = list(itertools.product((problem_of("n1c8h9w9k40r3s3pad1"), images), ("copied", "explicit")))
    if arch not in ARCHS:  # test_simd_words.py runs the others
        words = (problem_of("n1c8h9w9k40r3s3pad1", precision=precision) for precision in ("bf16", "int8"))
        cases += [(problem, "copied") for problem in words]
    for problem, window in cases:
        plan = SIMD.plan(problem, cpu_preset(arch), replace(SIMD.default(problem, cpu_preset(arch)), window=window))
        for source in plan_sources(plan):
            compile_shared_object(source, arch)


@pytest.mark.skipif("x86-64-avx2" not in ARCHS, reason="compiles for x86-64 by this machine's own compiler")
def test_unroll_repeats_the_steps() -> None:
    problem = problem_of("n1c32h6w16k32r3s3")  # whose filter rows are one run of 96 steps
    fmas = {}
    for unroll in (1, 8):
        config = replace(SIMD.default(problem, AVX2), unroll=unroll)
        text = compile_assembly(plan_sources(SIMD.plan(problem, AVX2, config))[-1], AVX2.arch)
        fmas[unroll] = text.count("vfmadd")
    assert fmas[8] > 6 * fmas[1]


# ---- mutants ----

MUTANTS = {
    "a tap skipped": ("for (int s = 0; s < S; ++s) {", "for (int s = 1; s < S; ++s) {"),
    "a filter row skipped": ("for (int r = r_begin; r < r_end; ++r) {", "for (int r = r_begin + 1; r < r_end; ++r) {"),
    "partial sums forgotten": ("CHUNKS > 1 && chunk > 0 ? partial[i * T::vectors + v] :", ""),
    "the pad's columns off by one": ("PAD_LEFT, STRIDE_W, W, Q)", "PAD_LEFT, STRIDE_W, W - 1, Q)"),
    "a tile's share misplaced": (
        "part * least + (part < longer ? part : longer)", "part * least + (part < longer ? part : 0)"
    ),
    "no bias": ("acc[i][v] = acc[i][v] + addend;", ";"),
    "no ReLU": ("acc[i][v] < Sum(0) ?", "acc[i][v] < Sum(-1e9) ?"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail(name: str) -> None:
    problem = problem_of("n1c7h7w17k30r3s3pad1", epilogue="bias_relu")
    target, config = cpu_preset(ARCHS[0]), SMALL
    assert SIMD.broken_rules(problem, target, config) == []
    plan, arrays = SIMD.plan(problem, target, config), arrays_of(problem)
    sources = plan_sources(plan)
    correct, broken = MUTANTS[name]
    assert correct in sources[-1].text
    mutant = replace(sources[-1], text=sources[-1].text.replace(correct, broken))
    run_sources(plan, (*sources[:-1], mutant), target.arch, arrays)
    assert not np.array_equal(arrays["y"], reference(problem, arrays))
