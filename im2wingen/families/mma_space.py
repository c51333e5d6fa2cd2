"""The search space of the mma family."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar, get_args

from im2wingen.families.base import Choose
from im2wingen.families.mma_choices import (
    LARGE_TILES,
    SMALL_TILES,
    copy_choices,
    orders,
    patch_k_choices,
    promote_choices,
    promotes,
    shape_choices,
    splits,
    warp_columns,
)
from im2wingen.families.mma_config import MmaConfig, Staging, padded_channels
from im2wingen.families.mma_cost import thread_registers
from im2wingen.families.mma_rules import (
    estimated_registers,
    iterations,
    launches_early,
    register_limit,
    smem_fits,
    spreads,
)
from im2wingen.families.support import FilterOrder, ceil_div, unit_elements
from im2wingen.families.tiles import PixelTile, pixel_tiles
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
_SMALL_COUNT, _LARGE_COUNT = 5, 8  # candidates of a size
_LONG_K = 4096  # bytes of the K axis from which warps may share a tile
_THRIFT = 24  # registers that the compiler saves where it has to


@lru_cache(maxsize=64)
def _tiles(problem: ConvProblem) -> Mapping[str, PixelTile]:
    """Candidates by name."""
    small = pixel_tiles(problem, sizes=SMALL_TILES, per_size=_SMALL_COUNT)
    return {str(tile): tile for tile in small + pixel_tiles(problem, sizes=LARGE_TILES, per_size=_LARGE_COUNT)}


def _patches_that_fit(problem: ConvProblem, target: Target, tile: PixelTile) -> list[int]:
    """Channels of a chunk in row order whose patches, two if there are more, leave room for the filter's slices."""
    room = 3 * target.smem_per_block_bytes // 4 // (tile.patch_pixels(problem) * problem.element_bytes)
    sizes = patch_k_choices(problem)
    channels = padded_channels(problem, "row")
    return [s for s in sizes if (s + unit_elements(problem)) * min(2, ceil_div(channels, s)) <= room] or sizes[:1]


def _choose_of(choose: Choose, name: str, choices: Sequence[T]) -> T:
    """A pick whose choices depend on earlier ones; they go into the name, and a single one is no choice."""
    return choices[0] if len(choices) == 1 else choose(f"{name}.{'_'.join(map(str, choices))}", choices)


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> MmaConfig:
    """A config from the search space; most of its picks are legal together."""
    unit, channels = unit_elements(problem), padded_channels(problem, "row")
    staging = choose("staging", list(get_args(Staging)))
    order: FilterOrder = "column" if staging == "explicit" else "row"
    if staging == "window":
        order = choose("window_order", orders(problem))
    warps_n, warp_n = map(int, choose("warps_n,warp_n", warp_columns(problem)).split("x"))
    tile = _tiles(problem)[choose("tile_n,tile_p,tile_q", list(_tiles(problem)))]
    by_rows = staging == "window" and order == "row"
    patch_k = padded_channels(problem, order)
    if by_rows:
        patch_k = _choose_of(choose, "patch_k", _patches_that_fit(problem, target, tile))
    mma_shape = _choose_of(choose, "mma_shape", shape_choices(problem, target))
    step = int(mma_shape.partition("k")[2])
    blocks = [m * unit for m in ((2, 4, 8) if order == "run" else (4, 8, 16)) if m * unit % step == 0]
    if by_rows and patch_k < channels:  # whole slices
        blocks = [b for b in blocks if patch_k % b == 0] or [2 * unit if patch_k % (2 * unit) == 0 else blocks[0]]
    block_k = _choose_of(choose, "block_k", blocks)
    shared = problem.gemm_k * problem.element_bytes >= _LONG_K and warps_n <= 2
    warps_k = _choose_of(choose, "warps_k", [1, 2] if shared else [1])
    even = block_k // (step * warps_k) % 2 == 0
    fragment_stages = _choose_of(choose, "fragment_stages", [1, 2] if even else [1])
    if staging == "explicit" or order == "run":
        copy_bytes = 16 if staging == "explicit" else copy_choices(problem, order)[0]
    else:
        copy_bytes = choose("copy_bytes", copy_choices(problem, order)[:2])
    config = MmaConfig(
        staging=staging,
        window_order=order,
        tile_n=tile.n,
        tile_p=tile.p,
        tile_q=tile.q,
        warps_m=1,
        warps_n=warps_n,
        warps_k=warps_k,
        warp_n=warp_n,
        patch_k=patch_k,
        block_k=block_k,
        mma_shape=mma_shape,
        promote_k=promote_choices(problem)[-1],
        copy_bytes=copy_bytes,
        num_stages=2,
        fragment_stages=fragment_stages,
        pad_rows=choose("pad_rows", [False, True]) if staging == "window" and order != "run" else False,
        spread_copies=False,
        ctas_per_sm=1,
        programmatic_launch=_choose_of(choose, "programmatic_launch", [False, True][: 1 + launches_early(target)]),
        tile_order=choose("tile_order", ["linear", "zigzag"]),
        fragment_order=choose("fragment_order", ["linear", "zigzag"]),
    )
    if splits(problem):
        fair = [k for k in promote_choices(problem) if promotes(replace(config, promote_k=k))]
        config = replace(config, promote_k=_choose_of(choose, "promote_k", fair or [config.promote_k]))
    config = replace(config, warps_m=_choose_of(choose, "warps_m", _warp_rows(problem, target, config)))
    config = replace(config, num_stages=_choose_of(choose, "num_stages", _stages(problem, target, config)))
    extra = [False, True] if spreads(problem, config) else [False]
    config = replace(config, spread_copies=_choose_of(choose, "spread_copies", extra))
    return replace(config, ctas_per_sm=_choose_of(choose, "ctas_per_sm", _ctas(problem, target, config)))


def _warp_rows(problem: ConvProblem, target: Target, config: MmaConfig) -> list[int]:
    """Warps along the pixels whose threads' registers hold their tile; 32 pixels a warp are few, 160 many."""
    ways = [replace(config, warps_m=n) for n in (1, 2, 4)]
    fair = [way for way in ways if (way.warp_m >= 32 or way.warps_m == 1) and way.warp_m <= 160 and way.threads <= 512]
    return [way.warps_m for way in fair if _registers_suffice(problem, target, way)] or [4 // config.warps_k]


def _registers_suffice(problem: ConvProblem, target: Target, config: MmaConfig) -> bool:
    limit = register_limit(target, config)
    return thread_registers(problem, config) - _THRIFT <= limit and estimated_registers(problem, config) <= limit


def _stages(problem: ConvProblem, target: Target, config: MmaConfig) -> list[int]:
    """Up to four that fit shared memory and the K axis; fragments loaded ahead need two."""
    counts = range(config.fragment_stages, max(2, min(4, iterations(problem, config))) + 1)
    return [n for n in counts if smem_fits(problem, target, replace(config, num_stages=n))] or [2]


def _ctas(problem: ConvProblem, target: Target, config: MmaConfig) -> list[int]:
    """CTAs of an SM, up to three, that shared memory and registers allow."""
    ways = [replace(config, ctas_per_sm=n) for n in (2, 3)]
    fair = [way for way in ways if smem_fits(problem, target, way) and _registers_suffice(problem, target, way)]
    return [1, *(way.ctas_per_sm for way in fair if way.ctas_per_sm * way.threads <= target.max_threads_per_sm)]
