"""Kernels of wgmma broken on purpose: the emulator's checks must find every one of them."""

from typing import Any

import numpy as np
import pytest
from mutants import mutate
from wgmma_cases import Mutant, check, config_of, one, run_changed

from im2wingen.errors import EmulatorError
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import WrongResultError

JOINED: dict[str, Any] = {"config": {"tile": (1, 4, 7), "joined_rows": 2}, "shape": "n2c24h8w9k72r3s3"}
BLOCK: dict[str, Any] = {"config": {"mapping": "block", "tile": (1, 4, 16), "store_groups": 2}}
PARTS: dict[str, Any] = {"config": {"tile": (4, 2, 6), "store_groups": 1}, "shape": "n5c8h6w9k16r3s3"}
RESIDENT: dict[str, Any] = {"config": {"filter_resident": True}, "shape": "n3c40h6w9k40r2s3pad1"}
FILTERS: dict[str, Any] = {"config": {"split": "filters", "num_consumer_warpgroups": 2}}
PIXELS: dict[str, Any] = {"config": {"split": "pixels", "num_consumer_warpgroups": 2, "tile": (1, 4, 5)}}
TILES: dict[str, Any] = {
    "config": {"split": "tiles", "num_consumer_warpgroups": 2, "filter_resident": True},
    "shape": "n9c24h5w7k40r3s3",
}
ORDERED: dict[str, Any] = TILES | {"config": TILES["config"] | {"ordered": True}}
STRIDED: dict[str, Any] = {"shape": "n1c24h10w13k40r3s3st2pad1"}
CHANNELS_FIRST: dict[str, Any] = JOINED | {"layout": "nhwc-nchw", "shape": "n2c24h9w10k72r3s3"}
FOUR_COLUMNS: dict[str, Any] = {
    "config": {"tile": (2, 2, 4), "joined_rows": 2}, "layout": "nhwc-nchw", "shape": "n3c8h7w16k9r3s5",
}  # fmt: skip
DILATED: dict[str, Any] = {"shape": "n1c24h12w13k40r3s3dil2"}

READ_FILTER = "filters + buffer * FILTER_BYTES, 0)"
NEXT_FILTER = "filters + (buffer + 1) % FILTER_BUFFERS * FILTER_BYTES, 0)"
FULL_PATCH = "wait(smem.patch_full + consumer.patch.stage, consumer.patch.parity);"
FULL_FILTER = "wait(smem.filter_full + buffer, consumer.filter.parity);"
EMPTY_PATCH = "wait(smem.patch_empty + ring.stage, ring.parity ^ 1);\n        ptx::mbarrier"
EMPTY_FILTER = "wait(smem.filter_empty + buffer, ring.parity ^ 1);"
NEXT_PATCH = "last_patch = smem.patch_empty + consumer.patch.stage;"
LAST_PATCH = "if (last_patch != nullptr) consumer.release(last_patch);"
MAY_BE_WRITTEN = "ptx::barrier_sync(1 + consumer, 128);  // staging may be written"
COMPLETE = "ptx::barrier_sync(1 + consumer, 128);  // staging is complete"

