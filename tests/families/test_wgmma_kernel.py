"""wgmma: arithmetic in the emulator, NaN and Inf. A CTA computes several tiles: the target has two SMs."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import random_problem
from wgmma_cases import TARGET, TWO_SMS, config_of, run_changed, verify

from im2wingen.emulator import run_plan
from im2wingen.families.wgmma import WGMMA
from im2wingen.problem import ConvProblem, FilterLayout
from im2wingen.reference import conv_reference
from im2wingen.verify_emulated import emulated_inputs

PRECISIONS = ("fp16", "bf16", "tf32")


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any] = field(default_factory=dict)
    precision: str = "fp16"
    epilogue: str = "none"
    w_layout: FilterLayout = "krsc"
    seeds: tuple[int, ...] = (1,)
    layout: str = "nhwc"


BLOCK: dict[str, Any] = {"mapping": "block"}
RESIDENT: dict[str, Any] = {"filter_resident": True}
FILTERS: dict[str, Any] = {"split": "filters", "num_consumer_warpgroups": 2}
PIXELS: dict[str, Any] = {"split": "pixels", "num_consumer_warpgroups": 2}
TILES: dict[str, Any] = {"split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True}
COPIED: dict[str, Any] = {"stored_by_producers": True}

CASES = {
    # ---- extents ----
    # one of everything but channels: all tail
    "one pixel": Case("n1c8h1w1k8r1s1", {"patch_stages": 1}),
    # N, P, Q and K end inside tiles of 2 x 2 x 5 and 64: 3, 7, 9, 72
    "no multiple of the tile": Case("n3c24h9w11k72r3s3", {"tile": (2, 2, 5)}, seeds=(0, 1, 2)),
    # Q = 1: a subtile of 8 pixels holds one
    "Q = 1": Case("n3c8h9w3k8r3s3", {"tile": (1, 3, 1)}),
    # P = 1, and its tile has two rows
    "P = 1": Case("n1c8h3w9k8r3s2", {"tile": (1, 2, 5)}, "bf16"),
    # whole taps lie in the padding
    "filter beyond the image": Case("n1c8h2w3k16r5s5pad2", {}, "bf16"),
    # the widest wgmma; accumulators of 128 registers
    "256 pixels": Case("n1c8h2w300k8r1s1", {"tile": (1, 1, 256), "patch_stages": 1}),
    # ---- subtiles of rows ----
    # ((2 - 1) * 9 + 7) = 16 pixels of which 14 count; P = 6 in tiles of 4
    "joined rows": Case("n2c24h8w9k16r3s3", {"tile": (1, 4, 7), "joined_rows": 2}, seeds=(0, 3)),
    # the run of pixels ends inside a group of 8: (2 * 6 + 4) * 3 = 48, of Q = 7 and N = 4 in tiles of 4 and 3
    "joined rows of images": Case("n4c16h8w9k16r3s3", {"tile": (3, 3, 4), "joined_rows": 3}, "bf16"),
    # planes of a stride: (1 * 5 + 4) pixels in 16; P = 3 in tiles of 4
    "joined rows, stride 2": Case("n1c8h8w9k16r3s3st2", {"tile": (1, 4, 4), "joined_rows": 2}),
    # 10 pixels in 16; of a batch of 3
    "rows of images": Case("n3c8h6w9k16r3s3", {"tile": (2, 1, 5)}),
    # 6 columns x 4 images in parts of 2 columns; N = 5, Q = 7
    "rows of images in parts": Case("n5c8h6w9k16r3s3", {"tile": (4, 2, 6), "store_groups": 1}),
    # parts of 8 of 24 columns; Q = 19 ends in the last one
    "rows in parts": Case("n1c8h5w21k16r3s3", {"tile": (1, 2, 24), "store_groups": 1}, "bf16"),
    # an odd number of groups of 8: the last is staged alone
    "an odd group": Case("n1c8h5w26k16r3s3", {"tile": (1, 2, 24)}),
    # ---- subtiles of 8 columns ----
    # P = 7 in tiles of 3, Q = 11 in tiles of 8
    "block": Case("n2c24h9w13k72r3s3", BLOCK | {"tile": (1, 3, 8)}, seeds=(0, 2)),
    # two subtiles of a consumer, Q = 11 ends in the second
    "block of 16 columns": Case("n1c8h6w13k16r3s3", BLOCK | {"tile": (1, 3, 16)}, "bf16"),
    # parts of a row and of two rows of 8 pixels; P = 7
    "block in parts": Case("n1c8h9w9k16r3s3", BLOCK | {"tile": (1, 3, 8), "store_groups": 1}),
    "block in parts of two": Case("n1c8h9w9k16r3s3", BLOCK | {"tile": (1, 4, 8), "store_groups": 2}),
    # the pitch of the groups is that of a plane's patch
    "block, stride 2": Case("n1c8h9w19k16r3s3st2pad1", BLOCK | {"tile": (1, 3, 8)}, "bf16"),
    # ---- consumers ----
    # the second consumer's channels end inside it, K = 72; three of them, K = 136
    "split filters": Case("n2c24h6w9k72r3s3pad1", FILTERS, epilogue="bias", seeds=(0, 1, 2)),
    "split filters of three": Case("n1c24h6w9k136r2s2", FILTERS | {"num_consumer_warpgroups": 3}, "bf16"),
    # a consumer of the last tile has no channels: K = 192 in tiles of 128
    "split filters, K in no tile": Case("n1c8h5w6k192r2s2", FILTERS),
    "split filters, resident": Case("n2c40h6w9k72r2s3", FILTERS | RESIDENT, epilogue="bias"),
    # each consumer has a row of the two, and P = 5: the last one has none
    "split pixels": Case("n2c24h7w9k40r3s3", PIXELS, seeds=(0, 1, 2)),
    "split pixels of three": Case(
        "n1c8h9w9k16r3s3", PIXELS | {"num_consumer_warpgroups": 3, "tile": (1, 6, 5)}, "bf16"
    ),
    "split pixels, joined rows": Case("n1c8h9w9k16r3s3", PIXELS | {"tile": (2, 4, 5), "joined_rows": 2}),
    "split pixels, block": Case("n1c8h6w21k16r3s3", PIXELS | BLOCK | {"tile": (1, 3, 16)}, epilogue="bias_relu"),
    # five tiles for the two consumers of each of two CTAs: one has two of them, the others one
    "split tiles": Case("n5c24h4w7k40r3s3", TILES, seeds=(0, 1, 2)),
    "split tiles of three": Case("n7c24h4w7k40r3s3", TILES | {"num_consumer_warpgroups": 3, "patch_stages": 3}),
    # strict turns; 1 tile and so 1 consumer with work, 2 with several tiles, 3
    "in turn, one tile": Case("n1c8h4w7k8r3s3", TILES | {"ordered": True}),
    "in turn": Case("n7c24h4w7k40r3s3", TILES | {"ordered": True}, "bf16", seeds=(0, 1, 2)),
    "in turn of three": Case("n11c8h4w7k8r3s3", TILES | {"ordered": True, "num_consumer_warpgroups": 3}),
    # patches of several chunks and planes belong to one consumer; in turn, stages may serve one and then the other
    "split tiles, chunks": Case("n5c72h4w7k16r2s2", TILES | {"patch_stages": 4}, seeds=(0, 2)),
    "in turn, chunks": Case("n5c72h4w7k16r2s2", TILES | {"ordered": True, "patch_stages": 3}, seeds=(0, 1, 2)),
    "split tiles, planes": Case("n5c16h6w9k16r3s3st2", TILES | BLOCK | {"ordered": True}, "bf16"),
    # ---- channels ----
    "C = 8": Case("n1c8h7w9k16r3s3", {"row_bytes": 64}),
    # half a step of the only chunk lies beyond C
    "C = 24": Case("n1c24h7w9k16r3s3", {}, "bf16"),
    # C = 72: 8 channels in a second chunk of 64, in a third of 32
    "C = 72": Case("n1c72h7w9k16r3s3", {}),
    "C = 72, 64-byte rows": Case("n1c72h7w9k16r3s3", {"row_bytes": 64, "patch_stages": 3}),
    # whole chunks
    "C = 64": Case("n1c64h7w9k16r3s3", {}, "bf16"),
    "K = 8": Case("n1c24h7w9k8r3s3", {}, epilogue="bias"),
    "K = 136": Case("n1c24h5w9k136r3s3", {"tile_order": "zigzag"}, epilogue="bias_relu"),
    # ---- stride, dilation, pads: planes ----
    "stride 2": Case("n2c24h10w12k16r3s3st2", {}, seeds=(0, 1)),
    "stride 2, resident": Case("n2c24h10w12k16r3s3st2", RESIDENT | {"row_bytes": 64}),
    # nine planes; the last row and column of x are never read
    "stride 3": Case("n1c8h15w18k16r4s5st3", {"patch_stages": 3}, "bf16"),
    # a plane without a tap, and one tap a plane
    "stride 3 above the filter": Case("n1c8h13w16k16r2s1st3", {}),
    "stride 2x1": Case("n1c8h10w9k16r3s3st2x1", {}),
    "stride 1x2": Case("n1c8h8w12k16r3s4st1x2pad0,0,1,0", {}, "bf16"),
    "dilation": Case("n1c8h12w16k16r3s3dil2x3", {}),
    # stride and dilation share a factor: one plane whose taps are neighbours
    "stride 2, dilation 2": Case("n1c8h12w15k16r3s3st2dil2", {}),
    # every third tap in a plane, two pixels further on
    "stride 3, dilation 2": Case("n1c8h15w17k16r4s4st3dil2", {}, "bf16"),
    # a factor less than the stride: planes 0 and 2 of four
    "stride 4, dilation 2": Case("n1c8h15w17k16r3s3st4dil2", {"tile": (1, 2, 3)}),
    # pads of 1, 0, 2 and 3 on the four sides
    "four pads": Case("n2c8h6w7k16r3s3pad1,0,2,3", {}, epilogue="bias"),
    # the first tap lies in another plane than the first pixel, by an odd pad
    "four pads, stride 2": Case("n2c8h9w10k16r3s3st2pad1,0,3,2", {}, "bf16"),
    "four pads, stride 3": Case("n1c8h9w10k16r3s4st3pad1,2,2,3", {}),
    "four pads, dilation": Case("n1c8h9w10k16r3s3pad2,1,0,3dil3x2", BLOCK, epilogue="bias_relu"),
    # ---- rings ----
    # one patch a tile through one buffer; more filter stages than taps; a ring that is no divisor of nine taps
    "one patch stage": Case("n3c8h6w9k16r2s2", {"patch_stages": 1, "filter_stages": 2}, seeds=(0, 1, 2)),
    "more stages than taps": Case("n1c72h4w9k16r1s2", {"patch_stages": 5, "filter_stages": 7}, seeds=(0, 1)),
    "two filter stages": Case("n2c72h6w9k16r3s3", {"filter_stages": 2, "patch_stages": 2}, "bf16", seeds=(0, 1, 2)),
    "resident": Case("n3c72h6w9k40r2s3pad1", RESIDENT, epilogue="bias", seeds=(0, 1)),
    # ---- clusters: taps of all chunks are shared ----
    # 2 chunks of 9 taps for 8 CTAs, 7 groups of pixels; N, P, Q and K end inside tiles
    "cluster": Case(
        "n3c72h5w11k72r3s3pad1", {"cluster_k": 8, "tile": (2, 5, 8)}, epilogue="bias_relu", seeds=(0, 1, 2)
    ),
    # joined rows of images: pixels between them belong to no CTA's output
    "cluster, joined": Case(
        "n4c136h8w9k72r3s3", FILTERS | {"cluster_k": 4, "tile": (3, 3, 4), "joined_rows": 3}, "bf16"
    ),
    "cluster, block": Case("n2c40h9w19k72r3s3st2pad1", PIXELS | BLOCK | {"cluster_k": 2, "tile": (1, 3, 16)}),
    # nine planes, most CTAs read two of them; launched early
    "cluster, planes": Case(
        "n1c8h15w18k16r4s5st3", {"cluster_k": 8, "patch_stages": 3, "programmatic_launch": True}, "bf16", seeds=(0, 2)
    ),
    # 105 pixels in three rows of 35: equal runs, in products of 16; the last tile ends with a row too many
    "1x1 in runs of pixels": Case("n3c40h5w7k72r1s1", PIXELS | {"tile": (1, 2, 12)}, epilogue="bias", seeds=(0, 1)),
    "cluster, 1x1": Case("n2c200h5w6k40r1s1", {"cluster_k": 4, "patch_stages": 4}, w_layout="kcrs"),
    "cluster, tf32": Case("n2c36h6w9k68r3s3pad1", {"cluster_k": 4}, "tf32", "bias_relu"),
    "cluster, NCHW": Case(
        "n3c12h7w9k70r3s3pad1", FILTERS | {"cluster_k": 4, "tile": (2, 2, 5)}, epilogue="bias", layout="nchw"
    ),
    # ---- the rest ----
    "launched early": Case("n1c8h6w9k16r3s3", {"programmatic_launch": True}),
    "zig-zag, split filters": Case("n2c8h6w9k320r2s2", FILTERS | {"tile_order": "zigzag"}, "bf16", "bias_relu"),
    # the filter is packed into a workspace first
    "KCRS": Case("n1c24h6w9k40r3s3pad1", {}, epilogue="bias", w_layout="kcrs"),
    "KCRS, resident": Case("n1c72h6w9k40r2s3st2", RESIDENT, "bf16", w_layout="kcrs"),
    # C = 3 is padded to 8 channels, K = 5; x is turned into a workspace, y is stored by channel: odd and even Q
    "NCHW": Case("n3c3h7w9k5r3s3pad1,0,0,2", {"tile": (2, 2, 5)}, epilogue="bias", layout="nchw", seeds=(0, 1)),
    "NCHW, even": Case("n2c72h7w8k72r3s3", {"tile": (1, 4, 4), "joined_rows": 2}, "bf16", layout="nchw"),
    "NCHW out, block": Case("n2c8h7w13k70r3s3", FILTERS | BLOCK | {"store_groups": 1}, layout="nhwc-nchw"),
    "NCHW out, parts": Case("n1c8h5w21k9r3s3", PIXELS | {"tile": (1, 2, 24), "store_groups": 1}, layout="nhwc-nchw"),
    "NCHW in, tiles": Case("n5c3h6w7k8r3s3pad1", TILES, "tf32", layout="nchw-nhwc"),
    # Q = 12 is stored by four columns, of three images in tiles of two; P = 3 in tiles of joined two
    "NCHW out, four joined columns": Case(
        "n3c8h7w16k9r3s5", {"tile": (2, 2, 4), "joined_rows": 2}, "tf32", layout="nhwc-nchw"
    ),
    "NCHW out, joined images": Case("n4c16h8w9k72r3s3", {"tile": (3, 3, 4), "joined_rows": 3}, layout="nhwc-nchw"),
    # ---- an NCHW y of groups of images: staged image by image ----
    # two rows of 6 columns x 8 images, one after the other; N, P, K end inside tiles
    "runs": Case("n9c72h6w8k72r3s3", {"tile": (8, 2, 6)}, layout="nhwc-nchw", seeds=(0, 1, 2)),
    # four rows of 8 columns, two at a time; P = 7
    "runs, two rows at a time": Case(
        "n9c72h7w8k72r3s3pad1", FILTERS | {"tile": (8, 4, 8), "store_groups": 16}, epilogue="bias_relu", layout="nchw"
    ),
    # Q is odd, all three rows together: 15 pixels of 16 images
    "runs, odd": Case("n17c8h5w7k40r3s3", {"tile": (16, 3, 5), "store_groups": 30}, "bf16", layout="nhwc-nchw"),
    "runs, tf32": Case("n9c8h5w7k40r3s3", {"tile": (8, 2, 5)}, "tf32", layout="nhwc-nchw"),
    # two columns of 4 images a group, four columns of 2; Q = 10 and 7 in tiles of 4
    "runs, four images": Case("n5c8h5w12k40r3s3", {"tile": (4, 3, 4), "store_groups": 6}, layout="nhwc-nchw"),
    "runs, two images": Case("n3c8h5w9k40r3s3", {"tile": (2, 3, 4), "store_groups": 3}, "tf32", layout="nhwc-nchw"),
    "runs over buffers": Case(
        "n9c72h7w6k40r3s3", PIXELS | {"tile": (8, 4, 4), "staging_over_buffers": True}, layout="nhwc-nchw", seeds=(0, 2)
    ),
    # ---- the producers' idle warps copy what consumers stage: several tiles a CTA ----
    "copied, runs": Case(
        "n9c8h7w8k72r3s3", FILTERS | COPIED | {"tile": (8, 4, 6), "store_groups": 12}, "bf16", layout="nchw",
        seeds=(0, 1, 2),
    ),
    "copied, tiles": Case(
        "n7c24h5w7k40r3s3", TILES | COPIED | {"tile": (1, 1, 5)}, layout="nhwc-nchw", seeds=(0, 1, 2)
    ),
    "copied, parts of blocks": Case(
        "n2c24h9w19k40r3s3st2", PIXELS | BLOCK | COPIED | {"tile": (1, 3, 16), "store_groups": 1}, layout="nhwc-nchw"
    ),
    "copied, joined": Case(
        "n3c24h9w10k72r3s3", COPIED | {"tile": (1, 4, 7), "joined_rows": 2}, "tf32", layout="nhwc-nchw"
    ),
    # products read three pixels beyond the last patch, where no staging follows
    "staging over buffers, one row": Case(
        "n1c136h6w7k8r2s1pad1", {"tile": (1, 1, 5), "staging_over_buffers": True, "patch_stages": 4, "filter_stages": 6}
    ),
    "staging over buffers": Case(
        "n3c72h6w9k72r3s3pad1", FILTERS | {"tile": (1, 4, 5), "staging_over_buffers": True}, seeds=(0, 1, 2)
    ),
    # ---- tf32 ----
    # C = 12 in 32 channels a chunk, K = 68: steps of 8 channels, two parts of 32 channels a pixel
    "tf32": Case("n2c12h6w9k68r3s3pad1", {"tile": (1, 2, 5)}, "tf32", "bias_relu", seeds=(0, 1)),
    "tf32, chunks": Case("n1c36h6w19k20r3s3st2", BLOCK | {"row_bytes": 64}, "tf32"),
    "tf32, filters": Case("n1c8h6w9k100r2s2", FILTERS | {"tile": (1, 4, 5), "joined_rows": 2}, "tf32"),
    "tf32, tiles": Case("n5c8h6w9k20r2s2", TILES, "tf32", w_layout="kcrs"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    case = CASES[name]
    problem = ConvProblem.parse(case.shape, precision=case.precision, epilogue=case.epilogue, layout=case.layout)
    problem = replace(problem, w_layout=case.w_layout)
    verify(problem, config_of(problem, **case.config), seeds=case.seeds)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", ["n2c40h9w9k72r3s3pad1", "n1c8h14w14k24r5s5st2"])
def test_the_default_is_right(shape: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, epilogue="bias")
    config = WGMMA.default(problem, TWO_SMS)
    verify(problem, config)


@pytest.mark.parametrize("config", [{}, BLOCK | TILES | {"ordered": True}], ids=["streamed", "in turn"])
def test_no_byte_is_touched_that_is_not_ours(config: dict[str, Any]) -> None:
    # under the address and undefined-behaviour sanitizers; every extent ends inside a tile
    problem = ConvProblem.parse("n2c8h6w7k8r3s3st1x2pad1", epilogue="bias")
    verify(problem, config_of(problem, **config), sanitize=True)


def _random_verified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems = (
        random_problem(
            rng, precisions=PRECISIONS, largest_filter=4, largest_stride=3, c=(8, 24, 40, 72), k=(8, 40, 64, 72, 136)
        )
        for _ in itertools.count()
    )
    problem = next(problem for problem in problems if WGMMA.unsupported(problem, TWO_SMS) is None)
    config = next(WGMMA.random_configs(problem, TWO_SMS, seed))
    assert WGMMA.broken_rules(problem, TWO_SMS, config) == []
    verify(problem, config, seeds=(seed,))


@pytest.mark.parametrize("seed", range(6))
def test_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


# ---- NaN and Inf ----


@pytest.mark.parametrize(
    ("shape", "config", "precision"),
    [
        ("n2c8h5w6k72r3s3pad1", {"tile": (2, 2, 4)}, "fp16"),
        ("n2c8h5w6k72r3s3pad1", FILTERS, "bf16"),
        ("n2c8h5w6k72r3s3pad1", PIXELS | {"tile": (1, 4, 4), "joined_rows": 2}, "fp16"),
        ("n2c8h5w12k72r3s3pad1", PIXELS | BLOCK | {"tile": (1, 2, 16)}, "bf16"),
        # tiles with and without a NaN take turns; the flag of one must not reach the next
        ("n5c8h5w6k56r3s3pad1", TILES, "fp16"),
        ("n2c8h7w8k72r3s3st2pad1,0,1,2", {}, "tf32"),
        ("n2c8h5w6k72r3s3pad1", FILTERS | {"cluster_k": 4, "tile": (2, 2, 4)}, "bf16"),
    ],
    ids=["rows", "filters", "pixels", "block", "tiles", "stride 2", "cluster"],
)
def test_padding_counts_as_absent(shape: str, config: dict[str, Any], precision: str) -> None:
    # w (K, R, S, C): taps that meet the padding at the upper left and at the lower right; the last filter of the tile
    problem = ConvProblem.parse(shape, precision=precision, epilogue="bias_relu")
    places = {(0, 0, 0, 0): np.inf, (5, 2, 2, 3): np.nan, (problem.k - 1, 1, 0, 7): -np.inf}
    found, wanted = run_changed(problem, config_of(problem, **config), {"w": places})
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


def test_padding_counts_as_absent_where_the_filter_is_packed() -> None:
    problem = replace(ConvProblem.parse("n2c8h5w6k16r3s3pad1"), w_layout="kcrs")
    found, wanted = run_changed(problem, config_of(problem), {"w": {(0, 0, 0, 0): np.inf, (9, 7, 2, 2): np.nan}})
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("epilogue", ["none", "bias_relu"])
@pytest.mark.parametrize(
    ("shape", "config"),
    [
        ("n2c24h8w9k8r3s3st1x2", {"tile": (2, 2, 3)}),  # channels 24 ... 31 of a step do not exist
        ("n2c8h8w9k8r3s3pad1,0,2,0", {"tile": (1, 4, 5), "joined_rows": 2}),  # pixels between joined rows
        ("n2c8h8w12k8r3s3", BLOCK | TILES),
    ],
    ids=["rows", "joined", "block"],
)
def test_a_nan_reaches_the_outputs_whose_window_holds_it(shape: str, config: dict[str, Any], epilogue: str) -> None:
    problem = ConvProblem.parse(shape, precision="bf16", epilogue=epilogue)
    # first and last element of the images, and one inside
    places = {(0, 0, 0, 0): np.nan, (1, -1, -1, -1): np.inf, (1, 2, 3, 1): -np.inf}
    found, wanted = run_changed(problem, config_of(problem, **config), {"x": places})
    assert np.isnan(wanted).any()
    assert np.isfinite(wanted).any()
    np.testing.assert_array_equal(found, wanted)


def test_unwritten_memory_never_meets_an_output() -> None:
    # the run of joined rows goes on beyond the patch; emulated memory is NaN until it is written
    problem = ConvProblem.parse("n1c8h7w8k8r3s3")
    plan = WGMMA.plan(problem, TARGET, config_of(problem, tile=(1, 4, 5), joined_rows=2))
    arrays = emulated_inputs(problem, "integer", 0)
    y = np.zeros(problem.y_shape, np.float16)
    run_plan(plan, {**arrays, "y": y}, poison="nan")
    np.testing.assert_array_equal(y, conv_reference(problem, arrays["x"], arrays["w"]))


def test_a_fp16_sum_beyond_its_range_is_inf() -> None:
    problem = ConvProblem.parse("n1c16h3w3k8r3s3pad1")
    places: Iterator[tuple[int, ...]] = itertools.product((0,), range(3), range(3), range(16))
    found, wanted = run_changed(problem, config_of(problem), {"x": dict.fromkeys(places, 60000.0)})
    assert np.isinf(wanted).any()
    np.testing.assert_array_equal(found, wanted)
