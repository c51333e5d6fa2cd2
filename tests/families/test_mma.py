"""mma: rules against the kernel's static_asserts, compilation, arithmetic in the emulator, NaN and Inf."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import Changes, random_problem, run_integers
from mma_cases import TARGET, WAYS, config_of, verify
from numpy.typing import NDArray

from im2wingen.emulator import run_plan
from im2wingen.errors import CompileError
from im2wingen.families.mma import MMA
from im2wingen.families.mma_config import MmaConfig, MmaGeometry
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.render import Source, render
from im2wingen.sass import disassemble, instruction_counts
from im2wingen.target import PRESETS, preset
from im2wingen.verify_emulated import emulated_inputs

PRECISIONS = ("fp16", "bf16", "tf32")


def legal(problem: ConvProblem, count: int, seed: int) -> list[MmaConfig]:
    """Legal picks from the search space."""
    configs = itertools.islice(MMA.random_configs(problem, TARGET, seed), 5000)
    found = itertools.islice((c for c in configs if not MMA.broken_rules(problem, TARGET, c)), count)
    return [config for config in found if isinstance(config, MmaConfig)]


def convolution(problem: ConvProblem, config: MmaConfig) -> Source:
    """The text of the multiplying kernel."""
    return render(MMA.plan(problem, TARGET, config).launches[-1])


# ---- plans ----


@pytest.mark.parametrize(
    ("way", "layout", "launches"),
    [
        ("row", "nhwc", ["mma"]),  # C is in whole units: the filter is right as it is
        ("row", "nchw", ["pack_filter", "mma"]),
        ("column", "nhwc", ["pack_filter", "mma"]),
        ("run", "nhwc", ["pack_filter", "mma"]),
        ("tap", "nhwc", ["mma"]),
        ("explicit", "nhwc", ["pack_filter", "window_transform", "mma"]),
    ],
)
def test_launches(way: str, layout: str, launches: list[str]) -> None:
    problem = ConvProblem.parse("n2c8h9w11k16r3s3", layout=layout)
    plan = MMA.plan(problem, TARGET, config_of(problem, way))
    assert [launch.template for launch in plan.launches] == launches
    source, packed, *rest = plan.launches[-1].arguments
    assert source == ("window" if way == "explicit" else "x")
    assert packed == ("packed" if "pack_filter" in launches else "w")
    assert rest == ["bias", "y", "x", "w"]
    fused = {"row", "column", "run", "tap"}
    assert ("window" in plan.workspace) == (way not in fused)


def test_the_filter_is_packed_where_channels_are_padded() -> None:
    problem = ConvProblem.parse("n2c12h9w11k16r3s3")
    plan = MMA.plan(problem, TARGET, config_of(problem, "row"))
    assert plan.workspace == {"packed": 2 * 16 * 9 * 16}


# ---- rules and static_asserts ----

RULES_SHAPE = "n4c16h20w21k40r3s3"


@pytest.mark.parametrize(
    ("way", "broken", "words"),
    [
        ("row", {"warp_n": 24}, "a warp's tile is whole fragments"),
        ("row", {"block_k": 24}, "K is cut in whole units"),
        ("row", {"patch_k": 12}, "K is cut in whole units"),
        ("row", {"warps_k": 2, "block_k": 16}, "the warps of a tile take turns in a slice"),
        ("row", {"fragment_stages": 2, "num_stages": 1}, "two sets of fragments take turns"),
        ("row", {"fragment_stages": 2, "block_k": 16}, "two sets of fragments take turns"),
        ("row", {"patch_k": 8, "block_k": 32}, "chunks are cut in row order, by taps"),
        ("row", {"patch_k": 32}, "chunks are cut in row order, by taps"),  # more than the channels
        ("column", {"patch_k": 16, "block_k": 16}, "chunks are cut in row order, by taps"),
        ("tap", {"patch_k": 8, "block_k": 8}, "K is cut in whole units|only the window is cut in chunks"),
        ("explicit", {"patch_k": 16, "block_k": 16}, "only the window is cut in chunks|chunks are cut in row order"),
    ],
    ids=str,
)
def test_what_would_be_undefined_behaviour_does_not_compile(way: str, broken: dict[str, Any], words: str) -> None:
    problem = ConvProblem.parse(RULES_SHAPE)
    config = replace(config_of(problem, way), **broken)
    assert MMA.broken_rules(problem, TARGET, config)
    with pytest.raises(CompileError, match=words):
        compile_ptx(convolution(problem, config), "sm_80")


def test_filters_beyond_32_bit_offsets_do_not_compile() -> None:
    problem = ConvProblem.parse("n1c8192h32w32k256r32s32")  # 2^23 elements a filter
    config = replace(config_of(problem, "tap"), warps_n=2, warp_n=128)
    assert "the filters of a CTA have fewer than 2^31 elements" in MMA.broken_rules(problem, TARGET, config)
    with pytest.raises(CompileError, match="offsets within the CTA's filters are 32-bit"):
        compile_ptx(convolution(problem, config), "sm_80")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        # x is small, but a tap lies 2^32 elements below the top of the padding
        ("n1c16384h1w8k16r2s1pad32768,0,0,0dil32768x1", "one image, with its padding, has 2^31 elements or more"),
        ("n1c16384h64w64k16r64s64", "one filter has 2^26 elements or more"),
    ],
)
def test_what_32_bit_offsets_cannot_reach_is_not_supported(shape: str, words: str) -> None:
    assert MMA.unsupported(ConvProblem.parse(shape), TARGET) == words


@pytest.mark.parametrize(
    ("shape", "layout", "words"),
    [
        ("n4c16h20w21k40r3s3", "nchw", "a run is contiguous in x"),
        ("n4c16h20w21k40r3s3dil1x2", "nhwc", "a run is contiguous in x"),
        ("n4c3h20w21k40r3s3", "nhwc", "a pixel of a run begins at a 4-byte word"),
    ],
)
def test_a_run_that_is_none_does_not_compile(shape: str, layout: str, words: str) -> None:
    problem = ConvProblem.parse(shape, layout=layout)
    config = replace(config_of(problem, "column"), window_order="run")
    config = replace(config, patch_k=MmaGeometry(problem=problem, config=config).channels)
    assert MMA.broken_rules(problem, TARGET, config)
    with pytest.raises(CompileError, match=words):
        compile_ptx(convolution(problem, config), "sm_80")


@pytest.mark.parametrize(
    ("shape", "way", "broken", "words"),
    [
        ("n1c3h8w8k16r3s3", "row", {"copy_bytes": 16}, "a copy stays in its pixel"),
        ("n1c3h8w8k16r3s3", "column", {"copy_bytes": 4}, "a copy stays in its pixel"),
        ("n1c3h9w9k16r3s3st2", "run", {"copy_bytes": 8}, "a run is whole copies"),
        ("n1c3h9w9k16r3s3st2", "run", {"copy_bytes": 4}, "a run is whole copies"),  # rows of 27 elements
        ("n1c3h8w8k16r3s3", "tap", {"window_order": "column"}, "tap is in row, explicit in column order"),
        ("n1c3h8w8k16r3s3", "explicit", {"window_order": "row"}, "tap is in row, explicit in column order"),
    ],
)
def test_a_copy_or_an_order_that_does_not_fit_does_not_compile(
    shape: str, way: str, broken: dict[str, Any], words: str
) -> None:
    problem = ConvProblem.parse(shape)
    config = replace(config_of(problem, way), **broken)
    config = replace(config, patch_k=MmaGeometry(problem=problem, config=config).channels)
    assert MMA.broken_rules(problem, TARGET, config)
    with pytest.raises(CompileError, match=words):
        compile_ptx(convolution(problem, config), "sm_80")


# ---- compilation ----

COMPILED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "row": ("cv8", "row", {"tile": (1, 8, 16), "patch_k": 32, "steps": 2}),
    "column": ("cv1", "column", {"tile": (1, 8, 14), "warps_k": 1}),
    "run": ("cv1", "run", {"tile": (1, 8, 14), "ctas_per_sm": 1}),
    "tap": ("cv12", "tap", {"tile": (4, 5, 5), "num_stages": 3}),
    "explicit": ("cv5", "explicit", {"tile": (1, 5, 20), "num_stages": 3, "steps": 2}),
}


@pytest.mark.parametrize("arch", PRESETS)
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_for_every_arch_without_spills(name: str, arch: str) -> None:
    shape, way, changes = COMPILED[name]
    # the archs differ, so one precision each is enough; every precision meets every staging
    precision = PRECISIONS[(list(COMPILED).index(name) + list(PRESETS).index(arch)) % 3]
    problem = ConvProblem.parse(shape, precision=precision, epilogue="bias_relu")
    patch_k = {"patch_k": changes["patch_k"] // 2} if precision == "tf32" and "patch_k" in changes else {}
    config = config_of(problem, way, **{"warps_n": 2, "warp_n": 32, "fragment_stages": 2} | changes | patch_k)
    cubin = compile_cubin(convolution(problem, config), arch)
    assert cubin.spill_bytes == 0
    assert cubin.num_regs <= min(255, PRESETS[arch].regs_per_sm // (config.ctas_per_sm * config.threads))
    assert cubin.smem_bytes <= 1024  # all else is dynamic
    if arch in ("sm_80", "sm_90a"):
        counts = instruction_counts(cubin)
        # every step of a slice is unrolled; a tf32 step takes two HMMA.1688 or one HMMA.16816.TF32
        steps = config.block_k // (32 // problem.element_bytes)
        assert counts["HMMA"] >= steps * config.warp_m // 16 * config.warp_n // 8
        assert counts["LDSM"] > 0
        assert counts["LDGSTS"] > 0
        assert "LDL" not in counts
        assert "STL" not in counts


def test_an_early_launch_waits_before_it_reads() -> None:
    problem = ConvProblem.parse("cv9")
    config = config_of(problem, "row", programmatic_launch=True)
    listing = disassemble(compile_cubin(convolution(problem, config), "sm_90a"))
    assert "PREEXIT" in listing  # griddepcontrol.launch_dependents
    before, wait, after = listing.partition("ACQBULK")  # griddepcontrol.wait
    assert wait
    assert "LDGSTS" not in before
    assert "LDGSTS" in after
    plan = MMA.plan(problem, preset("sm_90a"), config)
    assert plan.launches[-1].programmatic
    assert MMA.broken_rules(problem, preset("sm_80"), config) == ["programmatic_launch needs sm_90 or later"]


# ---- arithmetic ----


@dataclass(frozen=True)
class Combination:
    """One row of the pairwise table."""

    way: str
    precision: str
    x_layout: str
    w_layout: str
    y_layout: str
    epilogue: str

    def pairs(self) -> set[tuple[str, str]]:
        values = [f"{name}={value}" for name, value in vars(self).items()]
        return set(itertools.combinations(values, 2))


def _pairwise() -> list[Combination]:
    """Few combinations in which every two values of two fields meet (run order needs NHWC input)."""
    layouts = ("nhwc", "nchw")
    every = itertools.product(WAYS, PRECISIONS, layouts, ("krsc", "kcrs"), layouts, ("none", "bias", "bias_relu"))
    pool = [c for c in (Combination(*values) for values in every) if c.way != "run" or c.x_layout == "nhwc"]
    missing = set().union(*(c.pairs() for c in pool))
    chosen = []
    while missing:
        best = max(pool, key=lambda c: len(c.pairs() & missing))
        chosen.append(best)
        missing -= best.pairs()
    return chosen


@pytest.mark.parametrize("combination", _pairwise(), ids=lambda c: "-".join(vars(c).values()))
def test_every_pair_of_choices(combination: Combination) -> None:
    # stride 2; P = 4, Q = 7, N = 3, K = 33: none a multiple of the tile; pads of three sides; C in no unit
    shape = ConvProblem.parse("n3c5h9w13k33r3s3st2pad1,0,2,1")
    fields = {name: value for name, value in vars(combination).items() if name != "way"}
    problem = replace(shape, **fields)
    verify(problem, config_of(problem, combination.way, tile=(2, 3, 4), warps_n=2), seeds=(0, 3))


@dataclass(frozen=True)
class Case:
    shape: str
    way: str
    config: dict[str, Any] = field(default_factory=dict)
    precision: str = "fp16"
    layout: str = "nhwc"
    epilogue: str = "none"
    seeds: tuple[int, ...] = (1,)


CASES = {
    # ---- extents ----
    # one of everything: all tail
    "one pixel, row": Case("n1c1h1w1k1r1s1", "row", {"warps_m": 1}),
    "one pixel, run": Case("n1c2h1w1k1r1s1", "run", {"warps_m": 1}),
    "one pixel, explicit": Case("n1c1h1w1k1r1s1", "explicit", {"warps_m": 1}, "tf32"),
    # Q = 1: W = S; a row of outputs is one pixel
    "Q = 1": Case("n5c8h9w3k8r3s3", "row", {"tile": (2, 7, 1)}, layout="nhwc-nchw"),
    "Q = 1, column": Case("n5c3h9w3k5r3s3", "column", {"tile": (3, 4, 1)}),
    # P = 1: H = R
    "P = 1": Case("n3c4h3w9k33r3s2", "run", {"tile": (2, 1, 5), "warps_n": 2}, epilogue="bias"),
    # the filter is larger than the image: whole taps lie in the padding
    "filter beyond the image": Case("n1c8h2w3k16r5s5pad2", "row", {}),
    "filter beyond the image, column": Case("n1c3h2w3k16r5s5pad2", "column", {}, "bf16"),
    "filter beyond the image, run": Case("n1c4h2w3k16r5s5pad2", "run", {}, "bf16"),
    "filter beyond the image, explicit": Case("n1c3h2w3k16r5s5pad2", "explicit", {}, "bf16"),
    "filter beyond the image, tap": Case("n1c3h2w3k16r5s5pad2", "tap", {}, "tf32"),
    # images in a tile: 7 images in tiles of 3
    "batch in no tile": Case("n7c8h5w5k16r3s3", "row", {"tile": (3, 3, 3)}, "bf16", "nchw"),
    "batch in no tile, tap": Case("n7c8h5w5k16r3s3", "tap", {"tile": (3, 3, 3)}, "bf16", "nhwc-nchw"),
    "batch in no tile, explicit": Case("n5c3h5w5k16r3s3", "explicit", {"tile": (2, 3, 3)}),
    # ---- channels ----
    # C = 1 and 3: copies of 2 bytes through registers
    "C = 1": Case("n2c1h9w10k5r3s3pad1", "column", {}, epilogue="bias_relu"),
    "C = 1, tf32": Case("n2c1h9w10k5r3s3pad1", "run", {}, "tf32"),
    "C = 3": Case("n2c3h9w10k5r3s4", "row", {}, "bf16", "nhwc-nchw"),
    "C = 3, tap": Case("n2c3h9w10k5r3s4", "tap", {}, "bf16"),
    # a run of S*C = 9 elements is padded to a word; rows of 2-byte copies (W*C odd) and of words
    "odd run, odd row": Case("n2c3h9w11k5r3s3st1x2pad1", "run", {}),
    "odd run, even row": Case("n2c3h9w12k5r3s3st1x2", "run", {"warps_k": 2, "steps": 2}, "bf16"),
    # C = 17 in 24 padded channels; block_k reaches over taps
    "C = 17": Case("n1c17h7w9k33r3s2", "row", {"warps_n": 2}, "bf16", "nchw"),
    "C = 17, tap": Case("n1c17h7w9k20r3s2", "tap", {}, "tf32"),
    # an odd number of units in a tap: the two halves of a step lie in different taps
    "half a step in the next tap": Case("n1c8h7w9k20r3s3", "row", {"steps": 2}),
    # C = 40 in chunks of 16: the last is half a chunk; patches take turns
    "three chunks": Case("n1c40h7w9k20r2s2", "row", {"patch_k": 16, "steps": 1, "num_stages": 3, "warps_n": 2}),
    # few slices in a chunk and many stages: three patch buffers
    "many patch buffers": Case("n1c72h6w7k16r1s1", "row", {"patch_k": 16, "steps": 1, "num_stages": 5}, "bf16"),
    "chunks, channels first": Case("n1c40h7w9k20r2s2pad1", "row", {"patch_k": 16, "steps": 1, "num_stages": 4},
                                   "bf16", "nchw"),
    # C = 130: two channels in the last chunk, 4-byte copies
    "C = 130": Case("n1c130h5w6k17r2s2", "row", {"patch_k": 64, "steps": 2, "copy_bytes": 4, "num_stages": 3}),
    "C = 130, tap": Case("n1c130h5w6k17r2s2", "tap", {"steps": 4, "num_stages": 3}),
    "C = 40, 8-byte copies": Case("n1c40h7w9k16r3s3pad1", "row", {"copy_bytes": 8}, "tf32"),
    # K = 1 and 5: stores of single elements; K = 33 in tiles of 32
    "K = 1": Case("n1c16h6w7k1r3s3", "tap", {}, epilogue="bias"),
    "K = 33": Case("n1c16h6w7k33r3s3", "row", {"warp_n": 32}, epilogue="bias"),
    # ---- stride, dilation, pads ----
    "stride 3": Case("n1c8h14w17k16r3s3st3", "row", {"tile": (1, 2, 3)}, layout="nhwc-nchw"),
    # stride 4 and S = 3: a phase without a tap; the last columns of a row are never read
    "stride 4": Case("n1c8h17w18k16r5s3st4", "row", {"tile": (1, 2, 2)}, "bf16", "nchw"),
    "stride 4, column": Case("n1c3h23w27k5r11s11st4", "column", {"tile": (1, 2, 3), "steps": 2, "num_stages": 3}),
    "stride 4, run": Case("n1c3h23w27k5r11s11st4", "run", {"tile": (1, 2, 3), "steps": 2, "num_stages": 3}),
    "stride 4, explicit": Case("n1c3h15w19k5r7s7st4", "explicit", {"tile": (1, 2, 3)}, "bf16"),
    "stride above the filter": Case("n1c8h13w13k16r1s2st4", "tap", {}),
    "dilation": Case("n1c8h12w16k16r3s3pad1,0,2,3dil2x3", "row", {}, "bf16"),
    # dilation and stride share a factor: all taps in one phase
    "dilation and stride": Case("n1c8h12w17k16r3s3st2dil2", "row", {"tile": (1, 2, 4)}, "tf32"),
    # rows that no output of the tile needs, between those that it does
    "dilation, column": Case("n1c3h15w13k16r3s3st2x1pad2,1,0,1dil3x2", "column", {}, epilogue="bias"),
    "dilation of rows, run": Case("n1c4h12w9k16r3s3st1x2pad1,2,0,1dil3x1", "run", {}),
    "dilation, tap": Case("n1c8h12w16k16r3s3st2pad1,0,2,3dil2x3", "tap", {}, layout="nchw"),
    "dilation, explicit": Case("n1c5h12w16k16r3s2st1x3pad0,3,1,2dil2x3", "explicit", {}, "tf32"),
    # ---- pipeline ----
    **{f"{stages} stages, {way}": Case("n2c24h6w9k16r3s3", way, {"num_stages": stages, "steps": 1},
                                       ("fp16", "bf16")[stages % 2], seeds=(0, 1, 2))
       for stages in (1, 2, 3, 4, 5) for way in (("row", "tap") if stages % 2 else ("column", "explicit", "run"))},
    **{f"two sets of fragments, {way}": Case("n2c24h6w9k16r3s3pad1", way, {"fragment_stages": 2, "num_stages": 3},
                                            seeds=(0, 4)) for way in WAYS},
    # warps that share a tile, with and without a second set of fragments
    **{f"two warps a tile, {way}": Case("n1c24h6w9k16r3s3", way, {"warps_k": 2, "steps": 4, "fragment_stages": 2},
                                       "bf16", seeds=(0, 5)) for way in WAYS},
    "four warps a tile": Case("n1c24h6w9k20r3s3", "row", {"warps_k": 4, "steps": 4, "warps_n": 2, "num_stages": 1}),
    # fewer slices than stages
    "fewer slices than stages": Case("n1c8h6w9k16r1s1", "row", {"num_stages": 2, "steps": 4}),
    # ---- layout in shared memory, orders ----
    "padded rows": Case("n2c16h9w9k16r3s3st2x1", "row", {"pad_rows": True, "tile": (2, 3, 3)}, seeds=(0,)),
    "padded rows, column": Case("n2c3h9w9k16r3s3", "column", {"pad_rows": True, "tile": (2, 3, 3)}),
    "padded rows, chunks": Case("n2c32h7w7k16r3s3", "row", {"pad_rows": True, "tile": (2, 3, 3), "patch_k": 16,
                                                           "steps": 1}, "bf16", "nchw"),
    "zig-zag": Case("n2c16h9w9k40r3s3", "row", {"tile_order": "zigzag", "fragment_order": "zigzag", "tile": (1, 7, 7),
                                               "warps_m": 1, "warp_n": 32}),
    # four chunks; the last share of a patch is smaller than the others
    "spread copies": Case(
        "n2c64h7w7k24r3s3pad1", "row", {"spread_copies": True, "patch_k": 16, "steps": 1, "num_stages": 3}, seeds=(0, 2)
    ),
    "spread copies, warps share a tile": Case(
        "n2c64h9w7k24r3s3st2", "row", {"spread_copies": True, "patch_k": 32, "warps_k": 2, "steps": 2}, "bf16",
        "nhwc-nchw",
    ),
    "launched early": Case("n2c16h9w9k24r3s3", "row", {"programmatic_launch": True}, layout="nchw"),
    "zig-zag of many tiles": Case("n3c8h9w9k70r3s3pad1", "tap", {"tile_order": "zigzag"}, epilogue="bias_relu"),
    # many warps both ways; whole vectors of NCHW outputs (Q and tile_q multiples of a unit)
    "eight warps": Case("n1c16h10w18k64r3s3", "row", {"warps_m": 4, "warps_n": 2, "warp_n": 32, "tile": (1, 8, 16)},
                        layout="nhwc-nchw"),
    "wide warps": Case("n1c16h6w9k100r1s1", "tap", {"warp_n": 96}, "tf32"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    case = CASES[name]
    problem = ConvProblem.parse(case.shape, precision=case.precision, layout=case.layout, epilogue=case.epilogue)
    verify(problem, config_of(problem, case.way, **case.config), seeds=case.seeds)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("shape", ["n3c3h14w14k20r5s5st2", "n2c40h9w9k70r3s3pad1", "n9c16h3w3k16r3s3pad1"])
def test_the_default_is_right(shape: str, layout: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout, epilogue="bias")
    config = MMA.default(problem, TARGET)
    assert isinstance(config, MmaConfig)
    verify(problem, config)


@pytest.mark.parametrize("way", WAYS)
def test_no_byte_is_touched_that_is_not_ours(way: str) -> None:
    # under the address and undefined-behaviour sanitizers; every extent ends inside a tile, C inside a unit
    problem = ConvProblem.parse("n2c3h6w7k5r3s3st1x2pad1", layout="nhwc-nchw", epilogue="bias")
    verify(problem, config_of(problem, way, warps_m=1, tile=(1, 3, 3), steps=1), sanitize=True)


def _random_verified(seed: int) -> None:
    problem = random_problem(
        np.random.default_rng(seed), precisions=PRECISIONS, largest_filter=5, largest_stride=4,
        c=(1, 2, 3, 4, 5, 8, 17, 24, 40, 72), k=(1, 5, 16, 33, 64),
    )  # fmt: skip
    for config in legal(problem, 1, seed):
        verify(problem, config, seeds=(seed,))


@pytest.mark.parametrize("seed", range(24))
def test_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


# ---- NaN and Inf ----


def run_changed(problem: ConvProblem, config: MmaConfig, changes: Changes) -> tuple[NDArray[Any], NDArray[Any]]:
    return run_integers(problem, MMA.plan(problem, TARGET, config), changes)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("way", WAYS)
def test_padding_is_skipped_not_multiplied(way: str, precision: str) -> None:
    # w (K, R, S, C): taps that meet the padding at the upper left and at the lower right
    problem = ConvProblem.parse("n2c4h5w6k9r3s3pad1", precision=precision, epilogue="bias_relu")
    weights = {(0, 0, 0, 0): np.inf, (5, 2, 2, 3): np.nan, (8, 1, 0, 1): -np.inf}
    found, wanted = run_changed(problem, config_of(problem, way, tile=(1, 3, 4)), {"w": weights})
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("epilogue", ["none", "bias_relu"])
@pytest.mark.parametrize("shape", ["n2c3h8w9k5r3s3st1x2", "n2c3h8w9k5r3s3st1x2pad1,0,2,0", "n2c10h5w6k5r2s2"])
@pytest.mark.parametrize("way", WAYS)
def test_a_nan_reaches_the_outputs_whose_window_holds_it(way: str, shape: str, epilogue: str) -> None:
    problem = ConvProblem.parse(shape, precision="bf16", epilogue=epilogue)
    # first and last element of the image, and one inside
    places = {(0, 0, 0, 0): np.nan, (1, -1, -1, -1): np.inf, (1, 2, 3, 1): -np.inf}
    found, wanted = run_changed(problem, config_of(problem, way), {"x": places})
    assert np.isnan(wanted).any()
    assert np.isfinite(wanted).any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("way", WAYS)
def test_unwritten_memory_never_meets_a_zero(way: str) -> None:
    # tails of the K axis, of tiles and of stages: emulated memory is NaN until it is written
    problem = ConvProblem.parse("n1c3h7w8k9r3s3st1x2", epilogue="none")
    config = config_of(problem, way)
    plan = MMA.plan(problem, TARGET, config)
    arrays = emulated_inputs(problem, "integer", 0)
    y = np.zeros(problem.y_shape, np.float16)
    run_plan(plan, {**arrays, "y": y}, poison="nan")
    np.testing.assert_array_equal(y, conv_reference(problem, arrays["x"], arrays["w"]))


def test_a_fp16_sum_beyond_its_range_is_inf() -> None:
    problem = ConvProblem.parse("n1c16h3w3k8r3s3pad1")
    places: Iterator[tuple[int, ...]] = itertools.product((0,), range(3), range(3), range(16))
    found, wanted = run_changed(problem, config_of(problem, "row"), {"x": dict.fromkeys(places, 60000.0)})
    assert np.isinf(wanted).any()
    np.testing.assert_array_equal(found, wanted)
