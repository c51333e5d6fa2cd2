"""The part of wgmma's search space that is for split operands."""

from dataclasses import replace

from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_axes import horizontal, vertical
from im2wingen.families.wgmma_config import CHANNELS_M, InputStaging, WgmmaConfig
from im2wingen.families.wgmma_geometry import BULK_STORE_GROUPS, WgmmaGeometry
from im2wingen.families.wgmma_landing import SPLIT_CHANNELS
from im2wingen.families.wgmma_split_rules import MAX_PROMOTION_TAPS, SPLIT_STORE_GROUPS, stores_in_bulk
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_ROOMY_FILTER_STAGES, _ROOMY_APART = 5, 3  # measured; where consumers may begin apart


def fits(problem: ConvProblem, target: Target, config: WgmmaConfig) -> bool:
    return WgmmaGeometry(problem=problem, config=config).smem_bytes <= target.smem_per_block_bytes


def split_stagings(problem: ConvProblem, target: Target) -> list[InputStaging]:
    """The pass into NHWC only where an NCHW x may be unable to land."""
    if problem.x_layout == "nhwc":
        return ["tma"]
    # a small tile's patch, twice and as it lands, in half of shared memory
    patch = vertical(problem).extent(4) * horizontal(problem).extent(8) * 4 * SPLIT_CHANNELS
    lands = problem.w % 4 == 0 and 2 * (2 + problem.stride_w) * patch <= target.smem_per_block_bytes
    return ["transposed"] if lands else ["transposed", "tma"]


def may_be_resident(problem: ConvProblem, target: Target) -> bool:
    """Whether all filters of 64 output channels fit shared memory."""
    chunks = ceil_div(problem.c, SPLIT_CHANNELS)
    return problem.r * problem.s * chunks * CHANNELS_M * 4 * SPLIT_CHANNELS <= target.smem_per_block_bytes


def split_columns(extents: list[int], problem: ConvProblem) -> list[int]:
    """Columns of a tile: even where y is NCHW, so that neighbours leave in pairs."""
    if problem.y_layout == "nhwc" or problem.q % 2:
        return extents
    return list(dict.fromkeys(extent + extent % 2 for extent in extents))


def repeats_columns(problem: ConvProblem, config: WgmmaConfig) -> bool:
    """Whether patches with their columns repeated are tried: where a row has several taps."""
    return config.arithmetic == "split" and config.input_staging == "transposed" and horizontal(problem).taps_of(0) > 1


def split_store_groups(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """In bulk; staged where neighbours in registers are not those of y, or lie in pairs of none; from registers, before
    those that leave little room for filters.
    """
    geometry = WgmmaGeometry(problem=problem, config=config)
    groups = geometry.groups_n
    if problem.y_layout == "nhwc":
        return [groups]
    staged = [BULK_STORE_GROUPS] if stores_in_bulk(geometry) else []
    if scatters(config, problem):
        staged += [g for g in SPLIT_STORE_GROUPS if g * 8 % config.tile_n == 0]
    staged = [g for g in staged if g < groups]

    def fit_beside(stages: int) -> list[int]:
        beside = replace(config, patch_stages=geometry.least_patch_stages, filter_stages=stages)
        return [g for g in staged if fits(problem, target, replace(beside, store_groups=g))]

    least = least_filter_stages(config)
    wanted = _ROOMY_APART if may_stagger(config, problem, target) else _ROOMY_FILTER_STAGES
    roomy = fit_beside(least if config.filter_resident else wanted)
    return [*roomy, groups, *(g for g in fit_beside(least) if g not in roomy)]


def scatters(config: WgmmaConfig, problem: ConvProblem) -> bool:
    """Whether pixels of an NCHW y that are neighbours in registers are not in y, or lie in pairs of none."""
    return problem.y_layout == "nchw" and (config.tile_n > 1 or problem.q % 2 == 1 or config.tile_q % 2 == 1)


def may_stagger(config: WgmmaConfig, problem: ConvProblem, target: Target) -> bool:
    """Two consumers of the same pixels, where a CTA has several tiles of several patches."""
    geometry = WgmmaGeometry(problem=problem, config=config)
    several = geometry.least_patch_stages > 1 and geometry.tiles > target.sm_count
    two = config.arithmetic == "split" and config.split == "filters" and config.num_consumer_warpgroups == 2
    return two and several


def staggers(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[bool]:
    """Whether consumers begin apart: where they may; first where stores take long."""
    geometry = WgmmaGeometry(problem=problem, config=config)
    if not may_stagger(config, problem, target):
        return [False]
    apart = replace(config, staggered=True, patch_stages=geometry.least_patch_stages)
    if not fits(problem, target, replace(apart, filter_stages=least_filter_stages(apart))):
        return [False]
    long = scatters(config, problem) and not geometry.bulk_stores
    return [True, False] if long else [False, True]


def by_sums(config: WgmmaConfig, problem: ConvProblem) -> list[int]:
    """Taps of a partial sum, those that make the fewest sums first; the fewer taps, the more exact."""
    if config.arithmetic != "split":
        return [1]
    geometry = WgmmaGeometry(problem=problem, config=config)
    choices = range(1, min(MAX_PROMOTION_TAPS, geometry.plane_taps[0]) + 1)

    def sums(taps: int) -> int:
        return WgmmaGeometry(problem=problem, config=replace(config, promotion_taps=taps)).partial_sums

    return sorted(choices, key=lambda taps: (sums(taps), taps))


def promotions(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """The best whose filters fit shared memory together; first those that leave room for filters of the next sum."""
    least = WgmmaGeometry(problem=problem, config=config).least_patch_stages

    def fit_beside(more: int) -> list[int]:
        stages = {taps: least_filter_stages(replace(config, promotion_taps=taps)) for taps in by_sums(config, problem)}
        beside = replace(config, patch_stages=least)
        return [t for t, s in stages.items() if fits(problem, target, replace(beside, filter_stages=s + more))]

    roomy = fit_beside(0 if config.filter_resident else 1)
    return [*roomy, *(taps for taps in fit_beside(0) if taps not in roomy)][:3] or [1]


def likely(config: WgmmaConfig, problem: ConvProblem) -> WgmmaConfig:
    """With the partial sums and, of split operands, the stores that it has if they fit beside two patches."""
    config = replace(config, patch_stages=2, promotion_taps=by_sums(config, problem)[0])
    geometry = WgmmaGeometry(problem=problem, config=config)
    if config.arithmetic != "split":
        return config
    return replace(config, store_groups=BULK_STORE_GROUPS if stores_in_bulk(geometry) else geometry.groups_n)


def least_filter_stages(config: WgmmaConfig) -> int:
    return 1 if config.filter_resident else max(2, config.promotion_taps)
