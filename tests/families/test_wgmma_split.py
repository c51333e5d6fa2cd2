"""wgmma, fp32 by split operands: plans, rules, arithmetic in the emulator, magnitudes, NaN and Inf, machine code."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import random_problem
from mutants import mutate
from numpy.typing import NDArray
from wgmma_cases import NO_SPLIT_REPAIR, TARGET, TWO_SMS, config_of, run_changed, verify

from im2wingen.emulator import run_plan
from im2wingen.errors import CompileError
from im2wingen.families.base import TensorMap
from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_space import shapes
from im2wingen.nvrtc import compile_cubin, compile_ptx
from im2wingen.problem import ConvProblem, FilterLayout
from im2wingen.reference import conv_reference
from im2wingen.render import plan_sources, render
from im2wingen.sass import instruction_counts
from im2wingen.verify_emulated import verify_emulated

Numbers = NDArray[np.float32]


def parse(shape: str, *, epilogue: str = "none", layout: str = "nhwc") -> ConvProblem:
    return ConvProblem.parse(shape, precision="fp32", epilogue=epilogue, layout=layout)


LANDED: dict[str, Any] = {"input_staging": "transposed"}


# ---- plans ----


def test_the_filter_is_split_into_rows_of_halves() -> None:
    problem = parse("n3c40h9w11k72r3s3")
    plan = WGMMA.plan(problem, TARGET, config_of(problem, tile=(2, 3, 5), l2_promotion_bytes=256))
    split, multiply = plan.launches
    assert (split.template, split.grid, split.arguments) == ("split_filter", (72, 1, 1), ("w", "packed"))
    assert plan.workspace == {"packed": 2 * 9 * 72 * 128 + 72 * 4}  # two chunks of 32 channels
    x, w, *rest = multiply.arguments
    assert rest == ["packed", "bias", "y", "x", "w"]
    assert x == (
        TensorMap(
            array="x", element="fp32", dims=(40, 3, 11, 9), strides_bytes=(9 * 11 * 160, 160, 11 * 160),
            box=(32, 2, 7, 5), swizzle_bytes=128, l2_promotion_bytes=256,
        ),
    )  # fmt: skip
    assert w == (
        TensorMap(
            array="packed", element="fp16", dims=(64, 72, 18), strides_bytes=(128, 72 * 128), box=(64, 64, 1),
            swizzle_bytes=128, l2_promotion_bytes=256,
        ),
    )  # fmt: skip


def test_an_nchw_x_is_turned_beside_the_filter() -> None:
    problem = parse("n1c6h9w11k40r3s3", layout="nchw")
    plan = WGMMA.plan(problem, TARGET, config_of(problem))
    assert [(launch.template, launch.beside) for launch in plan.launches] == [
        ("split_filter", False), ("channels_last", True), ("wgmma_split", False)
    ]  # fmt: skip
    assert plan.workspace["channels_last"] == 9 * 11 * 8 * 4  # C = 6 in whole units of 4


def test_x_is_loaded_while_the_filter_is_split_if_no_kernel_of_the_plan_writes_it() -> None:
    for layout, changes, early in (("nhwc", {}, True), ("nchw", LANDED, True), ("nchw", {}, False)):
        problem = parse("n1c8h9w12k40r3s3", layout=layout)
        multiply = WGMMA.plan(problem, TARGET, config_of(problem, programmatic_launch=True, **changes)).launches[-1]
        assert (multiply.beside, multiply.programmatic) == (early, not early)


def test_the_products_are_three() -> None:
    problem = parse("n1c40h9w11k64r3s3")
    config = config_of(problem, tile=(1, 7, 8))
    # 40 channels are 3 steps of 16
    flops = 2 * 64 * WgmmaGeometry(problem=problem, config=config).wgmma_n * 7 * 2 * 9 * 3 * 16 * 3
    assert WGMMA.plan(problem, TARGET, config).launches[-1].flops == flops


# ---- rules ----

TWO: dict[str, Any] = {"num_consumer_warpgroups": 2}
RULE_CASES: list[tuple[str, dict[str, Any], dict[str, Any], str | None]] = [
    ("arithmetic is split for fp32", {}, {"arithmetic": "direct"}, None),
    ("promotion_taps is at most 4", {"promotion_taps": 4, "filter_stages": 5}, {"promotion_taps": 5}, None),
    ("patch_stages is", {"promotion_taps": 4, "filter_stages": 4}, {"filter_stages": 3}, "are there together"),
    ("split arithmetic takes", {}, {"block_k": 16}, "rows of 32 channels"),
    ("split arithmetic takes", TWO | {"filter_resident": True}, {"split": "tiles"}, "consumers of one tile"),
    ("store_groups of split", {"tile": (1, 2, 16)}, {"store_groups": 1}, None),
    ("repeated mapping is", {}, {"mapping": "repeated"}, "who transposes may repeat columns"),
    ("staggered is", TWO | {"staggered": True}, {"num_consumer_warpgroups": 1}, "two consumers are apart"),
    ("split arithmetic has no clusters", {}, {"cluster_k": 2}, None),
    ("split arithmetic has no clusters", {}, {"staging_over_buffers": True}, "x lands where"),
    # 104 accumulators in two subtiles, and as many partial sums
    ("the accumulators fit", {"tile": (1, 2, 96)}, {"tile_q": 128, "store_groups": 16}, None),
]


@pytest.mark.parametrize(("sentence", "legal", "broken", "words"), RULE_CASES, ids=str)
def test_a_rule_breaks(sentence: str, legal: dict[str, Any], broken: dict[str, Any], words: str | None) -> None:
    problem = parse("n4c72h9w140k40r3s3")
    config = replace(config_of(problem, **legal), **broken)
    assert any(found.startswith(sentence) for found in WGMMA.broken_rules(problem, TARGET, config))
    if words is not None:
        with pytest.raises(CompileError, match=words):
            compile_ptx(render(WGMMA.plan(problem, TARGET, config).launches[-1]), "sm_90a")


def test_a_partial_sum_is_of_one_patch() -> None:
    problem = parse("n1c8h9w9k8r2s2st2")  # a tap a plane
    config = config_of(problem)
    assert WGMMA.broken_rules(problem, TARGET, replace(config, promotion_taps=2)) == [
        "promotion_taps is at most 4 and the taps of a plane in split arithmetic, 1 in direct"
    ]
    x_layout = replace(problem, x_layout="nchw")
    assert WGMMA.broken_rules(x_layout, TARGET, replace(config, input_staging="transposed")) == [
        "split arithmetic transposes an x where W is a multiple of 4 (16 bytes, the step of TMA's strides) "
        "or, of stride_w 1, H*W or, for tiles of whole images, C; and tile_n is 1, 2, 4 or a multiple of 8"
    ]


# ---- arithmetic ----


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any] = field(default_factory=dict)
    epilogue: str = "none"
    w_layout: FilterLayout = "krsc"
    seeds: tuple[int, ...] = (1,)
    layout: str = "nhwc"


FILTERS: dict[str, Any] = TWO | {"split": "filters"}
BLOCK: dict[str, Any] = {"mapping": "block"}

CASES = {
    # one of everything but channels: all tail; C = 4 is a quarter of a step, K = 1
    "one pixel": Case("n1c4h1w1k1r1s1", {"patch_stages": 1}),
    # N, P, Q and K end inside tiles; C = 40 ends inside a step; 9 taps in sums of 4, 4 and 1
    "no multiple": Case(
        "n3c40h9w11k70r3s3", {"tile": (2, 2, 5), "promotion_taps": 4, "filter_stages": 5}, "bias", seeds=(0, 1, 2)
    ),
    # C = 52 ends in the second step of a chunk; pixels between joined rows, the last ones beyond the patch
    "joined rows": Case(
        "n2c52h8w9k16r3s3pad1", {"tile": (1, 4, 7), "joined_rows": 2, "promotion_taps": 3}, seeds=(0, 2)
    ),
    # the run of an odd patch ends beyond shared memory's last patch
    "joined rows of images": Case("n4c16h8w9k16r3s3", {"tile": (3, 3, 4), "joined_rows": 3, "patch_stages": 1}),
    "block": Case(
        "n2c36h9w13k72r3s3", BLOCK | {"tile": (1, 3, 16), "promotion_taps": 3, "tile_order": "zigzag"}, "bias_relu"
    ),
    # two consumers, and as few stages as a sum has taps; the second consumer of the last tile has no channels
    "filters": Case("n2c40h6w9k136r3s3", FILTERS | {"promotion_taps": 3}, seeds=(0, 1, 2)),
    "filters of three": Case("n1c40h6w9k136r2s2", FILTERS | {"num_consumer_warpgroups": 3, "promotion_taps": 2}),
    # K = 192 in tiles of 128, K = 256 in tiles of 192: whole consumers of the last tile have no channels
    "filters, K in no tile": Case("n1c8h5w6k192r2s2", FILTERS | {"promotion_taps": 2}, "bias"),
    "filters of three, K in no tile": Case(
        "n3c8h4w7k256r2s2", FILTERS | {"num_consumer_warpgroups": 3, "tile": (2, 2, 5)}, layout="nhwc-nchw"
    ),
    "filters, resident": Case(
        "n2c40h6w9k72r2s3", FILTERS | {"filter_resident": True, "promotion_taps": 4, "staggered": True}, "bias"
    ),
    "pixels": Case("n2c72h7w9k40r3s3", TWO | {"promotion_taps": 2, "programmatic_launch": True}, seeds=(0, 1, 2)),
    # planes of 4 and 2 taps: a whole sum, or two of a tap each
    "stride 2": Case("n2c40h10w12k16r3s4st2pad1,0,2,1", {"promotion_taps": 4, "filter_stages": 4}, seeds=(0, 1)),
    "stride and dilation": Case("n1c8h15w17k16r4s4st3dil2", BLOCK | TWO | {"tile": (1, 2, 16), "patch_stages": 3}),
    # one patch stage and several tiles: each round of it is landed, split, read and freed
    "one patch stage": Case("n5c8h6w9k16r2s2", {"patch_stages": 1, "promotion_taps": 3}, seeds=(0, 1, 2)),
    "KCRS": Case("n1c40h6w9k40r3s3pad1", {"promotion_taps": 3}, w_layout="kcrs"),
    # C = 3 in a unit of 4; y by channel, K = 5
    "NCHW": Case("n3c3h7w9k5r3s3pad1,0,0,2", {"tile": (2, 2, 5)}, "bias", layout="nchw"),
    "NCHW out": Case("n2c36h7w13k70r3s3", FILTERS | BLOCK | {"promotion_taps": 3}, layout="nhwc-nchw"),
    # two images that end inside groups of 8; K ends inside a warp's channels; both consumers at one filter, apart
    "NCHW out, staged": Case(
        "n3c36h7w12k69r3s3", TWO | {"tile": (2, 4, 10), "joined_rows": 2, "store_groups": 4, "staggered": True}, "bias",
        layout="nhwc-nchw", seeds=(0, 1, 2),
    ),
    # rectangles in front of the image and behind it, each 20 columns for 18; a second warpgroup splits
    "rectangles": Case(
        "n2c40h7w20k136r3s3pad1", LANDED | FILTERS | BLOCK | {"tile": (1, 3, 16), "num_producer_warpgroups": 2},
        layout="nchw", seeds=(0, 1, 2),
    ),
    # a plane of rows each; N and C end inside a box; eight images
    "rectangles of a stride": Case(
        "n9c36h10w12k7r3s3st2x1", LANDED | {"tile": (8, 2, 5), "patch_stages": 3}, layout="nchw"
    ),
    # two columns' planes land together, for two patches each; the image begins after three of padding
    "rectangles of planes": Case(
        "n2c40h11w20k70r5s7st2pad3",
        LANDED | BLOCK | TWO | {"tile": (1, 2, 16), "num_producer_warpgroups": 2, "promotion_taps": 3},
        "bias", layout="nchw", seeds=(0, 2),
    ),
    # 4 rows of 14 are 56 numbers; 5 of the last box lie below the image
    "strips": Case(
        "n3c36h10w14k72r3s3", LANDED | {"tile": (2, 3, 12), "store_groups": 3}, "bias_relu",
        layout="nchw", seeds=(0, 1, 2),
    ),
    # boxes that begin two columns before their tiles; rows of y that begin anywhere in a sector
    "whole sectors": Case(
        "n2c8h7w36k70r3s3", LANDED | TWO | {"tile": (1, 4, 18), "joined_rows": 2}, "bias", layout="nchw", seeds=(0, 2)
    ),
    "whole sectors of blocks": Case("n2c8h6w31k70r2s2", BLOCK | {"tile": (1, 3, 24)}, layout="nhwc-nchw"),
    # planes of 16 numbers are copied, of 8 channels, of 5, of one image; one row of the tile is beyond y
    "bulk, planes": Case(
        "n3c8h6w6k13r3s3", LANDED | TWO | {"tile": (2, 10, 4), "joined_rows": 5, "store_groups": 1}, layout="nchw"
    ),
    # rows of 12 are copied, two of a channel at a time, one at the end; they are staged where x landed
    "bulk, rows": Case(
        "n3c36h8w14k69r2s3",
        LANDED | TWO | {"tile": (2, 4, 12), "joined_rows": 2, "store_groups": 1, "staging_over_buffers": True},
        "bias", layout="nchw", seeds=(0, 2),
    ),
    # planes of 3 taps a row and of 2; groups of 8 that hold the ends of 15 pixels
    "repeated, of a stride": Case(
        "n3c8h14w24k16r5s5st2pad2", LANDED | {"mapping": "repeated", "tile": (2, 3, 5), "joined_rows": 3}, layout="nchw"
    ),
    # 49 pixels are no whole units: four channels are
    "images": Case(
        "n5c36h7w7k140r3s3",
        LANDED | FILTERS | {"tile": (4, 5, 5), "joined_rows": 5, "store_groups": 8, "staggered": True},
        layout="nchw", seeds=(0, 1, 2),
    ),
}  # fmt: skip


@pytest.fixture
def unrepaired(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "wgmma_split", [NO_SPLIT_REPAIR])


@pytest.mark.usefixtures("unrepaired")
@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    case = CASES[name]
    problem = replace(parse(case.shape, epilogue=case.epilogue, layout=case.layout), w_layout=case.w_layout)
    verify(problem, config_of(problem, **case.config), seeds=case.seeds)


def test_no_byte_is_touched_that_is_not_ours() -> None:
    problem = parse("n2c20h6w7k9r3s3st1x2pad1", epilogue="bias")
    verify(problem, config_of(problem, **TWO, promotion_taps=2), sanitize=True)


def _random_verified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems = (
        random_problem(
            rng, precisions=("fp32",), largest_filter=4, largest_stride=3, c=(3, 8, 20, 40, 72), k=(5, 64, 72, 136)
        )
        for _ in itertools.count()
    )
    problem = next(problem for problem in problems if WGMMA.unsupported(problem, TWO_SMS) is None)
    config = next(WGMMA.random_configs(problem, TWO_SMS, seed))
    assert WGMMA.broken_rules(problem, TWO_SMS, config) == []
    verify(problem, config, seeds=(seed,))


@pytest.mark.usefixtures("unrepaired")
@pytest.mark.parametrize("seed", range(3))
def test_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


@pytest.mark.slow
@pytest.mark.usefixtures("unrepaired")
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


# ---- magnitudes ----


def chained(problem: ConvProblem, x: Numbers, w: Numbers) -> Numbers:
    """What a chain of fp32 FMAs makes of a problem without pads, strides and dilation."""
    acc = np.zeros(problem.y_shape, np.float32)
    for r, s, c in itertools.product(range(problem.r), range(problem.s), range(problem.c)):
        window = x[:, r : r + problem.p, s : s + problem.q, c, None].astype(np.float64)
        acc = (acc + window * w[None, None, None, :, r, s, c].astype(np.float64)).astype(np.float32)
    return acc


def norm_error(y: Numbers, wanted: NDArray[np.float64]) -> float:
    """The largest of all output channels (NHWC) that are not zero."""
    scale = np.abs(wanted).max(axis=(0, 1, 2)) + np.finfo(np.float64).tiny  # so that no square overflows
    norms = np.linalg.norm((wanted / scale).reshape(-1, len(scale)), axis=0)
    errors = np.linalg.norm(((y - wanted) / scale).reshape(-1, len(scale)), axis=0)
    return float((errors / np.maximum(norms, np.finfo(np.float64).tiny)).max())


MAGNITUDES: dict[str, Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[Any, Any]]] = {
    "normal": lambda x, w: (x, w),
    "x 1e30": lambda x, w: (x * 1e30, w),
    "x 1e-30, w 1e30": lambda x, w: (x * 1e-30, w * 1e30),
    "w 1e-30": lambda x, w: (x, w * 1e-30),
    "x denormal": lambda x, w: (x * 1e-40, w),
    "x denormal, w 1e30": lambda x, w: (x * 1e-40, w * 1e30),
    "w denormal": lambda x, w: (x * 1e30, w * 1e-40),
    "products denormal": lambda x, w: (x * 1e-20, w * 1e-20),
    # sums times the filters' scale overflow: they are computed again
    "x of the largest": lambda x, w: (np.where(x > 0, 3e38, -3e38), w * 1e-4),
    "x of many magnitudes": lambda x, w: (x * np.exp(4 * w.ravel()[: x.size].reshape(x.shape)), w),
    "outliers": lambda x, w: (np.where(np.abs(x) > 2.5, 1e4 * x, x), w),
    # each filter has a scale of its own; one of zeros
    "filters of many magnitudes": lambda x, w: (x, w * (10.0 ** -np.arange(len(w)))[:, None, None, None]),
    "a filter of zeros": lambda x, w: (x, w * (np.arange(len(w)) != 3)[:, None, None, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAGNITUDES)
def test_as_exact_as_a_chain_of_fp32(name: str) -> None:
    problem = parse("n1c64h5w6k16r3s3")
    rng = np.random.default_rng(1)
    x, w = MAGNITUDES[name](rng.standard_normal(problem.x_shape), rng.standard_normal(problem.w_shape))
    arrays = {"x": x.astype(np.float32), "w": w.astype(np.float32), "bias": np.zeros(problem.k, np.float32)}
    y = np.full(problem.y_shape, np.nan, np.float32)
    plan = WGMMA.plan(problem, TWO_SMS, config_of(problem, promotion_taps=4, filter_stages=4))
    run_plan(plan, {**arrays, "y": y})
    wanted = conv_reference(problem, arrays["x"], arrays["w"], None)
    assert np.isfinite(y).all()
    strict = norm_error(chained(problem, arrays["x"], arrays["w"]), wanted)
    assert norm_error(y, wanted) <= (1.1 * strict if name == "x of the largest" else strict)


def test_a_part_of_the_channels_may_be_larger_than_those_before() -> None:
    problem = parse("n4c40h12w20k8r2s2dil8", layout="nchw")
    config = config_of(problem, **LANDED, tile=(4, 4, 4))
    landing = WgmmaGeometry(problem=problem, config=config).landing
    assert landing is not None
    assert landing.parts == 4
    larger = {(0, 9, 3, 4): 2.0**11, (1, 31, 3, 4): -(2.0**9)}  # of parts of 8 channels the second, the fourth
    found, wanted = run_changed(problem, config, {"x": larger})
    np.testing.assert_array_equal(found, wanted)
    found, wanted = run_changed(problem, config, {"x": {(2, 39, 0, 0): np.float32(1e30)}})
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=np.abs(wanted).max() * 1e-10)


def test_zeros_make_zeros() -> None:
    problem = parse("n1c8h5w6k16r3s3")
    y = np.full(problem.y_shape, np.nan, np.float32)
    arrays = {name: np.zeros(shape, np.float32) for name, shape in (("x", problem.x_shape), ("w", problem.w_shape))}
    run_plan(WGMMA.plan(problem, TARGET, config_of(problem)), {**arrays, "bias": y[0, 0, 0], "y": y})
    np.testing.assert_array_equal(y, 0)


# ---- NaN and Inf ----


@pytest.mark.parametrize(
    ("shape", "config", "layout"),
    [
        ("n2c40h5w6k72r3s3pad1", FILTERS | {"tile": (2, 2, 4), "promotion_taps": 3}, "nhwc"),
        ("n2c8h7w12k20r3s3st1x2pad1", BLOCK | {"tile": (1, 3, 16)}, "nchw"),
        ("n2c8h8w12k20r3s3", LANDED | {"tile": (1, 2, 10), "joined_rows": 2, "store_groups": 1}, "nchw"),
    ],
    ids=["filters", "block", "bulk"],
)
@pytest.mark.parametrize("epilogue", ["none", "bias_relu"])
def test_inf_and_nan_go_where_they_go_in_fp32(
    shape: str, config: dict[str, Any], layout: str, epilogue: str
) -> None:  # fmt: skip
    problem = parse(shape, epilogue=epilogue, layout=layout)
    # an Inf against weights of both signs and zeros; a filter's Inf meets the padding
    changes = {
        "x": {(0, 0, 0, 0): np.inf, (1, 2, 3, 1): -np.inf, (1, -1, -1, -1): np.nan},
        "w": {(1, 0, 0, 0): np.inf, (7, 2, 2, 1): np.nan},
    }
    found, wanted = run_changed(problem, config_of(problem, **config), changes)
    assert np.isnan(wanted).any()
    assert np.isinf(wanted).any()
    assert np.isfinite(wanted).any()
    np.testing.assert_array_equal(found, wanted)


# ---- the search space ----

LAYERS = ("cv4", "cv5", "cv6", "cv8", "cv9", "cv10", "cv11", "cv12")
SOME = ("cv4nchw", "cv6nhwc", "cv12nchw")


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ("cv4", "nchw"),
        ("cv8", "nhwc"),
        ("cv9", "nhwc"),
        ("cv12", "nchw"),
        ("n1c4h1w1k1r1s1", "nhwc"),
        ("n257c16h5w5k136r3s3pad2dil2", "nhwc"),
        ("n1c64h200w200k64r22s22", "nhwc"),
    ],
)
def test_every_pick_is_legal(shape: str, layout: str) -> None:
    problem = parse(shape, layout=layout)
    assert WGMMA.unsupported(problem, TARGET) is None
    assert all(WGMMA.broken_rules(problem, TARGET, config) == [] for config in shapes(problem, TARGET).values())
    configs = list(itertools.islice(WGMMA.random_configs(problem, TARGET, 1), 40))
    assert [WGMMA.broken_rules(problem, TARGET, config) for config in configs] == [[]] * 40
    default = WGMMA.default(problem, TARGET)
    assert WGMMA.choices_of(problem, TARGET, default) is not None
    if shape in LAYERS:
        assert len({(config.mapping, config.split) for config in shapes(problem, TARGET).values()}) >= 2
        assert len({config.promotion_taps for config in configs if isinstance(config, WgmmaConfig)}) >= 2


def test_the_default_is_right() -> None:
    problem = parse("n2c40h9w9k72r3s3pad1", epilogue="bias")
    stats = verify_emulated(problem, WGMMA.plan(problem, TWO_SMS, WGMMA.default(problem, TWO_SMS)))
    assert stats.norm_error < 2.5e-7


# ---- machine code ----


@pytest.mark.parametrize(
    ("layer", "layout"),
    [
        pytest.param(layer, layout, marks=[] if layer + layout in SOME else pytest.mark.slow)
        for layer in LAYERS
        for layout in ("nhwc", "nchw")
    ],
)
def test_the_default_compiles_to_tensor_core_code_without_spills(layer: str, layout: str) -> None:
    problem = parse(layer, layout=layout)
    config = WGMMA.default(problem, TARGET)
    assert isinstance(config, WgmmaConfig)
    packing, cubin = (compile_cubin(source, "sm_90a") for source in plan_sources(WGMMA.plan(problem, TARGET, config)))
    assert packing.spill_bytes == 0
    counts = instruction_counts(cubin)
    assert counts["HGMMA"] >= 6 * config.promotion_taps * config.own_subtiles
    assert counts["UTMALDG"] >= 2
    assert not {"LDL", "STL", "HMMA"} & counts.keys()
    assert "serialized" not in cubin.log  # ptxas: wgmma whose accumulators it could not follow
    assert cubin.spill_bytes == 0
    assert cubin.num_regs <= TARGET.regs_per_sm // config.threads
