"""simd: the config that a user gets before any tuning."""

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.simd_blocks import blocks_default
from im2wingen.families.simd_config import (
    Prefetch,
    SimdConfig,
    SimdGeometry,
    SimdVectors,
    has_planes,
    largest_part,
    parts,
    vectors_of,
)
from im2wingen.families.simd_cost import step_cycles
from im2wingen.families.simd_products import Product, has_words, products_of
from im2wingen.families.simd_rules import streams_large_y
from im2wingen.families.simd_space import channel_chunks, counts, pixel_tiles, vector_counts
from im2wingen.problem import ConvProblem

_FAR_CHANNELS = 8  # NCHW: of so many all taps of one are read before the next
_MOST_COPIED_C = 32
_ITEMS_PER_CORE = 8
_ROW_PIXELS = 12  # of a tile of one row: three fours, as they go to their planes
_ROWS_GAIN = 0.08  # of planes that are written row by row
_PAGE_BYTES = 4096  # addresses that far apart share the sets of a cache


def default(problem: ConvProblem, target: CpuTarget) -> SimdConfig:
    """Tiles by the cycles of their steps, chunks whose filters and windows stay in L2, items enough for every core."""
    return default_by(problem, target, products_of(problem, target))


def default_by(problem: ConvProblem, target: CpuTarget, products: tuple[Product, ...]) -> SimdConfig:
    """The default that multiplies by one of these."""
    kinds = [
        SimdVectors(problem=problem, target=target, product=product, vector_of=kind)
        for product in products
        for kind in vectors_of(problem)
    ]
    tiles = [
        (of.steps * step_cycles(of, vectors, tile), i, vectors, tile)
        for i, of in enumerate(kinds)
        for vectors in vector_counts(of)
        for tile in pixel_tiles(of, vectors)[:1]
    ]
    _, i, vectors, tile = min(tiles)
    of = kinds[i]
    if has_words(problem):
        return blocks_default(of, vectors, tile)
    best = _fitting_default(of, vectors, tile)
    if not has_planes(problem):
        return best
    in_rows = _fitting_default(of, vectors, _along_a_row(of, vectors, tile))
    return in_rows if best.window == in_rows.window == "direct" else best  # rows of a tile share a copied window


def _fitting_default(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> SimdConfig:
    best = _default(of, vectors, tile, plain=False)
    geometry = SimdGeometry.of(of.problem, of.target, best)
    return best if geometry.thread_bytes <= of.target.l2_bytes else _default(of, vectors, tile, plain=True)


def _along_a_row(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> tuple[int, int, int]:
    """A tile of one row, if its steps take hardly longer: planes that are written row by row go out faster."""
    rows = [each for each in pixel_tiles(of, vectors) if each[1] == 1 and each[2] <= _ROW_PIXELS]
    longest = (1 + _ROWS_GAIN) * step_cycles(of, vectors, tile)
    return rows[0] if rows and step_cycles(of, vectors, rows[0]) <= longest else tile


def _default(of: SimdVectors, vectors: int, tile: tuple[int, int, int], *, plain: bool) -> SimdConfig:
    """The default of such tiles; a `plain` one takes no memory of a thread's own."""
    problem, target, element_bytes = of.problem, of.target, of.problem.element_bytes
    tile_n, tile_p, tile_q = tile
    in_planes = problem.x_layout != "nhwc" and of.hold_channels
    channels_far = in_planes and problem.group_c >= _FAR_CHANNELS
    collide = element_bytes * problem.h * problem.w % _PAGE_BYTES == 0
    copied = not plain and channels_far and collide
    tap_bytes = vectors * of.filter_lanes * element_bytes * problem.r * problem.s
    tile_rows = (tile_p - 1) * problem.stride_h + problem.window_h
    window_bytes = element_bytes * tile_n * tile_rows * problem.w if copied else 0
    block_c = problem.group_c if plain else _block_c(of, tap_bytes, window_bytes)
    filter_tiles = parts(of.group_vectors, vectors)
    streamed = not of.hold_images and streams_large_y(problem, target)
    planes_collide = has_planes(problem) and problem.y_element_bytes * problem.p * problem.q % _PAGE_BYTES == 0
    packed_bytes = element_bytes * problem.k * problem.gemm_k
    streamed_filter: Prefetch = "far" if packed_bytes > target.l2_bytes else "near"  # from L3, or from L2
    prefetch: Prefetch = streamed_filter if block_c * tap_bytes > target.l1_bytes // 2 else "hardware"
    candidates = [
        SimdConfig(
            product=of.product, vector_of=of.vector_of, vectors_k=vectors, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q,
            block_c=block_c, block_p=rows * tile_p,
            block_k=largest_part(filter_tiles, min(2, filter_tiles)) if copied else 1,
            window="copied" if copied else "direct", inner_loop="pixels",
            steps="taps" if channels_far and not copied else "channels",
            item_order="pixels" if packed_bytes > target.l2_bytes // 2 else "filters", unroll=4,
            prefetch=prefetch, tile_order="linear",
            store="streamed" if streamed or (planes_collide and not plain) else "cached", schedule="dynamic",
        )
        for rows in counts(parts(problem.p, tile_p))
    ]  # fmt: skip

    def rank(config: SimdConfig) -> tuple[bool, bool, int]:
        """Fits the caches, has enough items, then the largest; else the most."""
        geometry = SimdGeometry.of(problem, target, config)
        rows = config.block_p * problem.stride_h + problem.window_h
        x_bytes = element_bytes * tile_n * of.unit_images * rows * problem.w * problem.group_c
        kept = geometry.partial_bytes + geometry.copied_bytes > target.l2_bytes // 4
        large = kept or (not copied and x_bytes > target.l2_bytes // 2)
        few = geometry.items < _ITEMS_PER_CORE * target.cores
        return large, few, -geometry.items if few else geometry.items

    return min(candidates, key=rank)


def _block_c(of: SimdVectors, tap_bytes: int, window_bytes: int) -> int:
    """The most channels whose filters and, where it's copied, window leave room in L2; both are given for one."""
    problem, target = of.problem, of.target
    most = _MOST_COPIED_C if window_bytes else problem.group_c
    chunks = channel_chunks(problem, of.product)
    fitting = [
        c
        for c in chunks
        if c <= most and c * tap_bytes <= target.l2_bytes // 2 and c * window_bytes <= target.l2_bytes // 4
    ]
    return max(fitting, default=min(chunks))
