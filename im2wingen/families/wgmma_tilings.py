"""Tiles of the wgmma family's search space."""

from collections.abc import Iterator
from dataclasses import replace

from im2wingen.families.base import Arithmetic
from im2wingen.families.support import ceil_div, round_up
from im2wingen.families.wgmma_axes import flattens
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_split_space import repeats_columns, split_columns
from im2wingen.problem import ConvProblem

_MOST_JOINED: dict[Arithmetic, int] = {
    "direct": 8,
    "scaled": 8,
    "split": 16,
}  # rows; whole planes are stored in bulk


def _parts(extent: int, *, most: int) -> list[int]:
    """Extents of a tile that cut `extent` in near-equal parts, none above `most`, the largest first."""
    sizes = range(min(extent, most), 0, -1)
    return [size for size in sizes if ceil_div(extent, ceil_div(extent, size)) == size]


def _runs(extent: int) -> list[int]:
    """Near-equal runs of pixels, of which none comes twice; and in whole products, which may be stored in parts."""
    equal = {ceil_div(extent, ceil_div(extent, most)) for most in range(8, min(256, round_up(extent, 8)) + 1, 8)}
    return sorted(equal | {round_up(columns, 8) for columns in equal})


def tiled(problem: ConvProblem, base: WgmmaConfig) -> Iterator[WgmmaConfig]:
    """`base` with each tile that is worth a look, if it is legal."""
    if flattens(problem):
        for tile_p in _parts(problem.p, most=problem.p):
            for tile_q in _runs(problem.q):
                yield replace(base, tile_p=tile_p, tile_q=tile_q)
        return
    shared = base.num_consumer_warpgroups if base.split == "pixels" else 1
    for tile_p in _parts(problem.p, most=32):
        for blocks in (shared, 2 * shared):
            yield replace(base, mapping="block", tile_p=tile_p, tile_q=8 * blocks)
        if tile_p <= 4:
            break
    for tile_n in (1, 2, 4, 8, 16):
        if tile_n > problem.n and tile_n > 1:
            break
        columns = _parts(problem.q, most=256)[:4]
        for tile_q in split_columns(columns, problem) if base.arithmetic == "split" else columns:
            if tile_q * tile_n > 256:
                continue
            for joined in range(1, min(problem.p, _MOST_JOINED[base.arithmetic]) + 1):
                config = replace(base, tile_n=tile_n, tile_q=tile_q, joined_rows=joined, tile_p=joined)
                if joined > 1 and repeats_columns(problem, base):
                    yield replace(config, mapping="repeated", tile_p=joined * shared)
                if WgmmaGeometry(problem=problem, config=config).wgmma_n > 256:
                    break
                for subtiles in range(1, ceil_div(problem.p, joined) + 1):
                    wide = replace(config, tile_p=joined * subtiles * shared)
                    if WgmmaGeometry(problem=problem, config=wide).num_accumulators > 216:
                        break
                    yield wide
