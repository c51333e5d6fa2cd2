"""Kernels of wgmma's split arithmetic broken on purpose: the emulator's checks must find every one of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from arithmetic import Changes
from mutants import mutate
from wgmma_cases import NO_SPLIT_REPAIR, config_of, run_changed, verify

from im2wingen.errors import EmulatorError
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import WrongResultError

SEEDS = (0, 1, 2)  # threads ascending, descending, shuffled


@dataclass(frozen=True)
class Mutant:
    """Each pair of `edits` is a text that stands once in the kernel of `template`, and what it becomes."""

    edits: tuple[tuple[str, str], ...]
    # two chunks, the last of half a step; sums of 4, 4 and 1 taps; the last tile of K is 6 channels
    shape: str = "n2c40h6w9k70r3s3pad1"
    config: dict[str, Any] = field(default_factory=lambda: {"promotion_taps": 4, "filter_stages": 5})
    template: str = "wgmma_split"
    layout: str = "nhwc"
    seeds: tuple[int, ...] = SEEDS


def one(old: str, new: str, **where: Any) -> Mutant:
    return Mutant(((old, new),), **where)


FILTERS: dict[str, Any] = {
    "config": {"split": "filters", "num_consumer_warpgroups": 2, "promotion_taps": 3, "filter_stages": 4}
}
# Consumers wait for every patch, and for nothing else.
WAITED: dict[str, Any] = {
    "config": {"filter_resident": True, "patch_stages": 1}, "shape": "n24c32h6w8k8r3s3", "seeds": (4, 6, 13)
}  # fmt: skip
SINGLE: dict[str, Any] = {"shape": "n9c8h6w9k16r2s2", "config": {"patch_stages": 1, "promotion_taps": 3}}
PACK: dict[str, Any] = {"template": "split_filter"}
APART: dict[str, Any] = {"config": FILTERS["config"] | {"staggered": True}}
LANDED: dict[str, Any] = {"input_staging": "transposed", "promotion_taps": 3}
RECTANGLES: dict[str, Any] = {"layout": "nchw", "shape": "n2c40h6w12k70r3s3pad1", "config": LANDED}
STRIPS: dict[str, Any] = {
    "layout": "nchw", "shape": "n3c40h7w12k70r3s3",
    "config": LANDED | {"tile": (2, 2, 10), "joined_rows": 2, "store_groups": 4},
}  # fmt: skip
IMAGES: dict[str, Any] = {
    "layout": "nchw", "shape": "n3c36h7w7k70r3s3",
    "config": LANDED
    | FILTERS["config"]
    | {"tile": (2, 5, 5), "joined_rows": 5, "store_groups": 8, "num_producer_warpgroups": 2},
}  # fmt: skip
# Two images' planes of 16 numbers; two rows' runs of 12, of three rows.
PLANES: dict[str, Any] = {
    "layout": "nchw", "shape": "n3c8h6w6k13r3s3",
    "config": LANDED | {"tile": (2, 5, 4), "joined_rows": 5, "store_groups": 1},
}  # fmt: skip
RUNS: dict[str, Any] = {
    "layout": "nchw", "shape": "n2c8h4w14k20r2s3",
    "config": LANDED | {"tile": (1, 2, 12), "joined_rows": 2, "store_groups": 1},
}  # fmt: skip
# 73 KB, of which 18 land at a time.
PARTS: dict[str, Any] = {
    "layout": "nchw", "shape": "n4c20h12w20k8r2s2dil8", "config": LANDED | {"tile": (4, 4, 4), "patch_stages": 1}
}  # fmt: skip
# Two planes of columns that land together; two copies of a patch's columns.
STRIDE: dict[str, Any] = {"layout": "nchw", "shape": "n2c8h7w16k16r3s4st2", "config": LANDED | {"promotion_taps": 2}}
REPEATED: dict[str, Any] = {
    "layout": "nchw", "shape": "n2c8h7w12k16r3s3",
    "config": LANDED | {"mapping": "repeated", "tile": (1, 3, 5), "joined_rows": 3},
}  # fmt: skip
# Tiles of 18 of 34 columns: the second one begins in a unit of 16 bytes, its second row in a group of 8 pixels.
SECTORS: dict[str, Any] = {
    "layout": "nchw", "shape": "n2c8h7w36k70r3s3", "config": LANDED | {"tile": (1, 4, 18), "joined_rows": 2}
}  # fmt: skip

SPLIT_PATCH = "wait(splitting.patch_split + consumer.patch.stage, consumer.patch.parity);"
PATCH_LANDED = "wait(smem.patch_full + ring.stage, ring.parity);\n        uint32_t* const seen"
FREE_PATCH = "      consumer.release(smem.patch_empty + consumer.patch.stage);\n"
FREE_FILTERS = "for (int tap = 0; tap < TAPS; ++tap) consumer.release(read[tap]);"
LOW_OF_FILTER = "multiply_plane(partial, operands, tap, LOW, 0, steps, tap > 0);"
LOW_OF_PATCH = "multiply_plane(partial, operands, tap, 0, LOW, steps, true);"
ADDED = "fmaf(partial[i][j], inverse_scale, acc[i][j])"
HIGH = "multiply_plane(partial, operands, tap, 0, 0, steps, true);"

MUTANTS = {
    # ---- splitters ----
    "a patch is not awaited": one(PATCH_LANDED, ";\n        uint32_t* const seen"),
    "a split patch is not awaited": one(SPLIT_PATCH, ""),
    "a landed patch is multiplied": one(SPLIT_PATCH, SPLIT_PATCH.replace("splitting.patch_split", "smem.patch_full")),
    "no proxy fence": one("ptx::fence_proxy_async_shared_cta();  // wgmma", "// wgmma"),
    "lanes are not awaited": one("__syncwarp();\n      if (lane == 0)", "if (lane == 0)", **WAITED),
    "one warp speaks for both": one("patch_split + i, SPLITTERS_WARPS", "patch_split + i, 1"),
    "a lane writes before its neighbours have read": one("__syncwarp();  // all four", "// all four"),
    "each warp has a scale of its own": one("return all;", "return own;"),
    "a warp does not wait for the other's magnitude": one(
        "ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);\n  uint32_t all", "uint32_t all"
    ),
    "rows beyond the patch count": one("if (group * 8 + part.pixel >= PATCH_PIXELS) break;", ""),
    "every scale is the first patch's": one("splitting.inverse_scale[ring.stage] =", "splitting.inverse_scale[0] ="),
    "the scale is one too large": one("(268 - exponent_of(largest))", "(269 - exponent_of(largest))"),
    "halves overflow": Mutant(
        (("(268 - exponent_of", "(271 - exponent_of"), ("exponent_of(largest) - 14", "exponent_of(largest) - 17"))
    ),
    "rows are not swizzled": one("(unit ^ pixel) * 16", "unit * 16"),
    "low halves lie where high ones do": one("part.place(4 + part.quarter)", "part.place(part.quarter)"),
    # ---- consumers ----
    "the filter's low halves are left out": Mutant(
        ((LOW_OF_FILTER, ""), (LOW_OF_PATCH, LOW_OF_PATCH.replace("true", "tap > 0")))
    ),
    "the patch's low halves are left out": one(LOW_OF_PATCH, ""),
    "low halves alone": one(HIGH, ""),
    "a sum begins with the last one": one(LOW_OF_FILTER, LOW_OF_FILTER.replace("tap > 0", "true")),
    "sums are not added up": one(ADDED, "partial[i][j] * inverse_scale"),
    "sums are not scaled": one(ADDED, "partial[i][j] + acc[i][j]"),
    "sums are added before they are complete": one("ptx::wgmma_wait_group<0>();", ""),
    "the products are not ordered after the registers": one("ptx::wgmma_fence();", ""),
    "the taps that remain are left out": one("return true;\n  return false;", "return false;\n  return false;"),
    "a patch is given back too early": Mutant(
        ((FREE_PATCH, ""), ("walk.tap_h = walk.tap_w = 0;", f"{FREE_PATCH}walk.tap_h = walk.tap_w = 0;"))
    ),
    "a patch is never given back": one(FREE_PATCH, "", **SINGLE),
    "filters are given back too early": Mutant(
        ((FREE_FILTERS, ""), ("ptx::wgmma_commit_group();", f"ptx::wgmma_commit_group();\n  {FREE_FILTERS}"))
    ),
    "one consumer gives filters back for two": one(
        "filter_empty + i, 4 * kConsumers", "filter_empty + i, 4", **FILTERS
    ),
    "nobody begins": one("lag == 0 && consumer.index + 1 < kConsumers", "false", **FILTERS),
    "the tap that is read is off by one": one("if (++tap_w == taps_w)", "if (tap_w++ == taps_w)"),
    # ---- consumers apart ----
    "the consumers share a ring": one("index * kFilterStages + ring.stage", "ring.stage", **APART),
    "the second consumer has the first one's filters": one("kSplit == FILTERS ? index * 64 : 0", "0", **APART),
    "the second consumer is never told": one("if (lag > 0) --lag;", "", **APART),
    # ---- what lands ----
    "what lands is not awaited": one("wait(splitting.landed_full, landing.parity);", ";", **RECTANGLES),
    "a box lands on one that is read": one(
        "wait(splitting.landed_empty, ring.parity ^ 1);", "", **RECTANGLES
    ),
    "what landed is never given back": one("ptx::mbarrier_arrive(splitting.landed_empty);", ";", **RECTANGLES),
    "a box begins anywhere": one("first_column(origin.q) - before", "first_column(origin.q)", **SECTORS),
    "what lands before a tile is split": one("landed + before +", "landed +", **SECTORS),
    "a patch is split into one that is read": one(
        "if (part == 0) wait(smem.patch_empty", "if (false) wait(smem.patch_empty", **RECTANGLES
    ),
    "rows are as wide as the patch": one("at / LANDED_W * (LANDED_PITCH - LANDED_W * STRIDE_W)", "0", **RECTANGLES),
    "an image is split twice": one("/ IMAGES_8) + turn)", "/ IMAGES_8))", **STRIPS),
    "strips begin at the first row": one("full, row * W - before, channel", "full, 0, channel", **STRIPS),
    "pieces follow each other closely": one(
        "c / PIECE_CHANNELS * PIECE_STEP", "c / PIECE_CHANNELS * PIECE_NUMBERS", **IMAGES
    ),
    "all shares are of the first channels": one("landed + share * SHARE_STEP", "landed", **IMAGES),
    "two planes are the first one": one("plane_w * DILATION_W", "0", **STRIDE),
    "a landing is given back after its first patch": one("kTransposed && landing_split", "kTransposed", **STRIDE),
    # ---- channels in parts ----
    "parts are all the first one": one("part % LANDED_PARTS * LANDED_CHANNELS", "0", **PARTS),
    "each part is split over the first": one("(part * SHARES + share)", "share", **PARTS),
    "a patch is multiplied before its last part is split": one(
        "part + 1 == LANDED_PARTS", "part + 2 == LANDED_PARTS", **PARTS
    ),
    # ---- repeated columns ----
    "copies are all the first one": one("% LANDED_W - copy * Horizontal::SHIFT_STEP", "% LANDED_W", **REPEATED),
    "columns beyond a copy are in it": one("column < 0 || column >= PATCH_W", "column < 0", **REPEATED),
    "a tap reads a column further": one("TAP_STEP = kRepeated ?", "TAP_STEP = false ?", **REPEATED),
    # ---- outputs in bulk ----
    "runs are written while they are copied": one(
        "ptx::cp_async_bulk_wait_group_read<0>();\n    __syncwarp();", "__syncwarp();", **PLANES
    ),
    "runs are copied before they are written": one("__syncwarp();  // all 8 channels are staged", "", **PLANES),
    "runs are copied that the copies do not see": one(
        "ptx::fence_proxy_async_shared_cta();\n    __syncwarp();  // all 8", "__syncwarp();  // all 8", **PLANES
    ),
    "planes beyond K are copied": one("min(8, K - k) *", "8 *", **PLANES),
    "images beyond N are copied": one("place.n + image >= N ||", "", **PLANES),
    "rows beyond y are copied": one("min(OWN_P, P - place.p) * Q", "OWN_P * Q", **RUNS),
    "rows are staged as they lie in the plane": one("+ pixel - place.p * Q] = value", "+ pixel] = value", **RUNS),
    "y is staged where the next tile's x lands": one("kTransposed && !kStagingOverLanding ?", "false ?", **STRIPS),
    # ---- staged outputs ----
    "staging is read too early": one("__syncwarp();  // all is staged", "", **STRIPS),
    "staging is written too early": one("__syncwarp();  // all is read", "", **STRIPS),
    "staged channels beyond K are stored": one("K % BLOCK_N == 0 || k + channel < K", "true", **STRIPS),
    "staged pixels that are not stored are": one("if (offset < 0) continue;", "", **IMAGES),
    # ---- whole sectors ----
    "a late pair is of the group after it": one("(own < first % 4) - late;", "own < first % 4;", **SECTORS),
    "joined rows begin with whole groups": one("first % 4 > 0 && shift > 0", "false", **SECTORS),
    "pairs beyond the row are stored": one("i < 0 || i >= pairs", "i < 0", **SECTORS),
    # ---- outputs ----
    "the filter's scale is left out": one("acc * inverse_scale);", "acc);"),
    "the channels' scales change places": one(
        "e + other], channels.scale[half]", "e + other], channels.scale[1 - half]"
    ),
    "channels beyond K are stored": one("K % BLOCK_N == 0 || k + half * 8 < K", "true"),
    "a consumer beyond K stores": one(
        "K % BLOCK_N == 0 || k + half", "K % 64 == 0 || k + half", shape="n1c8h5w6k192r2s2", **FILTERS
    ),
    "a consumer's channels are stored over the first's": one("place.k += index * 64;", ";", **FILTERS),
    # ---- the filter ----
    "packed: taps change places": one("tap / S, tap % S", "tap % R, tap / R", **PACK),
    "packed: magnitudes are not awaited": one("__syncthreads();", "", **PACK),
    "packed: low halves in the next row": one("row + ROW_BYTES / 2", "row + ROW_BYTES", **PACK),
}  # fmt: skip

PLACES: tuple[dict[str, Any], ...] = (
    {}, FILTERS, SINGLE, WAITED, APART, RECTANGLES, STRIPS, IMAGES, SECTORS, PLANES, RUNS, STRIDE, REPEATED, PARTS
)  # fmt: skip


def check(mutant: Mutant) -> None:
    """What must fail for a mutant and pass without."""
    problem = ConvProblem.parse(mutant.shape, precision="fp32", epilogue="bias_relu", layout=mutant.layout)
    verify(problem, config_of(problem, **mutant.config), seeds=mutant.seeds)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutate(monkeypatch, mutant.template, mutant.edits)
    mutate(monkeypatch, "wgmma_split", [NO_SPLIT_REPAIR])  # what is wrong must not come out as NaN and be repaired
    with pytest.raises((WrongResultError, EmulatorError)):
        check(MUTANTS[name])


@pytest.mark.parametrize(
    "mutant",
    [one("", "", **where) for where in PLACES],
)
def test_the_unbroken_kernel_passes_where_mutants_fail(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "wgmma_split", [NO_SPLIT_REPAIR])
    check(mutant)


# ---- repair ----

REPAIR_MUTANTS = {
    "no repair": one("if (saw_nan) repair", "if (false) repair"),
    "an infinite sum is not made NaN": one("fmaf(acc, 0.0f, acc * inverse_scale)", "acc * inverse_scale"),
    "half of the channels are not looked at": one("saw_nan |= stored.e", "if (half == 0) saw_nan |= stored.e"),
    "half of the channels are repaired": one("channel = k + i / 2 % 2 * 8;", "channel = k;"),
    "an Inf makes the scale": one("if (all >= 0x7f800000)", "if (false)"),
    "an Inf is not left out when it was seen": one("largest_of_all<true>", "largest_of_all<false>"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPAIR_MUTANTS)
def test_a_broken_repair_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inf: Changes = {"x": {(0, 1, 2, 3): np.inf}, "w": {(9, 0, 0, 3): 0.0, (2, 1, 1, 3): -2.0}}
    alone: Changes = {"w": {(9, 0, 0, 3): np.inf}}  # of a thread's two channels, the second
    # sums that overflow at the first tap, by the filter's scale; in fp32 the last tap brings them back
    overflowing: Changes = {
        "x": {(0, *pixel): 0.0 for pixel in np.ndindex(3, 3, 8)} | {(0, 0, 0, 0): 2.0**120, (0, 2, 2, 0): -(2.0**120)},
        "w": {(k, *tap, 0): 1.0 for k in range(20) for tap in ((0, 0), (2, 2))},
    }

    def right() -> bool:
        for shape, changes in (("n1c8h5w8k20r3s3", inf), ("n1c8h3w3k20r3s3", overflowing), ("n1c8h3w3k20r3s3", alone)):
            problem = ConvProblem.parse(shape, precision="fp32")
            config = config_of(problem, tile=(1, min(3, problem.p), problem.q))
            found, wanted = run_changed(problem, config, changes)
            if not np.array_equal(found, wanted, equal_nan=True):
                return False
        return True

    assert right()
    mutate(monkeypatch, "wgmma_split", REPAIR_MUTANTS[name].edits)
    try:
        assert not right()
    except EmulatorError:
        return
