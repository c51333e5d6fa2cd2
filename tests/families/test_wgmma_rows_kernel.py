"""wgmma_rows: arithmetic in the emulator, NaN and Inf. A CTA computes many rows: the target has two SMs."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from arithmetic import random_problem
from wgmma_rows_cases import BULK, CHANNELS, TWO_SMS, config_of, run_changed, verify

from im2wingen.families.wgmma_rows import WGMMA_ROWS
from im2wingen.problem import ConvProblem, FilterLayout

PRECISIONS = ("fp16", "bf16", "tf32", "fp32")


@dataclass(frozen=True)
class Case:
    shape: str
    config: dict[str, Any] = field(default_factory=dict)
    precision: str = "fp16"
    epilogue: str = "none"
    w_layout: FilterLayout = "krsc"
    seeds: tuple[int, ...] = (1,)
    layout: str = "nhwc"


TWO: dict[str, Any] = {"num_consumer_warpgroups": 2}
MANY: dict[str, Any] = {"num_consumer_warpgroups": 4, "ring_blocks": 40}
UNITS: dict[str, Any] = {"row_order": "units", "unit_rows": 2}
ROWS: dict[str, Any] = {"row_items": True}
COLUMNS: dict[str, Any] = {"slot_order": "columns"}
DIRECT: dict[str, Any] = {"staged_y": False}
TURNS: dict[str, Any] = {"num_consumer_warpgroups": 3, "multiplying_consumers": 1}

CASES = {
    # ---- extents ----
    # one chunk of one element; the chunk that makes the number even is the same one
    "one element": Case("n1c1h1w1k1r1s1"),
    # 64 output rows of one pixel in a tile
    "Q = 1": Case("n2c2h70w3k8r3s3"),
    # a row of several tiles; a tile ends inside the row
    "P = 1": Case("n1c3h3w150k8r3s3", {"num_consumer_warpgroups": 2}, seeds=(0, 1, 2)),
    # 17 x 16 pixels of 3 images: tiles go over rows, none over images
    "several tiles": Case("n3c3h18w19k16r3s3", {"num_consumer_warpgroups": 3}, seeds=(0, 1, 2)),
    # the second tile of an item lies beyond the segment
    "a tile without pixels": Case("n1c3h6w12k16r3s3", {"item_tiles": 2}),
    "two tiles": Case("n2c3h20w19k16r3s3", {"item_tiles": 2, "num_consumer_warpgroups": 2}, "bf16", seeds=(0, 1, 2)),
    # ---- channels of x; 2 bytes x odd C x odd W begin each row at another place within 4 bytes ----
    "C = 1": Case("n2c1h9w11k8r5s5", {"block_rows": 5}),
    "C = 2": Case("n1c2h9w11k8r4s4", {"slot_columns": 2}),
    "C = 4, aligned": Case("n1c4h9w12k8r3s3", {"block_rows": 3, "pack_kernel": False}),
    "C = 8, aligned": Case("n1c8h9w12k8r3s3", COLUMNS),
    "C = 8, one tap": Case("n1c8h5w7k8r1s1"),
    "C = 15": Case("n1c15h9w11k8r3s3st2", {"block_rows": 2, "slot_columns": 2}, "bf16"),
    # ---- channels of y ----
    # groups of 32, 16 and 8 columns
    "K = 96": Case("n1c3h9w11k96r3s3"),
    "K = 48": Case("n1c3h9w11k48r3s3", epilogue="bias"),
    "K = 40": Case("n1c3h9w11k40r3s3", epilogue="bias_relu"),
    # stores of 8, 4 and 2 bytes; the last channels lie beyond K
    "K = 20": Case("n1c3h9w11k20r3s3", {"block_n": 32}, epilogue="bias"),
    "K = 14": Case("n1c3h9w11k14r3s3", {"block_n": 16}, epilogue="bias"),
    "K = 7": Case("n1c3h9w11k7r3s3", {"block_n": 32}, epilogue="bias"),
    # three CTAs share the channels of a row; the last has 8 of 32
    "K in blocks": Case("n2c3h9w11k72r3s3", {"block_n": 32, "pack_kernel": False}, epilogue="bias_relu"),
    "K in more blocks than CTAs": Case("n1c3h5w11k48r3s3", {"block_n": 8} | UNITS),
    "K = 256": Case("n1c3h5w9k256r3s3", epilogue="bias"),
    # ---- windows ----
    # the last block holds a row that is none of the window's: 11 rows in 3 x 4
    "11x11, stride 4": Case("n2c3h23w27k32r11s11st4", {"num_consumer_warpgroups": 2}, seeds=(0, 2)),
    "7x7, stride 2": Case("n2c3h21w23k32r7s7st2", {"block_rows": 4} | COLUMNS),
    "7x7, stride 2, wide slots": Case("n2c3h21w23k32r7s7st2", {"slot_columns": 4}, "bf16"),
    "3x3 in one slot": Case("n1c3h9w11k16r3s3", {"block_rows": 3, "slot_columns": 3}),
    "3x3 in one block": Case("n1c3h9w11k16r3s3", {"block_rows": 3} | COLUMNS),
    "5x5 of C = 1": Case("n1c1h9w11k16r5s5", {"block_rows": 2, "slot_columns": 2}),
    # a slot of 96 chunks, in groups of four planes; slots do not overlap
    "patches": Case("n1c3h32w32k16r16s16st16"),
    "1 x 16": Case("n1c1h3w40k16r1s16st1x4", {"slot_columns": 8}),
    "16 x 1": Case("n1c1h40w5k16r16s1st3x1", {"block_rows": 6}),
    # rows and columns that no window reads
    "stride above the filter": Case("n1c3h14w15k16r2s1st4x3"),
    "stride 3x2": Case("n1c5h14w15k16r4s5st3x2"),
    # ---- pads: border slots, rows that are cleared ----
    "pad 1": Case("n2c3h9w11k16r3s3pad1", seeds=(0, 1, 2)),
    "pad 3, stride 2": Case("n2c3h14w14k32r7s7st2pad3", {"block_rows": 4} | COLUMNS, seeds=(0, 2)),
    "four pads": Case("n2c5h8w9k16r3s4pad1,0,2,3", epilogue="bias"),
    # whole blocks lie above and below the image, no slot lies inside it
    "the filter is beyond the image": Case("n2c3h2w2k16r5s5pad4"),
    # ---- the end of x: 2 * 3 * 7 * 9 = 378 bytes, 10 beyond whole 16 ----
    "last bytes": Case("n1c3h7w9k8r3s3", {"block_rows": 3, "num_transformer_warps": 3}, seeds=(0, 1, 2)),
    # less than 16 bytes of x
    "x of 6 bytes": Case("n1c3h1w1k8r1s1"),
    # ---- who does what ----
    "many transformers": Case("n2c3h20w19k16r3s3", {"num_transformer_warps": 5, "ring_blocks": 9}, seeds=(0, 1, 2)),
    "one transformer": Case("n2c3h20w19k16r3s3", {"num_transformer_warps": 1, "raw_stages": 3}, seeds=(0, 1, 2)),
    "a team": Case("n2c3h21w83k16r3s3pad1", {"num_transformer_warps": 3, "team_warps": 3}, "bf16", seeds=(0, 1, 2)),
    "teams": Case(
        "n2c5h21w82k16r5s5st2pad2", {"num_transformer_warps": 4, "team_warps": 2, "raw_stages": 2}, "fp32", seeds=(0, 1)
    ),
    "a large ring": Case("n1c3h20w19k16r3s3", {"ring_blocks": 40}),
    # P = 17 in units of 2
    "units": Case("n2c3h19w19k16r3s3", UNITS | {"num_consumer_warpgroups": 2}, seeds=(0, 1, 2)),
    "units of 5": Case("n2c3h19w19k16r3s3st2pad1", UNITS | {"unit_rows": 5}),
    # more consumers than items
    "idle consumers": Case("n1c3h5w9k16r3s3", {"num_consumer_warpgroups": 4}),
    "bursts": Case("n9c3h12w13k16r3s3", UNITS | {"l2_bursts": True}),
    "bursts, K = 12": Case("n1c3h12w13k12r3s3", UNITS | {"l2_bursts": True, "block_n": 32}),
    "launched early": Case("n1c3h6w9k16r3s3", {"programmatic_launch": True}, epilogue="bias"),
    # ---- items of a row: a row ends in an item's first tile, in its second; tiles reach beyond the last plane ----
    "row items": Case("n2c3h31w43k16r11s11st4", ROWS | TWO | {"pack_kernel": False}, "tf32", seeds=(0, 1, 2)),
    "row items, halves": Case("n2c3h9w81k24r3s3pad1", ROWS, layout="nchw", seeds=(0, 2)),
    "row items of two tiles": Case(
        "n3c3h9w141k24r3s3", ROWS | UNITS | {"item_tiles": 2, "num_consumer_warpgroups": 3}, "bf16", seeds=(0, 2)
    ),
    "row items, split": Case(
        "n2c3h15w141k24r7s7st2pad3", ROWS | {"item_tiles": 2, "block_rows": 4}, "fp32", layout="nhwc-nchw"
    ),
    # ---- layouts ----
    "KCRS": Case("n1c3h9w11k40r5s3", epilogue="bias", w_layout="kcrs"),
    "KCRS, packed by each CTA": Case("n1c3h9w11k40r5s3", TWO | {"pack_kernel": False}, w_layout="kcrs", seeds=(0, 2)),
    # a run of rows for each channel, each at another place within 16 bytes
    "NCHW in": Case("n2c3h9w11k16r3s3", {"block_rows": 3}, layout="nchw-nhwc", seeds=(0, 1, 2)),
    "NCHW in, 7x7": Case("n2c3h15w17k16r7s7st2pad3", {"block_rows": 4} | COLUMNS, layout="nchw-nhwc"),
    "NCHW in, 11x11": Case("n1c3h23w28k16r11s11st4", {}, "bf16", layout="nchw-nhwc"),
    "NCHW in, C = 15": Case("n1c15h7w8k16r3s3", {"slot_columns": 3}, layout="nchw-nhwc"),
    # ---- NCHW out ----
    # P * Q odd: channels begin in turn at either half of 4 bytes; items end inside a row
    "NCHW": Case("n3c3h11w17k16r3s3", {"num_consumer_warpgroups": 2}, layout="nchw", seeds=(0, 1, 2), epilogue="bias"),
    # P * Q even, Q odd: the two pixels of a store may lie in two rows
    "NCHW, Q odd": Case("n2c3h12w17k32r3s3", {"block_rows": 3}, layout="nhwc-nchw", epilogue="bias_relu"),
    "NCHW, Q even": Case("n2c3h12w18k24r3s3", {"item_tiles": 2}, "bf16", layout="nhwc-nchw"),
    # slots without halo; one output column
    "NCHW, no halo": Case("n2c3h9w40k8r3s3", {"slot_columns": 3}, layout="nchw"),
    "NCHW, Q = 1": Case("n2c2h70w3k8r3s3", layout="nchw"),
    # items that lie between a row's pixels and the next row's
    "NCHW, wide halo": Case("n1c1h4w131k8r1s130", {"slot_columns": 2}, layout="nchw", seeds=(0, 1, 2)),
    "NCHW, one pixel": Case("n1c1h1w1k1r1s1", layout="nchw"),
    # the last warps have no channel, one of two, one of four
    "NCHW, K = 1": Case("n2c3h7w9k1r3s3", layout="nchw"),
    "NCHW, K = 7": Case("n2c3h7w9k7r3s3", {"block_n": 16}, layout="nchw", epilogue="bias"),
    "NCHW, K in blocks": Case("n2c3h9w11k72r3s3", {"block_n": 32}, layout="nchw", epilogue="bias_relu"),
    "NCHW, K = 256": Case("n1c3h5w9k256r3s3", layout="nhwc-nchw"),
    "NCHW, units": Case("n2c3h19w20k16r3s3pad1", UNITS | {"l2_bursts": True, "item_tiles": 2}, layout="nchw"),
    # consumers far ahead of each other: items without all pixels, and segments of a short item each
    "NCHW, short items": Case("n6c1h40w66k8r1s3", MANY, layout="nchw", seeds=(2, 4, 5)),
    # lanes of a warp far apart: the last one sees a block that the first would give back
    "NCHW, lanes apart": Case("n6c1h40w66k8r1s3", MANY, epilogue="bias_relu", layout="nchw", seeds=(21,)),
    "fp32, NCHW, lanes apart": Case("n6c1h40w66k8r1s3", MANY, "fp32", "bias_relu", layout="nchw", seeds=(4,)),
    "NCHW, short segments": Case("n8c1h12w66k8r1s3", MANY | UNITS | {"unit_rows": 1}, layout="nchw", seeds=(3, 5, 8)),
    "NCHW, 11x11": Case("n2c3h23w28k96r11s11st4", {"num_consumer_warpgroups": 2}, layout="nchw", seeds=(0, 2)),
    "NCHW, 7x7": Case("n2c3h21w23k64r7s7st2pad3", {"block_rows": 4}, "bf16", layout="nchw"),
    # ---- NCHW out by bulk copies ----
    # rings that turn in the middle of a copy; segments of all lengths; two channels a loop, or 16 that begin apart
    "bulk": Case("n6c1h40w66k8r1s3", MANY | BULK, layout="nchw", seeds=(0, 1, 2)),
    "bulk, P * Q odd": Case("n3c3h11w17k40r3s3", TWO | BULK, "bf16", "bias", layout="nchw", seeds=(0, 1, 2)),
    "bulk, item by item": Case("n3c3h12w40k16r3s3", TWO | BULK | {"copied_items": 1}, layout="nchw", seeds=(0, 2)),
    "bulk, two tiles": Case("n2c3h24w40k16r3s3pad1", BULK | {"item_tiles": 2, "copied_items": 3}, layout="nchw"),
    "bulk, short segments": Case("n8c1h12w66k8r1s3", MANY | BULK | UNITS, layout="nchw", seeds=(3, 5)),
    "bulk, wide halo": Case("n1c1h40w131k8r1s130", TWO | BULK | {"slot_columns": 2}, layout="nchw", seeds=(0, 1)),
    "bulk, one pixel": Case("n1c1h1w1k1r1s1", BULK, layout="nchw"),
    "bulk, K = 7": Case("n2c3h27w29k7r3s3", BULK | {"block_n": 16}, layout="nchw", epilogue="bias"),
    "bulk, K in blocks": Case("n2c3h19w21k72r3s3", BULK | {"block_n": 32}, layout="nchw", epilogue="bias_relu"),
    "bulk, row items": Case("n2c3h9w141k24r3s3", ROWS | TWO | BULK, layout="nhwc-nchw", seeds=(0, 2)),
    "bulk, tf32": Case("n3c3h17w31k16r3s3st1x2", TWO | BULK, "tf32", "bias", layout="nchw", seeds=(0, 2)),
    "bulk, fp32": Case("n2c3h23w33k24r5s5pad2", TWO | BULK | {"num_transformer_warps": 3}, "fp32", layout="nchw"),
    # ---- channels as wgmma's rows ----
    # an NHWC y by TMA: rows of one item and of several, the last one shorter; K below 64 and beyond
    "channels": Case("n4c3h33w37k64r7s7st2", CHANNELS | TWO | {"slot_columns": 4}, seeds=(0, 1, 2)),
    "channels, long rows": Case("n2c4h20w150k72r5s5", CHANNELS | {"item_tiles": 2}, "bf16", "bias_relu", seeds=(0, 2)),
    "channels, pad": Case(
        "n2c3h30w40k40r3s3pad1", CHANNELS | TURNS | {"block_rows": 3}, epilogue="bias", seeds=(0, 1, 2)
    ),
    "channels, units": Case("n3c3h19w131k64r3s3", CHANNELS | UNITS | {"item_tiles": 4}, layout="nchw-nhwc"),
    "channels, packed by each CTA": Case("n2c3h9w33k72r3s3", CHANNELS | TWO | {"pack_kernel": False}, seeds=(0, 1, 2)),
    "channels, tf32": Case("n2c3h31w47k36r7s7st2pad3", CHANNELS | TWO | {"slot_columns": 4}, "tf32", "bias_relu"),
    # an NCHW y by bulk copies: channels that begin at odd elements are other warps' (P * Q odd), rings turn
    "channels, NCHW": Case("n4c3h33w37k64r7s7st2", CHANNELS | TWO | BULK, layout="nchw", seeds=(0, 1, 2)),
    "channels, NCHW, P * Q odd": Case("n2c3h21w151k72r5s5", CHANNELS | BULK, "bf16", layout="nchw", seeds=(0, 1)),
    "channels, NCHW, pad": Case(
        "n2c3h31w47k40r7s7st2pad3", CHANNELS | TWO | BULK | {"slot_columns": 4, "copied_items": 3}, "bf16", "bias",
        layout="nhwc-nchw",
    ),
    "channels, NCHW, tf32": Case("n4c3h33w37k60r5s5st2", CHANNELS | TWO | BULK, "tf32", "bias_relu", layout="nchw"),
    # ---- 4-byte elements; lanes take turns at a bank: four (11x11), two (7x7), none (3x3) ----
    "tf32, 11x11": Case("n2c3h19w111k16r11s11st4", {"num_consumer_warpgroups": 2}, "tf32", seeds=(0, 2)),
    "tf32, 7x7": Case("n2c3h9w45k24r7s7st2pad3", {"block_rows": 4}, "tf32", "bias", layout="nchw", seeds=(0, 1, 2)),
    "tf32, columns": Case("n2c3h14w15k16r7s7st2", {"block_rows": 4} | COLUMNS, "tf32", layout="nchw-nhwc"),
    "tf32, C = 4, aligned": Case("n1c4h9w12k8r3s3", {"block_rows": 3}, "tf32"),
    # stores of 8 and 4 bytes; the last channels lie beyond K
    "tf32, K = 6": Case("n1c3h9w11k6r3s3", {"block_n": 16}, "tf32", "bias"),
    "tf32, K = 7": Case("n2c3h9w11k7r3s3", {"block_n": 16}, "tf32"),
    "tf32, NCHW, K = 7": Case("n2c3h7w9k7r3s3", {"block_n": 16}, "tf32", "bias", layout="nchw"),
    "tf32, two tiles": Case("n2c3h20w19k16r3s3pad1", UNITS | {"item_tiles": 2}, "tf32", layout="nchw"),
    # from registers; the last warps have no channel, rows of whole sectors
    "tf32, NCHW, as held": Case("n2c3h7w9k7r3s3", DIRECT | {"block_n": 16}, "tf32", "bias_relu", layout="nchw"),
    "fp32, NCHW, as held": Case("n2c3h9w18k24r3s3", DIRECT | ROWS | UNITS | {"l2_bursts": True}, "fp32", layout="nchw"),
    # a partial sum for each step, some of one block, one of each
    "scaled, 11x11": Case("n2c3h23w27k32r11s11st4", TWO | {"scaled": True}, "tf32", "bias_relu", seeds=(0, 2)),
    "scaled, 3x3": Case("n2c3h9w11k16r3s3pad1", {"block_rows": 3, "scaled": True}, "tf32", "bias", layout="nchw"),
    "scaled, bulk": Case("n2c3h23w33k24r5s5pad2", TWO | BULK | {"scaled": True}, "tf32", layout="nchw"),
    "scaled, units": Case("n2c3h20w19k16r3s3pad1", UNITS | {"item_tiles": 2, "scaled": True}, "tf32", seeds=(0, 1)),
    "fp32, 3x3": Case("n2c3h9w11k16r3s3pad1", {"block_rows": 3}, "fp32", "bias", seeds=(0, 1, 2)),
    "fp32, 11x11": Case("n2c3h23w27k32r11s11st4", {"num_consumer_warpgroups": 2}, "fp32", "bias_relu", seeds=(0, 2)),
    "fp32, 7x7": Case("n2c3h14w15k64r7s7st2pad3", {"slot_columns": 4}, "fp32", "bias", layout="nchw"),
    "fp32, K in blocks": Case("n2c3h19w20k72r3s3", {"block_n": 32, "item_tiles": 2}, "fp32", layout="nchw-nhwc"),
    # ---- dilation ----
    "dilated": Case("n2c3h15w17k16r3s3st1x2pad1dil2x4", {"slot_columns": 1}, seeds=(0, 1)),
    "dilated columns": Case("n2c3h9w17k16r4s3dil1x3", {"block_rows": 2, "slot_columns": 1}, "fp32", layout="nchw"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arithmetic(name: str) -> None:
    case = CASES[name]
    problem = ConvProblem.parse(case.shape, precision=case.precision, epilogue=case.epilogue, layout=case.layout)
    problem = replace(problem, w_layout=case.w_layout)
    verify(problem, config_of(problem, **case.config), seeds=case.seeds)


DEFAULTS = [
    *itertools.product(
        ["n2c3h33w35k32r11s11st4", "n2c3h20w22k64r3s3pad1", "n2c1h28w28k6r5s5"], ["nhwc", "nchw"], ["fp16", "bf16"]
    ),
    ("n2c3h33w35k32r11s11st4", "nchw", "fp32"),
    ("n2c3h20w22k64r3s3pad1", "nhwc", "tf32"),
    ("n2c1h28w28k6r5s5", "nhwc-nchw", "fp32"),
]


@pytest.mark.parametrize(("shape", "layout", "precision"), DEFAULTS)
def test_the_default_is_right(shape: str, layout: str, precision: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, epilogue="bias", layout=layout)
    verify(problem, WGMMA_ROWS.default(problem, TWO_SMS))


@pytest.mark.parametrize(
    ("shape", "layout", "config"),
    [
        ("n2c3h7w9k8r3s3st1x2pad1", "nhwc", {"slot_columns": 2}),
        ("n1c3h7w9k7r3s3", "nhwc", UNITS | {"l2_bursts": True}),  # x ends 10 bytes beyond whole 16
        ("n1c3h7w9k8r3s3", "nchw", {"block_rows": 3}),
        ("n2c3h7w10k7r3s3", "nhwc-nchw", UNITS | {"item_tiles": 2, "l2_bursts": True}),
        ("n1c3h7w9k7r3s3pad1/fp32", "nchw", {"block_rows": 3}),
        ("n2c3h17w19k7r3s3pad1", "nchw", BULK),
        ("n2c3h17w19k72r3s3pad1", "nchw", BULK | CHANNELS),
        ("n2c3h17w19k72r3s3pad1", "nhwc", CHANNELS),
    ],
)
def test_no_byte_is_touched_that_is_not_ours(shape: str, layout: str, config: dict[str, Any]) -> None:
    # under the address and undefined-behaviour sanitizers
    shape, _, precision = shape.partition("/")
    problem = ConvProblem.parse(shape, precision=precision or "fp16", layout=layout, epilogue="bias")
    verify(problem, config_of(problem, **config), sanitize=True)


def _random_verified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems = (
        random_problem(
            rng, precisions=PRECISIONS, largest_filter=6, largest_stride=4, c=range(1, 16),
            k=(1, 3, 7, 8, 12, 16, 24, 30, 64, 72, 100, 300),
        )
        for _ in itertools.count()
    )  # fmt: skip
    problem = next(problem for problem in problems if WGMMA_ROWS.unsupported(problem, TWO_SMS) is None)
    config = next(WGMMA_ROWS.random_configs(problem, TWO_SMS, seed))
    assert WGMMA_ROWS.broken_rules(problem, TWO_SMS, config) == []
    verify(problem, config, seeds=(seed,))


@pytest.mark.parametrize("seed", range(8))
def test_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_random_configs_of_random_problems(seed: int) -> None:
    _random_verified(seed)


# ---- NaN and Inf ----


@pytest.mark.parametrize(
    ("epilogue", "layout", "store"),
    [("none", "nhwc", {}), ("bias_relu", "nhwc", {}), ("bias_relu", "nhwc-nchw", {}), ("bias_relu", "nhwc-nchw", BULK)],
)
@pytest.mark.parametrize(
    ("shape", "config", "precision"),
    [
        # zero weights meet rows, columns and chunks beyond the window
        ("n2c3h23w27k16r11s11st4", {}, "fp16"),
        ("n2c3h15w17k32r7s7st2pad3", {"block_rows": 4} | COLUMNS, "bf16"),
        ("n2c3h9w11k12r3s3pad1", {"block_rows": 2, "slot_columns": 2, "item_tiles": 2}, "fp16"),
        ("n2c1h9w11k7r2s2", {"num_consumer_warpgroups": 2}, "bf16"),
        # no pad, no weight beyond the window
        ("n1c8h5w7k40r1s2", {"block_n": 24} | UNITS, "fp16"),
        ("n2c3h9w11k12r3s3pad1", {"block_rows": 3}, "tf32"),
        ("n2c3h15w17k24r7s7st2pad3", {"block_rows": 4, "item_tiles": 2}, "fp32"),
        ("n2c3h15w17k24r7s7st2pad3", {"block_rows": 4, "scaled": True}, "tf32"),
    ],
    ids=["11x11", "7x7", "3x3", "2x2", "1x2", "3x3 tf32", "7x7 fp32", "7x7 scaled"],
)
def test_a_nan_reaches_the_outputs_whose_window_holds_it(
    shape: str, config: dict[str, Any], precision: str, epilogue: str, layout: str, store: dict[str, Any]
) -> None:
    check_nans(ConvProblem.parse(shape, precision=precision, epilogue=epilogue, layout=layout), config | store)


@pytest.mark.parametrize(("layout", "store"), [("nhwc", {}), ("nhwc-nchw", BULK)])
@pytest.mark.parametrize(
    ("shape", "config", "precision"),
    [
        ("n2c3h15w17k32r7s7st2pad3", TWO | {"slot_columns": 4}, "bf16"),
        ("n2c3h11w71k72r3s3pad1", {"block_rows": 3, "item_tiles": 2}, "fp16"),
        ("n2c3h9w11k64r3s3", {"block_rows": 2, "slot_columns": 2}, "tf32"),
    ],
    ids=["7x7", "3x3", "3x3 tf32"],
)
def test_a_nan_among_channels_as_rows(
    shape: str, config: dict[str, Any], precision: str, layout: str, store: dict[str, Any]
) -> None:
    problem = ConvProblem.parse(shape, precision=precision, epilogue="bias_relu", layout=layout)
    check_nans(problem, CHANNELS | config | store)


def check_nans(problem: ConvProblem, config: dict[str, Any]) -> None:
    # first and last element of the images, and one inside
    places = {(0, 0, 0, 0): np.nan, (problem.n - 1, -1, -1, -1): np.inf, (problem.n - 1, 2, 3, 0): -np.inf}
    found, wanted = run_changed(problem, config_of(problem, **config), {"x": places})
    assert np.isnan(wanted).any()
    assert np.isfinite(wanted).any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("w_layout", "layout"), [("krsc", "nhwc"), ("kcrs", "nhwc"), ("krsc", "nhwc-nchw")])
def test_padding_counts_as_absent(w_layout: FilterLayout, layout: str) -> None:
    problem = ConvProblem.parse("n2c3h5w6k40r3s3pad1", epilogue="bias_relu", layout=layout)
    problem = replace(problem, w_layout=w_layout)
    # taps that meet the padding at the upper left and at the lower right
    taps = ((0, 0, 0, 0), (5, 2, 2, 2), (39, 1, 0, 1))
    if w_layout == "kcrs":
        taps = tuple((k, c, r, s) for k, r, s, c in taps)  # type: ignore[assignment]
    found, wanted = run_changed(
        problem, config_of(problem), {"w": dict(zip(taps, (np.inf, np.nan, -np.inf), strict=True))}
    )
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


def test_a_fp16_sum_beyond_its_range_is_inf() -> None:
    problem = ConvProblem.parse("n1c15h3w3k8r3s3pad1")
    places = itertools.product((0,), range(3), range(3), range(15))
    found, wanted = run_changed(problem, config_of(problem), {"x": dict.fromkeys(places, 60000.0)})
    assert np.isinf(wanted).any()
    np.testing.assert_array_equal(found, wanted)
