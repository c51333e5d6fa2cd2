"""Kernels of wgmma_rows broken on purpose: the emulator's checks must find every one of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from mutants import mutate
from wgmma_rows_cases import BULK, CHANNELS, config_of, run_changed, verify

from im2wingen.errors import EmulatorError
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import WrongResultError

SEEDS = (0, 1, 2)  # threads ascending, descending, shuffled


CONFIG: dict[str, Any] = {"num_consumer_warpgroups": 2, "num_transformer_warps": 3, "ring_blocks": 13}


@dataclass(frozen=True)
class Mutant:
    """Each pair of `edits` is a text that stands once in the kernel, and what it becomes."""

    edits: tuple[tuple[str, str], ...]
    # two CTAs of two images each; the ring turns some times; rows are cleared, and slots lie beside the image
    shape: str = "n4c3h17w19k24r5s5st2pad1"
    config: dict[str, Any] = field(default_factory=lambda: dict(CONFIG))
    layout: str = "nhwc"
    precision: str = "fp16"
    template: str = "wgmma_rows"


def one(old: str, new: str, **where: Any) -> Mutant:
    return Mutant(((old, new),), **where)


SMALL_RING: dict[str, Any] = {"num_consumer_warpgroups": 2, "num_transformer_warps": 3, "raw_stages": 4}
IN_TURNS: dict[str, Any] = {"shape": "n4c3h18w19k16r3s3", "config": CONFIG | {"multiplying_consumers": 1}}
TAKE_TURNS: dict[str, Any] = {"config": CONFIG | {"num_consumer_warpgroups": 4, "multiplying_consumers": 2}}
UNITS: dict[str, Any] = {"config": {"row_order": "units", "unit_rows": 3, "l2_bursts": True}}
TWO_TILES: dict[str, Any] = {"config": {"item_tiles": 2}}
LAST_BYTES: dict[str, Any] = {"shape": "n3c3h7w9k8r3s3", "config": {"block_rows": 3}}  # 14 beyond whole 16
CHANNELS_FIRST: dict[str, Any] = {"layout": "nchw"}  # 8 x 9 outputs
ODD: dict[str, Any] = {"layout": "nchw", "shape": "n3c3h11w17k16r3s3"}  # 9 x 15
K_BLOCKS: dict[str, Any] = {"shape": "n2c3h9w11k72r3s3", "config": {"block_n": 32}}
# an item begins within a row and ends in the next but one
LONG_ROWS: dict[str, Any] = {"shape": "n1c3h40w65k8r3s1", "config": {}}
ROWS: dict[str, Any] = {"shape": "n2c3h9w81k24r3s3", "config": {"row_items": True}}
# 40 slots, two groups of planes
TEAMS: dict[str, Any] = {
    "shape": "n2c5h11w82k8r5s5st2pad1", "config": {"num_transformer_warps": 4, "team_warps": 2},
}  # fmt: skip
PACKED_HERE: dict[str, Any] = {
    "shape": "n2c3h9w11k72r3s3", "config": {"block_n": 32, "num_consumer_warpgroups": 2, "pack_kernel": False},
}  # fmt: skip
# four consumers, far ahead of each other: items of 60 pixels among others of 64; a segment for each row
SHORT_ITEMS: dict[str, Any] = {
    "layout": "nchw", "shape": "n6c1h40w66k8r1s3", "config": {"num_consumer_warpgroups": 4, "ring_blocks": 40},
}  # fmt: skip
SHORT_SEGMENTS: dict[str, Any] = SHORT_ITEMS | {
    "shape": "n8c1h12w66k8r1s3", "config": SHORT_ITEMS["config"] | {"row_order": "units", "unit_rows": 1},
}  # fmt: skip
SPLIT: dict[str, Any] = {"precision": "fp32"}
PACK: dict[str, Any] = {"template": "pack_rows"}
# one product an output, so that its rounding shows; four lanes begin in the same bank; 9 x 15 outputs
ONE_TAP: dict[str, Any] = {"precision": "tf32", "shape": "n1c1h40w41k8r1s1", "config": {}}
TURNS: dict[str, Any] = {"precision": "tf32", "shape": "n1c3h15w111k8r11s11st4", "config": {}}
MANY_CHANNELS: dict[str, Any] = {"layout": "nchw", "shape": "n3c3h11w17k40r3s3"}
# items without a pixel between others; rows of 63 pixels, which may lie in five sectors
FEW: dict[str, Any] = {
    "layout": "nchw",
    "shape": "n2c1h40w131k8r1s130",
    "config": {"slot_columns": 2, "num_consumer_warpgroups": 2},
}
FULL_ITEMS: dict[str, Any] = {"layout": "nchw", "shape": "n3c3h11w65k16r3s3", "config": {"row_items": True}}
SEGMENTS: dict[str, Any] = {"layout": "nchw", "config": CONFIG | {"row_order": "units", "unit_rows": 1}}
HELD: dict[str, Any] = {"precision": "tf32", "layout": "nchw", "config": {"staged_y": False}}
# rings turn, copies with them; an odd number of pixels of an image
COPIED: dict[str, Any] = {
    "layout": "nchw",
    "shape": "n2c1h39w67k24r1s3",
    "config": BULK | {"num_consumer_warpgroups": 2},
}
COPIED_BLOCKS: dict[str, Any] = COPIED | {"shape": "n1c1h20w67k72r1s3", "config": BULK | {"block_n": 32}}
# as many channels of each sector; warps share them otherwise
EVEN: dict[str, Any] = COPIED | {"shape": "n2c1h42w66k24r3s3"}
HELD_FILTERS: dict[str, Any] = {
    "shape": "n2c3h20w150k72r5s5", "config": CHANNELS | {"num_consumer_warpgroups": 2, "item_tiles": 2},
}  # fmt: skip
HELD_WORDS: dict[str, Any] = {"precision": "tf32", "shape": "n3c3h15w81k64r3s3", "config": CHANNELS}
# rows of 61 pixels, images of 61 * 13
COPIED_CHANNELS: dict[str, Any] = {
    "layout": "nchw", "shape": "n4c3h15w63k64r3s3", "config": BULK | CHANNELS | {"num_consumer_warpgroups": 2},
}  # fmt: skip
WORDS: dict[str, Any] = {"precision": "tf32", "layout": "nchw", "shape": "n3c3h11w17k16r3s3"}

RAW_FULL = "wait(smem.raw_full + buffer, ring.parity);"
RAW_EMPTY = "wait(smem.raw_empty + buffer, ring.parity ^ 1);"
BLOCK_EMPTY = "wait(smem.block_empty + place, (round & 1) ^ 1);"
BLOCK_FULL = "wait(smem.block_full + next_full.stage, next_full.parity);"
STAGED = "      ptx::fence_proxy_async_shared_cta();  // wgmma reads the block, a bulk copy overwrites the buffer\n"
MIRROR = "place < MIRRORED_BLOCKS ? kRingBlocks * ROW_SLOTS * 16 : 0"
CLEAR = "clear_outside(bytes, raw, rows, member);"
CHUNKS = "constexpr Chunks chunks = window_chunks();\n"

MUTANTS = {
    # ---- barriers ----
    "half of the filters are expected": one(
        "smem.filters_full, FILTER_BYTES);\n", "smem.filters_full, FILTER_BYTES / 2);\n"
    ),
    "one consumer's warps pack for two": one(
        "kPackKernel ? 1 : 4 * kConsumers * (kChannelRows ? 32 : 1)", "4", **PACKED_HERE
    ),
    "the first channels are packed by all": one("packed_unit(w, first + unit)", "packed_unit(w, unit)", **PACKED_HERE),
    "a tap's first channels are packed again": one(
        "(w + filter_offset(k, tap.r, tap.s, tap.c))",
        "(w + filter_offset(k, tap.r, tap.s, 0))",
        shape="n1c6h9w11k16r3s3",
        config={"pack_kernel": False},
    ),
    "raw rows are not awaited": one(RAW_FULL, ""),
    "raw rows are awaited with the wrong parity": one(RAW_FULL, RAW_FULL.replace("parity)", "parity ^ 1)")),
    "a free raw buffer is not awaited": one(RAW_EMPTY, ""),
    "a free raw buffer is awaited with the wrong parity": one(RAW_EMPTY, RAW_EMPTY.replace(" ^ 1", "")),
    "a free block is not awaited": one(BLOCK_EMPTY, "", config=SMALL_RING),
    "a free block is awaited with the wrong parity": one(BLOCK_EMPTY, BLOCK_EMPTY.replace(" ^ 1", "")),
    "blocks are not awaited": one(BLOCK_FULL, ""),
    "blocks are awaited with the wrong parity": one(BLOCK_FULL, BLOCK_FULL.replace("parity)", "parity ^ 1)")),
    "the parity never changes": one("parity ^= 1;", ""),
    "more bytes are expected": one("arrive_expect_tx(full, bytes)", "arrive_expect_tx(full, bytes + 16)"),
    "fewer bytes are expected": one("arrive_expect_tx(full, bytes)", "arrive_expect_tx(full, bytes - 16)"),
    "one channel's rows are expected": one("bytes += load_rows<false>", "bytes = load_rows<false>", **CHANNELS_FIRST),
    "one consumer gives a block back for two": one(
        "block_empty + i, 4 * kConsumers * (kSplit ? 32 : 1)", "block_empty + i, 4"
    ),
    "the barriers' init is not fenced": one("ptx::fence_mbarrier_init();", ""),
    "barriers are used before they are there": one("__syncthreads();  // the barriers are there", ""),
    # ---- what is given back, and when ----
    "blocks are given back before the products have read them": one(
        "wgmma_wait_group<ITEM_TILES - 1 - TILE>", "wgmma_wait_group<1>"
    ),
    "a block is given back a row too early": one("first_block + unneeded, item", "first_block + unneeded + 1, item"),
    "blocks of a segment's end are never given back": one(
        "    blocks.release_below(first_block);\n",
        "",
        config={"num_consumer_warpgroups": 4, "row_order": "units", "unit_rows": 2},
    ),
    "a block that was not needed is not awaited": one(
        "      acquire_below(empty + 1);\n", "", config=SMALL_RING | {"num_consumer_warpgroups": 4}
    ),
    "a block too few is awaited": one("last_row + HALO_BLOCKS + 1)", "last_row + HALO_BLOCKS)"),
    "raw rows are given back before they are read": Mutant(
        (
            ("      ptx::mbarrier_arrive(smem.raw_empty + buffer);\n", ""),
            (RAW_FULL, RAW_FULL + " ptx::mbarrier_arrive(smem.raw_empty + buffer);"),
        )
    ),
    "raw rows are never given back": one("      ptx::mbarrier_arrive(smem.raw_empty + buffer);\n", ""),
    # ---- proxies and order ----
    "blocks are not fenced": one(STAGED, ""),
    "one lane fences for all": one(STAGED, "      if (member.lane == 0) ptx::fence_proxy_async_shared_cta();\n"),
    "a block is full before all lanes have written": one(STAGED + "      __syncwarp();\n", STAGED),
    "the products are not ordered after the registers": one(
        CHUNKS + "  ptx::wgmma_fence();\n#pragma unroll\n  for (int tile", CHUNKS + "#pragma unroll\n  for (int tile"
    ),
    "the products are not committed": one("    ptx::wgmma_commit_group();\n", ""),
    # ---- the ring ----
    "no block is there twice": one(MIRROR, "0"),
    "a mirrored block is missing": one(MIRROR, MIRROR.replace("MIRRORED_BLOCKS", "MIRRORED_BLOCKS - 1"), **LONG_ROWS),
    "the mirror begins a block further": one(MIRROR, MIRROR.replace("kRingBlocks", "(kRingBlocks - 1)")),
    "a block is written to the next place": one("smem.ring + place *", "smem.ring + (place + 1) % kRingBlocks *"),
    "a product begins a block further": one(
        "= ring + (block + i * BLOCK_STEP)", "= ring + (block + 1 + i * BLOCK_STEP)"
    ),
    "a product begins a slot further": one("+ first_slot % ROW_SLOTS;", "+ first_slot % ROW_SLOTS + 1;"),
    "a transformer takes its neighbour's block": one(
        "(member.team - first_block % kTeams", "(member.team + 1 - first_block % kTeams"
    ),
    "transformers begin anew with each segment": one("(member.team - first_block % kTeams", "(member.team"),
    "consumers begin anew with each segment": one("    next -= items;\n", "    next = index;\n"),
    "a consumer takes its neighbour's items": one("int next = index;", "int next = index + 1;"),
    # ---- descriptors ----
    "the second tile is the first": one("2 * step + 1], tile * 64)", "2 * step + 1], 0)", **TWO_TILES),
    "a window's second chunk is the first": one("(units_away(second) - units_away(first)) << 16", "0 << 16"),
    "the blocks of a window are neighbours": one("chunk.block * BLOCK_STEP *", "chunk.block * 2 *"),
    "the slots of a window are neighbours": one(
        "chunk.slot * SLOT_STEP;", "chunk.slot;", shape="n2c3h9w15k8r3s5", config={"slot_columns": 2}
    ),
    "a plane is a block further": one("chunk.plane * PLANE_SLOTS +", "chunk.plane * (PLANE_SLOTS + ROW_SLOTS) +"),
    "filters of every step are the first's": one("step * 2 * WGMMA_N), step > 0", "0), step > 0"),
    "the sum begins anew": one("WGMMA_N), step > 0);", "WGMMA_N), step > 1);"),
    "the bias is lost": one("if constexpr (!kHeldBias) return;", "return;"),
    "the bias is other columns'": one("column_of(lane, i / 2 * 4 + i % 2)", "column_of(lane % 2, i / 2 * 4 + i % 2)"),
    # ---- rows of x ----
    "rows begin a row later": one("block * STRIDE_H - PAD_TOP;", "block * STRIDE_H - PAD_TOP + 1;"),
    "rows above the image are not cleared": one("row >= rows.first && row <", "row <"),
    "rows are not cleared": one(CLEAR, ""),
    "rows below the image are read": one("min(H - row, BLOCK_ROWS)", "BLOCK_ROWS", **UNITS),
    "x's last bytes are left out": one("i < end; i += sizeof(Element)", "i < i; i += sizeof(Element)", **LAST_BYTES),
    "x's last bytes are loaded in bulk": one(
        "constexpr int64_t INPUT_UNITS_END = INPUT_BYTES / 16 * 16;",
        "constexpr int64_t INPUT_UNITS_END = (INPUT_BYTES + 15) / 16 * 16;",
        **LAST_BYTES,
    ),
    "rows begin at whole 16 bytes": one("return int(origin & 15);", "return 0;"),
    "a channel's rows begin where the first's do": one(
        "& 15) + i % BLOCK_ROWS",
        "& 0) + offset + i % BLOCK_ROWS",
        layout="nchw-nhwc",
        shape="n2c3h9w11k16r3s3",
        config={},
    ),
    "the first channel's rows again": one("int64_t(n) * C + part;", "int64_t(n) * C;", **CHANNELS_FIRST),
    "a prefetch leaves x": one("uint32_t(min(end - at, int64_t(PIECE)))", "uint32_t(PIECE)", **UNITS),
    # ---- slots ----
    "split slots hold what lies beside the image": one("first.offset + (e ^ turn) < left;", "true;", **SPLIT),
    "split vectors beside the image are not 0": one(
        "quad[3] = 0;", "quad[3] = 0x40000000;", **SPLIT | {"shape": "n2c4h9w12k16r3s3pad1", "config": {}}
    ),
    "words are not shifted": one("(at & 2) * 8", "0"),
    "halves of a word are exchanged": one("i % 2 == 0 ? 0x10 : 0x32", "i % 2 == 1 ? 0x10 : 0x32"),
    "border slots are left out": one("if constexpr (BORDER_SLOTS > 0)", "if constexpr (false)"),
    "border slots hold what lies beside the image": one("column < 0 || column >= W", "false"),
    "a border slot more is taken for an inner one": one(
        "return end < ROW_SLOTS ? end : ROW_SLOTS;", "return end + 1 < ROW_SLOTS ? end + 1 : ROW_SLOTS;"
    ),
    "a group of planes is left out": one(
        "if constexpr (GROUP + 1 < PLANE_GROUPS)",
        "if constexpr (false)",
        shape="n1c5h9w11k8r3s3",
        config={"block_rows": 3, "slot_columns": 3},
    ),
    # ---- work ----
    "the last strip's row is left out": one("(index < OUTPUT_ROWS % count)", "0", shape="n3c3h7w9k8r3s3"),
    "a strip goes on over the image": one("min(P - segment.p, end - next)", "end - next"),
    "a unit goes on over the image": one("min(UNIT_ROWS, P - segment.p)", "UNIT_ROWS", **UNITS),
    "channels are the first block's": one(
        "int first_channel = int(blockIdx.x) % K_BLOCKS * WGMMA_N;", "int first_channel = 0;", **K_BLOCKS
    ),
    "filters are the first block's": one("int64_t(blockIdx.x % K_BLOCKS) *", "0 *", **K_BLOCKS),
    # ---- teams ----
    "a warp of a team fills a block for all": one(
        "smem.block_full + i, kTeamWarps);", "smem.block_full + i, 1);", **TEAMS
    ),
    "a warp of a team gives raw rows back for all": one("raw_empty + i, 32 * kTeamWarps", "raw_empty + i, 32", **TEAMS),
    "a team's warps write the same slots": one("- GROUP * SLOT_ROUNDS % kTeamWarps)", "- member.warp)", **TEAMS),
    "rows are cleared while others read them": one("  member.sync();\n}\n\n// Of", "}\n\n// Of", **TEAMS),
    # ---- items of a row ----
    "a row's last item goes on in the next row": one(
        "min(first_slot + ITEM_SLOTS, (row + 1) * ROW_SLOTS)", "9999", **ROWS
    ),
    "an item of each row is left out": one("return segment.rows * ROW_ITEMS;", "return segment.rows;", **ROWS),
    "a row's second item is the first": one("+ item % ROW_ITEMS * ITEM_SLOTS :", ":", **ROWS),
    "a window's blocks are the first one": one(
        "(block + i * BLOCK_STEP) % kRingBlocks * ROW_SLOTS", "block % kRingBlocks * ROW_SLOTS", **ROWS
    ),
    # ---- packing ----
    "the first channels again": one("unit / (CHUNKS * WGMMA_N) * WGMMA_N +", "", **(K_BLOCKS | PACK)),
    "weights of no tap": one("tap.exists && k < K", "k < K", **PACK),
    "a chunk that makes the number even counts twice": one(
        "!chunk.zero && ", "", shape="n2c3h9w11k8r3s3", config={}, **PACK
    ),
    # ---- epilogue ----
    "bias of the first channels": one("first_channel + channel_of(column_of", "channel_of(column_of", **K_BLOCKS),
    "no ReLU": one("return relu_pair(T(), low, high);", ";"),
    "the second half is the first": one(
        "item.warp * 16 + half * 8 + item.lane / 4;\n  const int row",
        "item.warp * 16 + item.lane / 4;\n  const int row",
    ),
    "halo slots are stored": one("{q < Q && row < item", "{row < item"),
    "rows beyond the segment are stored": one("{q < Q && row < item.segment.rows", "{q < Q", **UNITS),
    "channels beyond K are stored": one("K % WGMMA_N != 0 && item.channel", "false && item.channel", **K_BLOCKS),
    # ---- an NCHW y: staging ----
    "NCHW: staging is written before it is stored": one(
        "await_item(smem.stored, staged.number - STAGED_ITEMS - i);", ";", **SHORT_ITEMS
    ),
    "NCHW: only the consumer's own item is awaited": one(
        "i < kConsumers; ++i) await_item", "i < 1; ++i) await_item", **SHORT_ITEMS
    ),
    "NCHW: the next round of barriers is awaited": one(
        "number / kStagedItems & 1);", "number / kStagedItems & 1 ^ 1);", **ODD
    ),
    "NCHW: two rounds of barriers": one("MOST_STAGED + 2 * kConsumers", "MOST_STAGED + kConsumers", **SHORT_SEGMENTS),
    "NCHW: an item is stored before it is there": one("  await_item(smem.staged, staged.number);\n", "", **ODD),
    "NCHW: the item before is not awaited": one("await_item(smem.staged, staged.number - 1);", ";", **ODD),
    "NCHW: a warp has stored for all": one("kBulkStored ? kCopyingWarps : 128)", "32)", **ODD),
    "NCHW: segments begin at the same place": one(
        "origin = (origin + whole", "origin = (0 * origin + whole", **SEGMENTS
    ),
    "NCHW: rings have no room for sectors": one(
        "STAGED_ITEMS * ITEM_SLOTS + 2 * SECTOR * (SEGMENT_CHANGES + 1);",
        "(STAGED_ITEMS - 1) * ITEM_SLOTS + SECTOR;",
        **ODD,
    ),
    "NCHW: rings do not turn": one("place < STAGED_PIXELS ? place :", "true ? place :", **ODD),
    "NCHW: items of few pixels share sectors": one(
        "kSharedSectors = LEAST_PIXELS >= SECTOR;", "kSharedSectors = true;", **FEW
    ),
    "NCHW: all channels begin alike": one(
        "(uint32_t(segment.n) * K + k)", "(uint32_t(segment.n) * K)", **(ODD | UNITS)
    ),
    "NCHW: channels begin alike too often": one("channels * (int64_t(P) * Q) % SECTOR != 0", "false", **ODD),
    "NCHW: a row is a pixel longer": one(
        "(pixel.p - item.segment.p) * Q +", "(pixel.p - item.segment.p) * (Q + 1) +", **ODD
    ),
    # ---- and its sectors ----
    "NCHW: an item's last pixel is left out": one(
        "min(pixels_before(item.end_slot), pixels);", "min(pixels_before(item.end_slot), pixels - 1);", **ODD
    ),
    "NCHW: items are stored whole": one("staged.last ? staged.end :", "true ? staged.end :", **ODD),
    "NCHW: an item's first sector begins with it": one(
        "whole_sectors(into + staged.begin) + unit", "staged.begin + into + unit", **ODD
    ),
    "NCHW: pixels before the segment are stored": one("staged.first ? max(staged.begin - pixel, 0) : 0", "0", **ODD),
    "NCHW: pixels beyond the segment are stored": one("min(end - pixel, UNIT) : 0", "UNIT : 0", **ODD),
    "NCHW: edges are left out": one("if (!staged.first && !staged.last) return;", "return;", **ODD),
    "NCHW: edges beyond whole sectors are left out": one("(kBulkStored || number < RUN_UNITS)", "true", **FULL_ITEMS),
    "NCHW: a run ends in its first sector": one("begins ? 0 : last_sector / UNIT", "0", **ODD),
    "NCHW: rounds are the first one": one("from + further(i) * STAGING_PITCH", "from", **MANY_CHANNELS),
    "NCHW: channels beyond K are stored": one(
        "(whole || channel + further(i) < left)", "true", layout="nchw", **K_BLOCKS
    ),
    "NCHW: edges of channels beyond K are stored": one(
        "K % WGMMA_N == 0 || k < K ? min", "true ? min", layout="nchw", **K_BLOCKS
    ),
    # ---- its bulk copies ----
    "bulk: what is staged is not fenced": one(
        "        ptx::fence_proxy_async_shared_cta();  // bulk copies read what the thread wrote\n", "", **COPIED
    ),
    "bulk: items are copied before they are there": one(
        "i < end; ++i) await_item(smem.staged, passed + i);", "i < end; ++i) ;", **COPIED
    ),
    "bulk: items are given back before they are read": one(
        "      ptx::cp_async_bulk_wait_group_read<0>();\n", "", **COPIED
    ),
    "bulk: copies are not committed": one("      ptx::cp_async_bulk_commit_group();\n", "", **COPIED),
    "bulk: items are never given back": one(
        "(smem.stored + (passed + i) % kStagedItems);\n", "(smem.stored);\n", **COPIED
    ),
    "bulk: a warp gives items back for all": one("kBulkStored ? kCopyingWarps : 128)", "1)", **COPIED),
    "bulk: warps have the same channels": one(
        "const int begins = item.warp % WARPS_APART;", "const int begins = 0;", **COPIED
    ),
    "bulk: warps share their channels": one("own = item.warp / WARPS_APART;", "own = 0;", **EVEN),
    "bulk: items are left out": one("first += kCopiedItems", "first += kCopiedItems + 1", **COPIED),
    "bulk: few barriers": one("MOST_STAGED + 2 * kConsumers", "kConsumers", **COPIED),
    "bulk: copies do not turn with the ring": one("min(end - begin, STAGED_PIXELS - place)", "end - begin", **COPIED),
    "bulk: the rest of a turned copy is left out": one(
        "    copy(begin - into + before_end, 0, end - begin - before_end);\n", "", **COPIED
    ),
    "bulk: all channels begin alike": one(
        "into = (into + int64_t(WARPS_APART) * P * Q % SECTOR) % SECTOR;", ";", **COPIED
    ),
    "bulk: runs are the first channel's": one("    run += int64_t(WARPS_APART) * P * Q;\n", "", **COPIED),
    "bulk: rings are the first channel's": one("ring_of(first) + in_ring +", "ring_of(0) + in_ring +", **COPIED),
    "bulk: channels are the first block's": one(
        "const int channel = int(blockIdx.x) % K_BLOCKS * WGMMA_N;", "const int channel = 0;", **COPIED_BLOCKS
    ),
    "bulk: channels beyond K are copied": one("kAll || first + (i + own) * APART < left", "true", **COPIED_BLOCKS),
    "bulk: pixels before the segment are copied": one(
        "staged.first ? ceil_div(into + staged.begin, UNIT) * UNIT : sector", "sector", **COPIED
    ),
    "bulk: pixels beyond the segment are copied": one(
        "staged.last ? (into + staged.end) / UNIT * UNIT :",
        "staged.last ? (into + staged.end + UNIT) / UNIT * UNIT :",
        **COPIED,
    ),
    "bulk: edges are left out": one("      store_edges(smem.staging, item, staged, y);\n", "", **COPIED),
    "bulk: lanes skip edges": one("kBulkStored ? 32 * kCopyingWarps : 128", "256", **COPIED_CHANNELS),
    "bulk: staging is smaller than a pair of rings": one(
        "2 * STAGED_PIXELS + SECTOR :", "2 * STAGED_PIXELS - SECTOR :", **COPIED
    ),
    "NCHW, as held: the second channel is the first": one(
        "i / 2 * 8 + i % 2;  // channels", "i / 2 * 8;  // channels", **HELD
    ),
    "NCHW, as held: channels beyond K are stored": one(
        "K % WGMMA_N != 0 && first + further >= K",
        "false",
        **(HELD | K_BLOCKS | {"config": {"block_n": 32, "staged_y": False}}),
    ),
    # ---- channels as wgmma's rows ----
    "channels: filters of a step are the first's": one("(chunk * WGMMA_N + column)", "column", **HELD_FILTERS),
    "channels: filters are those of other rows": one(
        "i % 2 * 8 + lane / 4)), chunk", "lane / 4)), chunk", **HELD_FILTERS
    ),
    "channels: filters are in packed order": one(
        "column = column_of_channel(channel_of_row(", "column = (channel_of_row(", **HELD_FILTERS
    ),
    "channels: the products are not ordered after the registers": one(
        CHUNKS + "  ptx::wgmma_fence();\n#pragma unroll\n  for (int step",
        CHUNKS + "#pragma unroll\n  for (int step",
        **HELD_FILTERS,
    ),
    "channels: the sum begins anew": one(
        "wgmma_held_m64k16_f32_f16(sums, held[step], window, step > 0)",
        "wgmma_held_m64k16_f32_f16(sums, held[step], window, step > 1)",
        **HELD_FILTERS,
    ),
    "channels: sums are staged before they are there": one(
        "        ptx::wgmma_wait_group<0>();\n        ptx::wgmma_fence_held(sums);\n", "", **HELD_FILTERS
    ),
    "channels: the bias is the first channel's": one(
        "sums[i] += biases[i / 2 % 2];", "sums[i] += biases[0];", **HELD_FILTERS
    ),
    "channels: staging is written before it is stored": one(
        "if (warp == 0 && lane == 0) ptx::cp_async_bulk_wait_group_read<0>();", ";", **HELD_FILTERS
    ),
    "channels: consumers share staging": one(
        "+ consumer * ITEM_BYTES;", "+ 0 * consumer * ITEM_BYTES;", **HELD_FILTERS
    ),
    "channels: boxes are not swizzled": one("/ UNIT ^ pixel % 8;", "/ UNIT;", **HELD_FILTERS),
    "channels: a second group is the first": one(
        "lane / 16 * 8 + lane % 8, channel", "lane % 8, channel", **HELD_FILTERS
    ),
    "channels: an item is not fenced": one(
        "  ptx::fence_proxy_async_shared_cta();  // TMA reads what the thread wrote\n", "", **HELD_FILTERS
    ),
    "channels: an item is stored before it is complete": one(
        "  ptx::barrier_sync(1 + consumer, 128);  // the item is complete\n", "", **HELD_FILTERS
    ),
    "channels: a store is not committed": one(
        "row);\n  ptx::cp_async_bulk_commit_group();\n", "row);\n", **HELD_FILTERS
    ),
    "channels: items are the row's first": one("item.first_slot % ROW_SLOTS, row);", "0, row);", **HELD_FILTERS),
    "channels: rows of y are the image's first": one(
        "item.segment.n * P + item.segment.p +", "item.segment.n * P +", **HELD_WORDS
    ),
    "channels: boxes are the first channels'": one("item.channel + box * BOX_CHANNELS", "item.channel", **HELD_WORDS),
    "channels, words: a box is the other one": one("channel / BOX_CHANNELS * BOX_BYTES", "0", **HELD_WORDS),
    "channels, NCHW: all channels are in order": one(
        "(warp % 2 * 16 + row) * 2 + warp / 2 : warp * 16 + row;",
        "(warp % 2 * 16 + row) * 2 + warp % 2 : warp * 16 + row;",
        **COPIED_CHANNELS,
    ),
    "channels, NCHW: rings do not turn": one(
        "if (staged.place + SECTOR + ITEM_SLOTS > STAGED_PIXELS)", "if (false)", **COPIED_CHANNELS
    ),
    "channels, NCHW: the second pixel is the first": one(
        "*place(1) = Bits(both >> 16);", "*place(1) = Bits(both);", **COPIED_CHANNELS
    ),
    "channels, NCHW: pixels beyond the row are staged": one(
        "second = exist || pixel + 1 < pixels;", "second = true;", **COPIED_CHANNELS
    ),
    # ---- turns ----
    "turns are awaited too soon": one(
        "const int before = number - kMultiplying;", "const int before = number - 1;", **TAKE_TURNS
    ),
    "a turn never ends": one("  if (lane == 0) ptx::mbarrier_arrive(smem.multiplied + index);\n", "", **IN_TURNS),
    "a turn ends for another": one("smem.multiplied + index);", "smem.multiplied + 0);", **IN_TURNS),
    # ---- 4-byte elements ----
    "x is cut to tf32": one("ptx::cvt_rna_tf32(elements[i]);", "elements[i];", **ONE_TAP),
    "w is cut to tf32": one(
        "ptx::cvt_rna_tf32(__float_as_uint(to_float(values.e[i])))",
        "__float_as_uint(to_float(values.e[i]))",
        **(ONE_TAP | PACK),
    ),
    "turned words are not turned back": one("turn & 1 ? turned[e ^ 1] : turned[e]", "turned[e]", **TURNS),
    "pairs of words are not turned back": one("TURNS == 4 && turn & 2 ?", "false ?", **TURNS),
    "words, NCHW: the second channel is the first": one(
        "*second_place = __float_as_uint(relu(second));", "*second_place = __float_as_uint(relu(first));", **WORDS
    ),
    "words, NCHW: pixels beyond the segment are stored": one("min(end - pixel, UNIT) : 0", "UNIT : 0", **WORDS),
}
# Harmless ones: the checks must not cry wolf, and a mutant that survives must be one of these.
HARMLESS = {
    "turns are awaited too soon",  # less products at a time
    "NCHW: items are stored whole",  # some of it twice
    "NCHW: items of few pixels share sectors",  # a consumer is hardly ever so far ahead of the others
    "consumers begin anew with each segment",  # they share the work less evenly
}


def check(mutant: Mutant) -> None:
    """What must fail for a mutant and pass without."""
    problem = ConvProblem.parse(mutant.shape, epilogue="bias_relu", layout=mutant.layout, precision=mutant.precision)
    verify(problem, config_of(problem, **mutant.config), seeds=SEEDS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, MUTANTS[name].template, MUTANTS[name].edits)
    if name in HARMLESS:
        check(MUTANTS[name])
        return
    with pytest.raises((WrongResultError, EmulatorError)):
        check(MUTANTS[name])


SETTINGS = {
    (mutant.shape, mutant.layout, mutant.precision, *mutant.config.items()): mutant for mutant in MUTANTS.values()
}


@pytest.mark.parametrize("mutant", SETTINGS.values(), ids=[str(i) for i in range(len(SETTINGS))])
def test_the_unbroken_kernel_passes_where_mutants_fail(mutant: Mutant) -> None:
    check(mutant)


# ---- repair ----

REPAIR_MUTANTS = {
    "no repair": one("kRepair && !kBulkStored && probe.saw_nan()", "false"),
    "half of the elements are not looked at": one(
        "const float low = to_float(pairs.x), high = to_float(pairs.y);",
        "const float low = to_float(pairs.x), high = low;",
    ),
    "above the image": one("if (h < 0 || h >= H) continue;", "if (h >= H) continue;"),
    "beside the image": one("if (col < 0 || col >= W) continue;", "if (col < 0) continue;"),
    "what is Inf stays": one("if (stored != stored ||", "if (stored > stored ||"),
    "one half of a tile is repaired": one("i < 2 * ITEM_TILES; ++i", "i < 2 * ITEM_TILES; i += 2"),
    "some of the channels are repaired": one("j < WGMMA_N / 4; ++j", "j < WGMMA_N / 8; ++j"),
    "bulk: no repair": one("kRepair && probe.saw_nan()) repair_staged", "false) repair_staged", **COPIED),
    "bulk: half of the elements are not looked at": one(
        "probe.look_at(both);\n        *first", "probe.look_at(both & 0xffff);\n        *first", **COPIED
    ),
    "bulk: another place is repaired": one(
        "around(place_of(item, staged, pixel) + into)", "around(place_of(item, staged, pixel))", **COPIED
    ),
    "channels: no repair": one(
        "kRepair && probe.saw_nan()) repair_pixels_staged", "false) repair_pixels_staged", **HELD_FILTERS
    ),
    "channels: another place is repaired": one(
        "pixel.q - item.first_slot % ROW_SLOTS, channel);",
        "pixel.q - item.first_slot % ROW_SLOTS + 1, channel);",
        **HELD_FILTERS,
    ),
    "channels: a warp's half is repaired": one(
        "i < ITEM_SLOTS / 2; ++i) {  // the i-th", "i < ITEM_SLOTS / 2; i += 4) {  // the i-th", **HELD_FILTERS
    ),
    "NCHW: edges are not repaired": one("  for_each_edge(item, staged, repair);\n", "", **CHANNELS_FIRST),
    "NCHW: whole sectors are not repaired": one(
        "unit.whole()) repair(unit);", "false) repair(unit);", **CHANNELS_FIRST
    ),
}


@pytest.mark.parametrize("name", REPAIR_MUTANTS)
def test_a_broken_repair_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = REPAIR_MUTANTS[name].layout
    problem = ConvProblem.parse("n1c3h9w10k48r3s3pad1", precision="bf16", layout=layout)
    kinds = REPAIR_MUTANTS[name].config
    config = config_of(problem, **(BULK if "bulk_store" in kinds else CHANNELS if "channel_rows" in kinds else {}))
    # w (K, R, S, C): an even and an odd channel; taps that meet the padding on two sides each
    weights = [(2, 0, 0, 0), (2, 2, 2, 2), (45, 0, 0, 0), (45, 2, 2, 2)]
    changes = [{"w": {index: np.inf}} for index in weights]

    def right() -> bool:
        results = [run_changed(problem, config, change) for change in changes]
        return all(np.array_equal(found, wanted, equal_nan=True) for found, wanted in results)

    assert right()
    mutate(monkeypatch, REPAIR_MUTANTS[name].template, REPAIR_MUTANTS[name].edits)
    try:
        assert not right()
    except EmulatorError:
        return
