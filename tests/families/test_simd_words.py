"""Family simd in bf16 and int8: results of every product that this machine has, run for real."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from im2wingen.cpu_target import CpuTarget, cpu_preset, cpu_target
from im2wingen.dtypes import from_storage
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_config import SimdConfig
from im2wingen.families.simd_default import default_by
from im2wingen.families.simd_products import Product, products_of
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.render import plan_sources
from tests.families.simd_cases import ARCHS, arrays_of, assert_exact, problem_of, reference, run, run_sources, small

FEATURES = cpu_target().features
# Stride, four pads, dilation; C neither whole words nor whole tiles of them; K beyond whole vectors, columns beyond
# whole tiles of them; chunks with a remainder, blocks of two sizes.
EDGES = "n2c44h7w21k37r3s2st2x1pad1,2,0,1dil1x2"
CHUNKED: dict[str, Any] = {"window": "copied", "block_c": 18, "block_p": 2}
CONFIGS: dict[Product, dict[str, Any]] = {
    "amx": {"tile_p": 2, "tile_q": 7, "vectors_k": 2, "block_k": 2},
    "dot": {"tile_q": 5, "vectors_k": 2, "block_k": 2, "unroll": 2},
    "madd": {"tile_p": 2, "tile_q": 3, "vectors_k": 2, "steps": "taps"},
    "fma": {"tile_q": 5, "vectors_k": 2, "store": "staged"},
}


def target_with(arch: str, *features: str) -> CpuTarget:
    """The preset with these features; skips where this machine can't run its kernels."""
    if arch not in ARCHS or not set(features) <= {*FEATURES, *_vex()}:
        pytest.skip(f"this machine lacks {arch} {' '.join(features)}")
    return replace(cpu_preset(arch), features=features)


def _vex() -> tuple[str, ...]:
    """avx_vnni, which a target of AVX-512 doesn't name: that has it by another encoding."""
    with open("/proc/cpuinfo") as file:
        return ("avx_vnni",) if " avx_vnni " in file.read() else ()


def config_of(problem: ConvProblem, target: CpuTarget, product: Product, **changes: Any) -> SimdConfig:
    config = small(problem, product=product, **changes)
    broken = SIMD.broken_rules(problem, target, config)
    assert not broken, broken
    return config


@pytest.mark.parametrize(
    ("precision", "product", "arch", "features", "layout"),
    [
        ("bf16", "amx", "x86-64-avx512", ("amx_bf16",), "nhwc-nchw"),
        ("bf16", "dot", "x86-64-avx512", ("avx512_bf16",), "nhwc"),
        ("bf16", "fma", "x86-64-avx2", (), "nchw"),
        ("int8", "amx", "x86-64-avx512", ("amx_int8",), "nchw"),
        ("int8", "dot", "x86-64-avx2", ("avx_vnni",), "nchw-nhwc"),
        ("int8", "madd", "x86-64-avx2", (), "nhwc"),
    ],
)
def test_integers_are_exact(
    precision: str, product: Product, arch: str, features: tuple[str, ...], layout: str
) -> None:
    target, problem = target_with(arch, *features), problem_of(EDGES, layout, "bias_relu", precision)
    assert_exact(problem, target, config_of(problem, target, product, **CHUNKED | CONFIGS[product]))


@pytest.mark.parametrize("product", ["amx", "dot"])
def test_windows_of_whole_words_are_read_in_place(product: Product) -> None:
    # two groups of 48 channels: tiles of 12 words, two a tap, or filter rows of 72
    target = target_with("x86-64-avx512", "amx_bf16", "avx512_bf16")
    problem = problem_of("n2c96h5w9k40r3s3g2", precision="bf16")
    arrays = arrays_of(problem)
    config = config_of(problem, target, product, tile_q=4, block_c=48)
    shifted = np.append(arrays["x"], np.uint16(0))[1:]  # words needn't be aligned
    shifted[...] = arrays["x"].reshape(-1)
    run(problem, target, config, arrays | {"x": shifted})
    np.testing.assert_array_equal(arrays["y"], reference(problem, arrays))


@pytest.mark.parametrize(
    ("shape", "precision"),
    [
        ("n2c4h5w6k6r2s2g2", "int8"),  # C is one word, a group half of one
        ("n1c10h6w8k10r3s3pad1g10", "bf16"),  # depthwise
    ],
)
def test_groups_smaller_than_words(shape: str, precision: str) -> None:
    problem, target = problem_of(shape, precision=precision), replace(cpu_preset(ARCHS[0]), features=FEATURES)
    assert_exact(problem, target, SIMD.default(problem, target))


@pytest.mark.parametrize("product", ["amx", "fma"])
def test_padding_is_skipped_not_multiplied(product: Product) -> None:
    target = target_with("x86-64-avx512", "amx_bf16") if product == "amx" else cpu_preset(ARCHS[-1])
    problem = problem_of("n1c5h6w9k18r3s3pad1,2,1,2", "nchw", "bias_relu", "bf16")
    arrays = arrays_of(problem)
    infinite, nan = 0x7F80, 0x7FC0
    arrays["w"][0, 0, 0, 0], arrays["w"][17, 4, 2, 1] = infinite, nan  # taps that meet the padding
    arrays["x"][0, 2, 3, 4] = infinite
    run(problem, target, default_by(problem, target, (product,)), arrays)
    found, wanted = (from_storage(y, "bf16") for y in (arrays["y"], reference(problem, arrays)))
    np.testing.assert_array_equal(found, wanted)
    assert np.isfinite(wanted[0, [0, 17]]).any()
    assert np.isnan(wanted).any()
    assert np.isinf(wanted).any()


