"""Shared memory that split operands of the wgmma family take besides patches, filters and what lands."""

from im2wingen.families.wgmma_config import CHANNELS_M, WgmmaConfig
from im2wingen.problem import ConvProblem

_BARRIER_BYTES = 8


def split_staging_bytes(problem: ConvProblem, config: WgmmaConfig, *, staged_groups: int, bulk_rows: int | None) -> int:
    """Of all consumers: 64 channels of each, in rows that are padded against bank conflicts.

    `bulk_rows`: of y in a consumer's tile, whose stores are bulk copies of 32 channels; None where they are not.
    """
    if bulk_rows is not None:
        run = min(bulk_rows, problem.p) * problem.q
        channel = run if bulk_rows >= problem.p else (run + 3) // 8 * 8 + 4
        return 4 * 4 * config.num_consumer_warpgroups * config.tile_n * (8 * channel + 4)
    pixels = 8 * staged_groups
    return 4 * CHANNELS_M * (pixels + 8) * config.num_consumer_warpgroups if pixels else 0


def splitting_bytes(config: WgmmaConfig, *, filter_rings: int) -> int:
    """What splitters and consumers tell each other by."""
    splitters = 4 * config.num_producer_warpgroups - 1 - filter_rings  # warps
    landing = 2 * _BARRIER_BYTES
    return config.patch_stages * (_BARRIER_BYTES + 4) + 2 * 4 * splitters + landing
