"""simd: the config that a user gets before any tuning."""

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.simd_config import (
    SimdConfig,
    SimdGeometry,
    SimdVectors,
    has_planes,
    largest_part,
    parts,
)
from im2wingen.families.simd_cost import step_cycles
from im2wingen.families.simd_rules import streams
from im2wingen.families.simd_space import channel_chunks, counts, pixel_tiles, vector_counts
from im2wingen.problem import ConvProblem

_COPIED_C, _MOST_COPIED_C = 8, 32  # NCHW: so many channels lie too far apart to be read in place
_ITEMS_PER_CORE = 8
_PAGE_BYTES = 4096  # addresses that far apart share the sets of a cache
_STREAMED_BYTES = 8 << 20  # of y: what no cache keeps for the next layer


def default(problem: ConvProblem, target: CpuTarget) -> SimdConfig:
    """Tiles by the cycles of their steps, chunks whose filters and windows stay in L2, items enough for every core."""
    tiles = [
        (step_cycles(problem, target, vectors, tile), vectors, tile)
        for vectors in vector_counts(problem, target)
        for tile in pixel_tiles(problem, target, vectors)[:1]
    ]
    _, vectors, tile = min(tiles)
    best = _default(problem, target, vectors, tile, plain=False)
    geometry = SimdGeometry(problem=problem, target=target, config=best)
    return best if geometry.thread_bytes <= target.l2_bytes else _default(problem, target, vectors, tile, plain=True)


def _default(
    problem: ConvProblem, target: CpuTarget, vectors: int, tile: tuple[int, int, int], *, plain: bool
) -> SimdConfig:
    """The default of such tiles; a `plain` one takes no memory of a thread's own."""
    of, element_bytes = SimdVectors(problem=problem, target=target), problem.element_bytes
    tile_n, tile_p, tile_q = tile
    in_planes = problem.x_layout != "nhwc" and not of.hold_images
    copied = not plain and in_planes and problem.group_c >= _COPIED_C
    tap_bytes = vectors * of.filter_lanes * element_bytes * problem.r * problem.s
    tile_rows = (tile_p - 1) * problem.stride_h + problem.window_h
    window_bytes = element_bytes * tile_n * tile_rows * problem.w if copied else 0
    block_c = problem.group_c if plain else _block_c(problem, target, tap_bytes, window_bytes)
    filter_tiles = parts(of.group_vectors, vectors)
    large_y = element_bytes * problem.gemm_m * problem.k > _STREAMED_BYTES
    streamed = large_y and not of.hold_images and streams(problem, target)
    planes_collide = has_planes(problem) and element_bytes * problem.p * problem.q % _PAGE_BYTES == 0
    packed_bytes = element_bytes * problem.k * problem.gemm_k
    candidates = [
        SimdConfig(
            vectors_k=vectors, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, block_c=block_c, block_p=rows * tile_p,
            block_k=largest_part(filter_tiles, min(2, filter_tiles)) if copied else 1,
            window="copied" if copied else "direct", steps="channels", inner_loop="pixels",
            item_order="pixels" if packed_bytes > target.l2_bytes // 2 else "filters", unroll=4,
            prefetch="near" if block_c * tap_bytes > target.l1_bytes // 2 else "hardware", tile_order="linear",
            store="streamed" if streamed or (planes_collide and not plain) else "cached", schedule="dynamic",
        )
        for rows in counts(parts(problem.p, tile_p))
    ]  # fmt: skip

    def rank(config: SimdConfig) -> tuple[bool, bool, int]:
        """Fits the caches, has enough items, then the largest."""
        geometry = SimdGeometry(problem=problem, target=target, config=config)
        rows = config.block_p * problem.stride_h + problem.window_h
        x_bytes = element_bytes * tile_n * of.unit_images * rows * problem.w * problem.group_c
        kept = geometry.partial_bytes + geometry.copied_bytes > target.l2_bytes // 4
        large = kept or (not copied and x_bytes > target.l2_bytes // 2)
        return large, geometry.items < _ITEMS_PER_CORE * target.cores, geometry.items

    return min(candidates, key=rank)


def _block_c(problem: ConvProblem, target: CpuTarget, tap_bytes: int, window_bytes: int) -> int:
    """The most channels whose filters and, where it's copied, window leave room in L2; both are given for one."""
    most = _MOST_COPIED_C if window_bytes else problem.group_c
    fitting = [
        c
        for c in channel_chunks(problem)
        if c <= most and c * tap_bytes <= target.l2_bytes // 2 and c * window_bytes <= target.l2_bytes // 4
    ]
    return max(fitting, default=min(channel_chunks(problem)))
