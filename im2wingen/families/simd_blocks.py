"""simd: the default of bf16 and int8, whose blocks of rows and of output channels follow from their cost."""

from dataclasses import replace

from im2wingen.families.simd_config import SimdConfig, SimdGeometry, SimdVectors, parts
from im2wingen.families.simd_cost import busy_cycles
from im2wingen.families.simd_products import lies_in_words
from im2wingen.families.simd_rules import legal_window, streams_large_y
from im2wingen.families.simd_space import channel_chunks, counts
from im2wingen.families.support import ceil_div

_LAST_ITEM = 0.15  # of an item's time: what the wait for the last core comes to
_PASSES = 0.4  # on AMX, what several passes over x and parts of y's pixels add, whose output channels lie together


def blocks_default(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> SimdConfig:
    """Such tiles, in the chunks and blocks that cost least; AMX takes all output channels of a few pixels in turn."""
    problem, target = of.problem, of.target
    tile_n, tile_p, tile_q = tile
    tiled = of.product == "amx"
    start = SimdConfig(
        product=of.product, vector_of=of.vector_of, vectors_k=vectors, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q,
        block_c=problem.group_c, block_p=tile_p, block_k=1,
        window="direct" if lies_in_words(problem, of.product) else "copied", steps="channels",
        inner_loop="filters" if tiled else "pixels", item_order="pixels", unroll=1 if tiled else 4,
        prefetch="far" if tiled else "hardware", tile_order="linear",
        store="streamed" if streams_large_y(problem, target) else "cached", schedule="dynamic",
    )  # fmt: skip
    if not legal_window(SimdGeometry.of(problem, target, start)):
        start = replace(start, window="copied")
    fitting = [
        geometry
        for block_c in channel_chunks(problem, of.product)
        for rows in counts(parts(problem.p, tile_p))
        for block_k in counts(parts(of.group_vectors, vectors))
        for geometry in [
            SimdGeometry.of(problem, target, replace(start, block_c=block_c, block_p=rows * tile_p, block_k=block_k))
        ]
        if geometry.thread_bytes <= target.l2_bytes // 2 and legal_window(geometry)
    ]
    if fitting:
        return min(fitting, key=_cost).config
    return replace(start, tile_n=1, tile_p=1, block_p=1)


def _cost(geometry: SimdGeometry) -> float:
    blocks = parts(geometry.filter_tiles, geometry.config.block_k)
    turns = ceil_div(geometry.items, geometry.target.cores)
    passes = 1 + _PASSES * (1 - 1 / blocks) if geometry.product == "amx" else 1
    return busy_cycles(geometry) * (1 + _LAST_ITEM / turns) * passes
