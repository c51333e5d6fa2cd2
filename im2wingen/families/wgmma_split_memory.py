"""Shared memory that split operands of the wgmma family take besides patches and filters."""

from typing import TYPE_CHECKING

from im2wingen.families.wgmma_config import CHANNELS_M

if TYPE_CHECKING:
    from im2wingen.families.wgmma_geometry import WgmmaGeometry

_BARRIER_BYTES = 8


def split_staging_bytes(geometry: "WgmmaGeometry") -> int:
    """Of all consumers: 64 channels of each, in rows that are padded against bank conflicts; 32 of bulk stores."""
    config, problem = geometry.config, geometry.problem
    if geometry.bulk_stores:
        run = min(geometry.own_rows, problem.p) * problem.q
        channel = run if geometry.own_rows >= problem.p else (run + 3) // 8 * 8 + 4
        return 4 * 4 * config.num_consumer_warpgroups * config.tile_n * (8 * channel + 4)
    pixels = 8 * geometry.staged_groups
    return 4 * CHANNELS_M * (pixels + 8) * config.num_consumer_warpgroups if pixels else 0


def landing_bytes(geometry: "WgmmaGeometry") -> int:
    """Where an NCHW x lands, which is transposed while it is split."""
    landing = geometry.landing if geometry.config.input_staging == "transposed" else None
    return landing.stage_bytes if landing else 0


def splitting_bytes(geometry: "WgmmaGeometry") -> int:
    """What splitters and consumers tell each other by."""
    config = geometry.config
    splitters = 4 * config.num_producer_warpgroups - 1 - geometry.filter_rings  # warps
    landing = 2 * _BARRIER_BYTES
    return config.patch_stages * (_BARRIER_BYTES + 4) + 2 * 4 * splitters + landing