MUTANTS = {
    # ---- barriers of the rings ----
    "patches are awaited with the wrong parity": one(FULL_PATCH, FULL_PATCH.replace("parity)", "parity ^ 1)")),
    "patches are not awaited": one(FULL_PATCH, ""),
    "filters are awaited with the wrong parity": one(FULL_FILTER, FULL_FILTER.replace("parity)", "parity ^ 1)")),
    "filters are not awaited": one(FULL_FILTER, ""),
    "resident filters are not awaited": one("(kFilterResident) wait(smem.filter_full, 0);", "(false);", **RESIDENT),
    "a free patch is awaited with the wrong parity": one(EMPTY_PATCH, EMPTY_PATCH.replace(" ^ 1", "")),
    "a free patch is not awaited": one(EMPTY_PATCH, "ptx::mbarrier"),
    "a free filter stage is awaited with the wrong parity": one(EMPTY_FILTER, EMPTY_FILTER.replace(" ^ 1", "")),
    "a free filter stage is not awaited": one(EMPTY_FILTER, ""),
    "the parity never changes": one("parity ^= 1;", ""),
    "a patch of more bytes is expected": one("ring.stage, PATCH_BYTES);", "ring.stage, PATCH_BYTES + 128);"),
    "a patch of fewer bytes is expected": one("ring.stage, PATCH_BYTES);", "ring.stage, PATCH_BYTES - 128);"),
    "filters of more bytes are expected": one("buffer, FILTER_BYTES);", "buffer, 2 * FILTER_BYTES);"),
    "filters of fewer bytes are expected": one("buffer, FILTER_BYTES);", "buffer, FILTER_BYTES / 2);"),
    "one resident tap of several is expected": one(
        "smem.filter_full, FILTER_BUFFERS * FILTER_BYTES)", "smem.filter_full, FILTER_BYTES)", **RESIDENT
    ),
    "one consumer gives a patch back for two": one("kSplit == TILES ? 4 : 4 * kConsumers", "4", **FILTERS),
    "a patch waits for consumers that do not read it": one(
        "kSplit == TILES ? 4 : 4 * kConsumers", "4 * kConsumers", **TILES
    ),
    "filters wait for a single warp": one("filter_empty + i, 4 * kConsumers", "filter_empty + i, 1"),
    "the barriers' init is not fenced": one("ptx::fence_mbarrier_init();", ""),
    "barriers are used before they are there": one("__syncthreads();  // the barriers are there", ""),
    "a patch signals its neighbour's barrier": one(
        "smem.patch_full + ring.stage, chunk", "smem.patch_full + (ring.stage + 1) % kPatchStages, chunk"
    ),
    # ---- what is given back, and when ----
    "buffers are given back before the products have read them": one("wgmma_wait_group<1>()", "wgmma_wait_group<2>()"),
    "a patch is given back one tap too early": Mutant(
        (
            (LAST_PATCH, ""),
            (NEXT_PATCH, f"consumer.release(smem.patch_empty + consumer.patch.stage);\n      {NEXT_PATCH}"),
            ("  consumer.release(last_patch);\n#pragma", "#pragma"),
        )
    ),
    "a patch is never given back": one(LAST_PATCH, ""),
    "filters are given back as they are read": Mutant(
        (
            ("          if (last_filter != nullptr) consumer.release(last_filter);\n", ""),
            ("last_filter = smem.filter_empty + buffer;", "consumer.release(smem.filter_empty + buffer);"),
            ("  if (last_filter != nullptr) consumer.release(last_filter);\n  consumer", "  consumer"),
        )
    ),
    "the epilogue does not wait for the last products": one("ptx::wgmma_wait_group<0>();\n  if", "if"),
    # ---- proxies and order ----
    "the products are not ordered after the registers": one("ptx::wgmma_fence();", ""),
    "the products are not committed": one("ptx::wgmma_commit_group();", ""),
    "no proxy fence before the store": one("ptx::fence_proxy_async_shared_cta();\n  }", "}"),
    "staging is written before it is read": one(MAY_BE_WRITTEN, "// staging may be written"),
    "staging is written before the store has read it": one(
        f"ptx::cp_async_bulk_wait_group_read<0>();\n  {MAY_BE_WRITTEN}", f";\n  {MAY_BE_WRITTEN}"
    ),
    "staging is stored before it is complete": one(COMPLETE, "// staging is complete"),
    "the store is not committed": one("ptx::cp_async_bulk_commit_group();\n  }", "}"),
    # ---- rings ----
    "the filter stage that is read is off by one": one(READ_FILTER, NEXT_FILTER),
    "the resident tap that is read is off by one": one(READ_FILTER, NEXT_FILTER, **RESIDENT),
    "the patch that is read is off by one": one(
        "patches + consumer.patch.stage *", "patches + (consumer.patch.stage + 1) % kPatchStages *"
    ),
    "a consumer begins at another's patch": one("consumer.skip_patches(index * CHUNKS * PLANES);", "", **TILES),
    "a consumer goes on at another's patch": one(
        "consumer.skip_patches((kConsumers - 1) * CHUNKS * PLANES);", "", **TILES
    ),
    "a consumer takes every tile": one("tile += kTurns * gridDim.x", "tile += gridDim.x", **TILES),
    "nobody's turn comes first": one("(kOrdered && index == kConsumers - 1)", "(false)", **ORDERED),
    "the turn stays with its consumer": one("4 + (consumer.index + 1) % kConsumers", "4 + consumer.index", **ORDERED),
    # ---- descriptors ----
    "the patch begins a row later": one("(address & 0x3ffff) >> 4", "(address + ROW_BYTES & 0x3ffff) >> 4"),
    "a tap begins a row later": one("row + tap_w *", "row + ROW_BYTES + tap_w *"),
    "a tap's row is the one before": one("patch + tap_h *", "patch + (tap_h == 0 ? 0 : tap_h - 1) *"),
    "a step is half as wide": one("b + step * STEP_BYTES", "b + step * STEP_BYTES / 2"),
    "the swizzle of the other width": one("ROW_BYTES == 128 ? 1 : 2", "ROW_BYTES == 128 ? 2 : 1"),
    "a subtile is the one before": one("+ i * SUBTILE_STEP", "", **PIXELS),
    "the groups of a block lie together": one("kMapping == BLOCK ? PATCH_PITCH : ", "", **BLOCK),
    "both consumers take the first filters": one("consumer.index * 64 * ROW_BYTES", "0", **FILTERS),
    "both consumers take the first pixels": one("consumer.index * OWN_SUBTILES * SUBTILE_STEP", "0", **PIXELS),
    # ---- the K axis ----
    "the first chunk again": one("smem.patch_full + ring.stage, chunk * BLOCK_K", "smem.patch_full + ring.stage, 0"),
    "a filter's tap is the next": one("r * S + s, origin.k", "(r * S + s + 1) % (R * S), origin.k"),
    "the sum begins anew at a chunk": one("accumulate = tap != share.begin", "accumulate = tap % (R * S) != 0"),
    "the sum goes on from the tile before": one("accumulate = tap != share.begin", "accumulate = true"),
    "the bias is lost": one("if constexpr (!kHasBias) return;", "return;"),
    "a chunk is cut like the last": one("chunk + 1 == CHUNKS ? LAST_STEPS : STEPS", "LAST_STEPS"),
    "the last chunk is not cut": one("chunk + 1 == CHUNKS ? LAST_STEPS : STEPS", "STEPS"),  # zeros are added
    # ---- planes ----
    "a plane's rows are shifted by one": one("Vertical::shift(r),", "Vertical::shift(r) + 1,", **STRIDED),
    "a plane's columns are shifted by one": one("Horizontal::shift(s)}", "Horizontal::shift(s) - 1}", **STRIDED),
    "the first plane stands for all": one("&input.plane[i]", "&input.plane[0]", **STRIDED),
    "every plane begins with the first tap": one("int r = plane.first_r;", "int r = 0;", **STRIDED),
    "a plane has a column of taps less": one(
        "Vertical::count(r), Horizontal::count(s)", "Vertical::count(r), Horizontal::count(s) - (s == 0)", **STRIDED
    ),
    "the padding is left out": one("tap * DILATION - PAD", "tap * DILATION"),
    "taps are neighbours": one("tap_h * Vertical::SHIFT_STEP", "tap_h", **DILATED),
    # ---- epilogue ----
    "the neighbour's bias": one("epilogue_bias(bias, first + 8)", "epilogue_bias(bias, first)"),
    "no ReLU": one("return relu_pair(T(), low, high);", ";"),
    "staging is not swizzled": one("pixel * 128 + (unit ^ pixel) * 16;", "pixel * 128 + unit * 16;"),
    "a joined row is stored a row too high": one("place.p + row)", "place.p)", **JOINED),
    "a joined row begins at the last one's end": one("row * PATCH_W * TILE_N *", "row * TILE_Q * TILE_N *", **JOINED),
    "a part is stored over the first": one("place.q + FIRST * 8 / TILE_N", "place.q", **PARTS),
    "a part of a block is stored over the first": one("place.p + FIRST)", "place.p)", **BLOCK),
    "a subtile is stored over the first": one("kMapping == ROWS ? i * JOINED_ROWS : 0", "0", **JOINED),
    "a consumer stores over the first": one("origin.p += index * OWN_P;", ";", **PIXELS),
    "a consumer's channels are stored over the first": one("origin.k += index * 64;", ";", **FILTERS),
    "NCHW: staging is written before it is read": one(MAY_BE_WRITTEN, "// staging may be written", **CHANNELS_FIRST),
    "NCHW: staging is stored before it is complete": one(COMPLETE, "// staging is complete", **CHANNELS_FIRST),
    "NCHW: channels beyond K are stored": one("k < 64 && place.k + k < K", "k < 64", **CHANNELS_FIRST),
    "NCHW: a column is stored twice": one("from[i * TILE_N]", "from[0]", **FOUR_COLUMNS),
    "NCHW: rows beyond P are stored": one("place.q + q < Q && p < P &&", "place.q + q < Q &&", **CHANNELS_FIRST),
    "NCHW: columns beyond Q are stored": one("place.q + q < Q && p < P &&", "p < P &&", **CHANNELS_FIRST),
    "NCHW: a joined row begins at the last one's end": one("column / PATCH_W", "column / TILE_Q", **CHANNELS_FIRST),
    "tiles are walked backwards on every place": one("kTileOrderZigzag && tile % 2 == 1", "true"),
}  # fmt: skip
# Harmless ones: the checks must not cry wolf, and a mutant that survives must be one of these.
HARMLESS = {"the last chunk is not cut", "tiles are walked backwards on every place"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "wgmma", MUTANTS[name].edits)
    if name in HARMLESS:
        check(MUTANTS[name])
        return
    with pytest.raises((WrongResultError, EmulatorError)):
        check(MUTANTS[name])


