"""Stores and clusters of wgmma broken on purpose: the emulator's checks must find every one of them."""

from typing import Any

import pytest
from wgmma_cases import Mutant, check, expect_found, one

# four images of two columns a group, of N = 5; P = 5, and Q = 10 in tiles of 4; one row at a time
RUNS: dict[str, Any] = {"config": {"tile": (4, 2, 4)}, "layout": "nhwc-nchw", "shape": "n5c8h7w12k40r3s3"}
# the second of two consumers has no channel of the last tile
WHOLE_CONSUMER: dict[str, Any] = {
    "config": {"split": "filters", "num_consumer_warpgroups": 2, "tile": (2, 2, 4)}, "layout": "nhwc-nchw",
    "shape": "n3c8h5w6k192r2s3",
}  # fmt: skip
# two rows of each consumer, one at a time; several tiles
COPIED: dict[str, Any] = {
    "config": {"split": "filters", "num_consumer_warpgroups": 2, "tile": (8, 2, 6), "stored_by_producers": True},
    "layout": "nhwc-nchw",
    "shape": "n9c8h7w8k72r3s3",
}
COPIED_LATE: dict[str, Any] = {  # one short row a tile, many tiles: consumers may run ahead
    "config": {"tile": (8, 1, 8), "stored_by_producers": True}, "layout": "nhwc-nchw", "shape": "n33c8h5w8k72r1s1",
    "seeds": (1, 3, 4),
}  # fmt: skip
OVER_BUFFERS: dict[str, Any] = {
    "config": {  # staging lies over the patch: a consumer may be done with all taps before the other one has begun
        "split": "filters", "num_consumer_warpgroups": 2, "tile": (1, 4, 5), "staging_over_buffers": True,
        "filter_stages": 10,
    },
    "shape": "n2c40h8w9k72r5s2",
}  # fmt: skip
# 18 taps of two chunks for four CTAs: 4, 5, 4, 5; two groups of pixels, of which the last CTAs have none
CLUSTER: dict[str, Any] = {"config": {"cluster_k": 4}, "shape": "n2c72h6w9k72r3s3pad1"}
# two consumers; planes of a stride
CLUSTER_OF_TWO: dict[str, Any] = {
    "config": {"cluster_k": 2, "split": "pixels", "num_consumer_warpgroups": 2, "tile": (1, 4, 5)},
    "shape": "n1c24h10w13k40r3s3st2pad1",
}  # fmt: skip
CLUSTER_NCHW: dict[str, Any] = CLUSTER_OF_TWO | {"layout": "nhwc-nchw"}

STAGED = "if (lane == 0) ptx::mbarrier_arrive(smem.staging_full"
BEYOND_K = "if (!pixel.stored || k >= K) continue;\n      const Output one"
PRODUCTS_ARE_DONE = "ptx::barrier_sync(4, 128 * kConsumers);  // the products have read the buffers"
READ_SUMS = "ptx::barrier_cluster_arrive_relaxed();"

