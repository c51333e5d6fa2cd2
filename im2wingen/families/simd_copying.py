"""simd: the default of problems whose windows have to be copied, since bf16 or int8 x doesn't lie in words."""

from dataclasses import replace

from im2wingen.families.simd_config import SimdConfig, SimdGeometry, SimdVectors, parts
from im2wingen.families.simd_cost import busy_cycles
from im2wingen.families.simd_rules import streams_large_y
from im2wingen.families.simd_space import channel_chunks, counts

_ITEMS_PER_CORE = 4


def copying_default(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> SimdConfig:
    """The chunks and blocks of such tiles that cost least: of rows, which are copied, and of output channels."""
    problem, target = of.problem, of.target
    tile_n, tile_p, tile_q = tile
    filter_tiles = parts(of.group_vectors, vectors)
    best = SimdConfig(
        product=of.product, vector_of=of.vector_of, vectors_k=vectors, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q,
        block_c=problem.group_c, block_p=tile_p, block_k=1, window="copied", steps="channels", inner_loop="pixels",
        item_order="pixels", unroll=1 if of.product == "amx" else 4, prefetch="hardware", tile_order="linear",
        store="streamed" if streams_large_y(problem, target) else "cached", schedule="dynamic",
    )  # fmt: skip
    fitting = [
        geometry
        for block_c in channel_chunks(problem, of.product)
        for rows in counts(parts(problem.p, tile_p))
        for block_k in counts(filter_tiles)
        for geometry in [
            SimdGeometry.of(problem, target, replace(best, block_c=block_c, block_p=rows * tile_p, block_k=block_k))
        ]
        if geometry.thread_bytes <= target.l2_bytes // 2
    ]
    if fitting:
        most = max(geometry.items for geometry in fitting)
        enough = min(most, _ITEMS_PER_CORE * target.cores)
        return min((geometry for geometry in fitting if geometry.items >= enough), key=busy_cycles).config
    return replace(best, tile_n=1, tile_p=1, block_p=1)