def test_int8_of_the_whole_range_neither_saturates_nor_overflows() -> None:
    problem = problem_of("n1c2051h2w3k5r2s2pad1", precision="int8")
    arrays = arrays_of(problem)
    arrays["x"][...], arrays["w"][...] = -128, -128  # 4 * 2051 * 2^14
    arrays["w"][1], arrays["x"][0, 0, 0] = 127, 127
    target = replace(cpu_preset(ARCHS[0]), features=FEATURES)
    for product in products_of(problem, target)[-2:]:
        run(problem, target, default_by(problem, target, (product,)), arrays)
        np.testing.assert_array_equal(arrays["y"], reference(problem, arrays), err_msg=product)


def test_bf16_rounds_to_nearest_and_sums_in_fp32() -> None:
    problem = problem_of("n1c300h3w8k16r1s1", precision="bf16")
    rng, target = np.random.default_rng(0), cpu_preset(ARCHS[-1])
    arrays = arrays_of(problem)
    for name in ("x", "w"):
        bits = rng.standard_normal(arrays[name].shape).astype(np.float32).view(np.uint32) >> 16
        arrays[name][...] = bits.astype(np.uint16)
    run(problem, target, SIMD.default(problem, target), arrays)
    exact = conv_reference(problem, arrays["x"], arrays["w"])
    error = np.abs(from_storage(arrays["y"], "bf16") - exact)
    assert (error <= 2.0**-8 * np.abs(exact) + 1e-4).all()
    assert (error > 2.0**-10 * np.abs(exact)).any()  # y is no fp32


def test_the_arithmetic_of_other_cpus() -> None:
    """Products of int16 and rounding to bf16 as they are written for compilers without x86's instructions."""
    target = cpu_preset("generic")
    for precision, product in (("int8", "madd"), ("bf16", "fma")):
        problem = problem_of("n1c7h4w6k6r2s2", "nhwc", "bias", precision)
        plan, arrays = SIMD.plan(problem, target, SIMD.default(problem, target)), arrays_of(problem)
        sources = tuple(replace(s, text=s.text.replace("defined(__x86_64__)", "0")) for s in plan_sources(plan))
        run_sources(plan, sources, target.arch, arrays)
        np.testing.assert_array_equal(arrays["y"], reference(problem, arrays), err_msg=product)


MUTANTS = {
    "x's 128 forgotten": ("int8", "dot", 0, "return Word(kBiased ? -128 * sum : beyond)", "return Word(beyond)"),
    "a step skipped": ("bf16", "amx", 1, "for (int c = 0; c < RUN_WORDS;", "for (int c = TILE_WORDS; c < RUN_WORDS;"),
    "last columns misplaced": ("bf16", "amx", 1, "Q - kCutQ.least : ", "Q - 1 - kCutQ.least : "),
    "truncated": ("bf16", "fma", 1, "(bits + 0x7FFF + (bits >> 16 & 1)) >> 16", "bits >> 16"),
    "not repaired": ("bf16", "fma", 1, "if constexpr (kRepairs)", "if constexpr (false)"),
}  # fmt: skip
_DOTS = {"amx": "amx_bf16", "dot": "avx512_vnni"}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail(name: str) -> None:
    precision, product, launch, correct, broken = MUTANTS[name]
    target = target_with("x86-64-avx512", _DOTS[product]) if product in _DOTS else cpu_preset(ARCHS[-1])
    problem = problem_of("n1c13h5w9k20r3s3pad1", "nhwc", precision=precision)
    config = config_of(problem, target, product, window="copied", tile_q=5, block_c=8)
    plan, arrays = SIMD.plan(problem, target, config), arrays_of(problem)
    if name == "not repaired":
        arrays["w"][3, 0, 0, 0] = 0x7F80
    if name == "truncated":
        arrays["x"][...], arrays["w"][...] = 0x4040, 0x4040  # 3; sums of up to 1053
    sources = list(plan_sources(plan))
    assert correct in sources[launch].text
    sources[launch] = replace(sources[launch], text=sources[launch].text.replace(correct, broken))
    run_sources(plan, tuple(sources), target.arch, arrays)
    assert not np.array_equal(arrays["y"], reference(problem, arrays))


def test_products_follow_from_the_features() -> None:
    bf16, int8 = problem_of("cv9", precision="bf16"), problem_of("cv9", precision="int8")
    whole, avx2 = cpu_preset("x86-64-avx512"), cpu_preset("x86-64-avx2")
    assert products_of(bf16, whole) == ("amx", "dot", "fma")
    assert products_of(int8, whole) == ("amx", "dot", "madd")
    assert products_of(int8, replace(avx2, features=("avx_vnni",))) == ("dot", "madd")
    assert products_of(bf16, avx2) == products_of(problem_of("cv9"), whole) == ("fma",)
    assert SIMD.default(bf16, whole).to_dict()["product"] == "amx"
    assert SIMD.default(bf16, replace(whole, features=("avx512_bf16",))).to_dict()["product"] in ("dot", "fma")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"product": "madd"}, "the CPU has for the precision"),
        ({"window": "direct"}, "must be copied unless"),  # 13 channels
        ({"window": "explicit"}, "must be copied unless"),
        ({"steps": "taps"}, "AMX must step over channels"),
        ({"tile_p": 3, "vectors_k": 2, "block_p": 3}, "registers"),
    ],
    ids=str,
)
def test_rules(changes: dict[str, Any], words: str) -> None:
    problem, target = problem_of("n1c13h8w14k32r3s3", precision="bf16"), cpu_preset("x86-64-avx512")
    good = config_of(problem, target, "amx", window="copied", tile_q=6, block_c=13)
    sentences = SIMD.broken_rules(problem, target, replace(good, **changes))
    assert any(words in sentence for sentence in sentences), sentences
