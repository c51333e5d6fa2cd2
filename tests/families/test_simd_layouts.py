"""Family simd where vectors hold images (CHWN, CHWN8), and in fp64: results, run for real."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from im2wingen.cpu_target import cpu_preset
from im2wingen.families import FAMILIES
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_config import SimdVectors, vectors_of
from im2wingen.render import plan_sources
from im2wingen.target import preset
from tests.families.simd_cases import (
    ARCHS,
    AVX2,
        arrays_of,
    assert_exact,
    images,
    problem_of,
    reference,
    run,
    run_sources,
    small,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any]
    layout: str = "chwn"
    epilogue: str = "none"
    precision: str = "fp32"


CASES = {
    # whole vectors, whole tiles
    "vectors": Case("n16c4h6w6k8r3s3", {"tile_n": 2, "vectors_k": 3, "tile_q": 2}),
    # one tile whose last vector begins earlier, over images of the one before
    "last vector": Case("n11c5h6w7k7r3s2", {"tile_n": 2, "vectors_k": 3, "tile_q": 2, "block_c": 3}, epilogue="bias"),
    # tiles of two sizes, the last of which begins earlier and leaves the first images alone
    "last tile": Case("n37c4h6w6k5r3s3", {"tile_n": 2, "vectors_k": 3, "tile_q": 1, "block_k": 2}),
    "fewer images than lanes": Case("n3c4h7w6k8r3s3", {"vectors_k": 4, "tile_q": 2}, epilogue="bias_relu"),  # two lanes
    "eight images": Case("n8c4h7w6k8r3s3", {"vectors_k": 4, "tile_q": 2}),  # as CHWN8 has them
    "one image": Case("n1c4h7w6k16r3s3", {"vectors_k": 2, "tile_q": 2}),  # as NCHW has it: vectors of channels
    "one image, staged": Case("n1c4h7w6k16r3s3", {"vectors_k": 2, "tile_q": 2, "store": "staged"}),
    "pads": Case("n9c4h7w9k8r3s3pad1,2,2,1", {"tile_n": 2, "vectors_k": 3, "tile_q": 2}),
    "pads, columns": Case("n9c4h7w9k8r3s3pad1,2,2,1", {"vectors_k": 2, "tile_q": 5}),
    "more pad than image": Case("n10c4h2w2k8r5s5pad4", {"tile_n": 2, "vectors_k": 1, "tile_q": 3}),
    "stride, dilation": Case("n9c5h11w17k9r3s3st2pad1,0,2,1dil2x3", {"vectors_k": 3, "tile_q": 4, "block_c": 5}),
    "taps": Case("n13c6h7w7k10r3s3", {"vectors_k": 5, "tile_q": 1, "steps": "taps", "unroll": 2, "prefetch": "near"}),
    "copied": Case("n37c10h9w9k9r3s3pad1",
        {"window": "copied", "tile_n": 2, "vectors_k": 3, "tile_q": 1, "block_p": 3}),
    "copied, one tile": Case("n11c10h9w9k9r3s3st2",
        {"window": "copied", "tile_n": 2, "vectors_k": 3, "tile_q": 1, "block_k": 3}),
    "explicit": Case("n11c5h7w9k9r3s3st2x1pad1,2,2,1dil2x1",
        {"window": "explicit", "tile_n": 2, "vectors_k": 3, "tile_q": 2}),
    "tiles of rows": Case("n9c4h8w6k8r3s3pad1", {"tile_p": 2, "block_p": 4, "vectors_k": 4, "tile_q": 1}),
    "groups": Case("n17c12h6w8k30r3s3pad1g3", {"vectors_k": 5, "block_c": 2, "tile_q": 2}, epilogue="bias"),
    "depthwise": Case("n19c10h6w8k10r3s3pad1g10", {"vectors_k": 1, "block_c": 1, "tile_q": 3}, epilogue="bias_relu"),
    "streamed": Case("n24c4h6w6k8r3s3", {"store": "streamed", "tile_n": 3, "vectors_k": 2, "tile_q": 1}),
    "blocks": Case("n24c4h6w6k8r3s3", {"tile_n": 3, "vectors_k": 1, "tile_q": 2}, "chwn8"),
    # a block that is not full, beyond whose images x holds NaN
    "block with a gap": Case("n19c5h6w7k7r3s2pad1", {"tile_n": 2, "vectors_k": 4, "tile_q": 1}, "chwn8", "bias_relu"),
    "blocks, copied": Case("n19c10h9w9k9r3s3pad1",
        {"window": "copied", "tile_n": 2, "vectors_k": 3, "tile_q": 1}, "chwn8"),
    "blocks, explicit": Case("n19c5h7w9k9r3s3st2pad1,2,2,1",
        {"window": "explicit", "vectors_k": 2, "tile_q": 5}, "chwn8"),
    "blocks, streamed": Case("n9c4h6w6k8r3s3", {"store": "streamed", "vectors_k": 2}, "chwn8"),
    # fp64: four lanes, so that a block is two vectors
    "doubles": Case("n2c7h8w19k27r3s3pad1", {"tile_q": 5, "vectors_k": 2, "block_c": 3}, "nhwc", "bias_relu", "fp64"),
    "doubles, planes": Case("n2c7h8w19k27r3s3", {"tile_q": 6, "vectors_k": 1, "block_c": 3}, "nchw", "bias", "fp64"),
    "doubles, staged": Case("n2c7h8w19k27r3s3", {"tile_q": 5, "store": "staged"}, "nchw", "none", "fp64"),
    "doubles, images": Case("n11c5h6w7k7r3s2", {"tile_n": 3, "vectors_k": 2, "tile_q": 1}, "chwn", "bias", "fp64"),
    "doubles, blocks": Case("n19c5h6w7k7r3s2pad1", {"tile_n": 2, "vectors_k": 2, "tile_q": 1}, "chwn8", "bias", "fp64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integers_are_exact(name: str) -> None:
    case = CASES[name]
    if "x86-64-avx2" not in ARCHS:
        pytest.skip("the cases' tiles are cut for vectors of 8, which this machine's instructions lack")
    problem = problem_of(case.shape, case.layout, case.epilogue, case.precision)
    assert_exact(problem, AVX2, small(problem, **case.config))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw", "chwn", "chwn8"])
def test_defaults_are_exact(arch: str, layout: str, precision: str) -> None:
    if precision == "fp32" and layout in ("nhwc", "nchw"):
        return  # test_simd.py's
    for shape in ("n21c19h9w7k45r3s3pad1", "n5c3h13w13k20r7s7st2"):
        problem = problem_of(shape, layout, "bias_relu", precision)
        assert_exact(problem, cpu_preset(arch), SIMD.default(problem, cpu_preset(arch)), seed=3)


@pytest.mark.parametrize("layout", ["chwn", "chwn8"])
@pytest.mark.parametrize("seed", range(3))
def test_random_configs_are_exact(layout: str, seed: int) -> None:
    target = cpu_preset(ARCHS[0])
    problem = problem_of("n37c9h8w7k19r3s3st2x1pad1", layout, "bias")
    configs = SIMD.random_configs(problem, target, seed)
    legal = (config for config in configs if not SIMD.broken_rules(problem, target, config))
    assert_exact(problem, target, next(legal), seed=seed)


@pytest.mark.parametrize("window", ["direct", "copied", "explicit"])
@pytest.mark.parametrize("layout", ["chwn", "chwn8"])
def test_padding_is_skipped_not_multiplied(window: str, layout: str) -> None:
    problem = problem_of("n9c3h6w9k8r3s3pad1,2,1,2", layout, "bias")
    target, arrays = cpu_preset(ARCHS[0]), arrays_of(problem)
    arrays["w"][0, 0, 0, 0], arrays["w"][5, 1, 2, 2] = np.inf, np.nan  # taps that meet the padding
    run(problem, target, replace(SIMD.default(problem, target), window=window), arrays)
    found = images(problem, arrays["y"])
    np.testing.assert_array_equal(found, images(problem, reference(problem, arrays)))
    assert np.isfinite(found).any()


MUTANTS = {
    "last tile in place": ("tile == kCutN.parts - 1 ? begin - OVERLAP : begin", "tile < 0 ? begin : begin"),
    "last images twice": ("ceil_div(N, LANES) * LANES - N : 0", "ceil_div(N, LANES) * LANES - N + 1 : 0"),
    "a window's images misplaced": ("X_IMAGE = kLooseImages ? LANES", "X_IMAGE = kLooseImages ? LANES + 1"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail(name: str) -> None:
    problem = problem_of("n21c6h7w9k5r3s3pad1", "chwn", "bias")
    target, config = cpu_preset(ARCHS[-1]), small(problem, vectors_k=1, tile_n=2, tile_q=3, block_c=6)
    assert SIMD.broken_rules(problem, target, config) == []
    plan, arrays = SIMD.plan(problem, target, config), arrays_of(problem)
    sources = plan_sources(plan)
    correct, broken = MUTANTS[name]
    assert correct in sources[-1].text
    mutant = replace(sources[-1], text=sources[-1].text.replace(correct, broken))
    run_sources(plan, (*sources[:-1], mutant), target.arch, arrays)
    assert not np.array_equal(arrays["y"], reference(problem, arrays))


@pytest.mark.parametrize("layout", ["chwn", "chwn8"])
@pytest.mark.parametrize("shape", ["cv1", "cv9", "n3c5h9w9k33r3s3pad1", "n20c24h9w9k24r3s3g24"])
def test_the_space_is_mostly_legal_and_replays(shape: str, layout: str) -> None:
    problem = problem_of(shape, layout)
    for target in (AVX2, cpu_preset("x86-64-avx512")):
        configs = list(itertools.islice(SIMD.random_configs(problem, target, 0), 100))
        assert sum(not SIMD.broken_rules(problem, target, config) for config in configs) >= 40
        assert all(SIMD.choices_of(problem, target, config) is not None for config in configs)


@pytest.mark.parametrize(
    ("layout", "n", "precision", "lanes", "units"),
    [
        ("nhwc", 5, "fp32", 16, 5), ("chwn", 128, "fp32", 16, 8), ("chwn", 17, "fp64", 8, 3),
        ("chwn", 12, "fp32", 8, 2), ("chwn", 3, "fp32", 2, 2), ("chwn", 1, "fp32", 16, 1), ("chwn8", 1, "fp32", 8, 1),
        ("chwn8", 17, "fp32", 8, 3), ("chwn8", 17, "fp64", 8, 3),
    ],
)  # fmt: skip
def test_vectors_of_a_batch(layout: str, n: int, precision: str, lanes: int, units: int) -> None:
    problem = problem_of(f"n{n}c4h6w6k8r3s3", layout, "none", precision)
    of = SimdVectors(
        problem=problem, target=cpu_preset("x86-64-avx512"), product="fma", vector_of=vectors_of(problem)[0]
    )
    assert (of.lanes, of.units) == (lanes, units)


@pytest.mark.parametrize("layout", ["chwn", "chwn8", "chwn-nhwc", "nhwc-chwn8"])
def test_gpus_say_that_they_take_neither_layout(layout: str) -> None:
    for name in ("simt", "mma", "wgmma"):
        for precision in ("fp32", "fp16"):
            problem = problem_of("n16c64h8w8k64r3s3", layout, "none", precision)
            reason = FAMILIES[name].unsupported(problem, preset("sm_90a"))
            assert reason == f"layout {layout} is not supported: x and y must be nhwc or nchw"