SETTINGS = {(mutant.shape, mutant.layout, *mutant.config.items()): mutant for mutant in MUTANTS.values()}


@pytest.mark.parametrize("mutant", SETTINGS.values(), ids=[str(i) for i in range(len(SETTINGS))])
def test_the_unbroken_kernel_passes_where_mutants_fail(mutant: Mutant) -> None:
    check(mutant)


# ---- repair ----

REPAIR_MUTANTS = {
    "no repair": one("if (kRepair && *saw_nan)", "if (false)"),
    "half of the channels are not looked at": one("fmaf(acc[0][0], 0.0f, acc[0][2] * 0.0f)", "acc[0][0] * 0.0f"),
    "above the image": one("if (h < 0 || h >= H) continue;", "if (h >= H) continue;"),
    "beside the image": one("if (col < 0 || col >= W) continue;", "if (col < 0) continue;"),
    "y is repaired before it is written": one("ptx::cp_async_bulk_wait_group<0>();", ";"),
    "half of the channels are repaired": one("constexpr int CHANNELS = 64;", "constexpr int CHANNELS = 32;"),
    "a row of three is repaired": one(
        "pixel = i / CHANNELS;\n    const int q = origin.q + pixel % OWN_Q, p = origin.p + pixel / OWN_Q % OWN_P",
        "pixel = i / CHANNELS;\n    const int q = origin.q + pixel % OWN_Q, p = origin.p + pixel / OWN_Q % OWN_P * 0",
    ),
}


@pytest.mark.parametrize("name", REPAIR_MUTANTS)
def test_a_broken_repair_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ConvProblem.parse("n1c8h5w6k48r3s3pad1", precision="bf16")
    config = config_of(problem)
    # w (K, R, S, C): a channel of each half of a warp's 16; taps that meet the padding on two sides each
    weights = [(3, 0, 0, 0), (41, 2, 2, 7)]
    changes = [{"w": {index: np.inf}} for index in weights]

    def right() -> bool:
        results = [run_changed(problem, config, change) for change in changes]
        return all(np.array_equal(found, wanted, equal_nan=True) for found, wanted in results)

    assert right()
    mutate(monkeypatch, "wgmma", REPAIR_MUTANTS[name].edits)
    try:
        assert not right()
    except EmulatorError:
        return