MUTANTS = {
    # ---- an NCHW y of groups of images ----
    "runs: staging is stored before it is complete": one(
        "ptx::barrier_sync(1 + consumer, 128);  // these are complete", "// these are complete", **RUNS
    ),
    "runs: staging is written before it is read": one(
        "ptx::barrier_sync(1 + consumer, 128);  // the last runs are copied", "// the last runs", **RUNS
    ),
    "runs: the neighbour's image": one("(eight * 8 + e % 2) *", "(eight * 8 + e / 2) *", **RUNS),
    "runs: the neighbour's column": one("TILE_N < 8 ? pixel / TILE_N : 0;", "0;", **RUNS),
    "runs: images beyond N": one("n < TILE_N && n < images", "n < TILE_N", **RUNS),
    "runs: channels beyond K": one("(K % BLOCK_N == 0 || k < channels)", "true", **RUNS),
    "runs: a whole consumer beyond K": one("(K % BLOCK_N == 0 || k <", "(K % 64 == 0 || k <", **WHOLE_CONSUMER),
    "runs: rows beyond P": one("item < RUN_ITEMS && origin.p + first + row < P", "item < RUN_ITEMS", **RUNS),
    "runs: columns beyond Q": one("(TILE_Q == Q || origin.q + column < Q)", "true", **RUNS),
    "runs: rows are stored over the first": one("origin.p + first) * Q +", "origin.p) * Q +", **RUNS),
    "copied: staging is written before it is copied": one(
        "wait(smem.staging_empty + slot, parity ^ 1);", "", **COPIED_LATE
    ),
    "copied: staging is copied before it is written": one("wait(smem.staging_full + slot, round & 1);", "", **COPIED),
    "copied: the wrong parity": one("staging_full + slot, round & 1", "staging_full + slot, ~round & 1", **COPIED),
    "copied: lanes are not awaited": one(
        f"__syncwarp();\n  {STAGED}", STAGED, **COPIED
    ),
    "copied: a part is that of the first consumer": one("next : i % kConsumers;", "next : 0;", **COPIED),
    "copied: one warp copies a half": one("smem.staging_empty + i, 2)", "smem.staging_empty + i, 1)", **COPIED),
    "copied: the first subtile again": one("part * RUN_ROWS);", "0);", **COPIED),
    "staging lies where products read": one(
        "if (kStagingOverBuffers) ptx::barrier_sync(4, 128 * kConsumers);", "", **OVER_BUFFERS
    ),
    # ---- clusters ----
    "cluster: sums are read before they are there": one(
        "ptx::barrier_cluster_arrive();\n  ptx::barrier_cluster_wait();  // all sums", "// all sums", **CLUSTER
    ),
    "cluster: sums are not published": one("ptx::barrier_cluster_arrive();", READ_SUMS, **CLUSTER),
    "cluster: a CTA ends while its sums are read": Mutant(
        ((READ_SUMS, ""), ("ptx::barrier_cluster_wait();  // by all", "// by all")), **CLUSTER
    ),
    "cluster: sums are written where products read": one(
        f"{PRODUCTS_ARE_DONE}\n#pragma", "#pragma", **CLUSTER_OF_TWO
    ),
    "cluster: staging is stored before it is complete": one(
        f"ptx::barrier_sync(1 + index, 128);  // staging is complete\n  {READ_SUMS}", READ_SUMS, **CLUSTER
    ),
    "cluster: a share lacks its last tap": one("(rank + 1) / kClusterK}", "(rank + 1) / kClusterK - 1}", **CLUSTER),
    "cluster: a share begins a tap early": one(
        "{CHUNKS * R * S * rank / kClusterK", "{(CHUNKS * R * S * rank - 1) / kClusterK", **CLUSTER
    ),
    "cluster: a share of planes begins a tap late": one(
        "{CHUNKS * R * S * rank / kClusterK", "{CHUNKS * R * S * rank / kClusterK + 1", **CLUSTER_OF_TWO
    ),
    "cluster: a patch without taps is loaded": one(
        "if (!share.holds(tap - taps, taps)) continue;", "", **CLUSTER_OF_TWO
    ),
    "cluster: a plane without taps is counted as none": one(
        "tap += plane.taps_h * plane.taps_w;\n        continue;", "continue;", **CLUSTER_OF_TWO
    ),
    "cluster: the sum misses a peer": one("peer < kClusterK; ++peer", "peer < kClusterK - 1; ++peer", **CLUSTER),
    "cluster: a CTA adds up its own": one("thread), peer);", "thread), ptx::cluster_ctarank());", **CLUSTER),
    "cluster: every CTA stores the first pixels": one("ptx::cluster_ctarank() * STORE_GROUPS", "0", **CLUSTER),
    "cluster: a subtile's pixels are the first's": one("row += subtile * JOINED_ROWS;", "", **CLUSTER),
    "cluster: channels beyond K are stored": Mutant(((BEYOND_K, BEYOND_K.replace(" || k >= K", "")),), **CLUSTER_NCHW),
    "cluster: pixels beyond Q are stored": one("pixel.p < P && pixel.q < Q", "pixel.p < P", **CLUSTER),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_found(MUTANTS[name], monkeypatch)


SETTINGS = {(mutant.shape, *map(str, mutant.config.items())): mutant for mutant in MUTANTS.values()}


@pytest.mark.parametrize("mutant", SETTINGS.values(), ids=[str(i) for i in range(len(SETTINGS))])
def test_the_unbroken_kernel_passes_where_mutants_fail(mutant: Mutant) -> None:
    check(mutant)
