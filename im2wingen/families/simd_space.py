"""simd: the search space."""

from functools import lru_cache
from typing import Any, get_args

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.base import Choose
from im2wingen.families.simd_config import (
    InnerLoop,
    Prefetch,
    SimdConfig,
    SimdVectors,
    Store,
    VectorOf,
    Window,
    has_planes,
    largest_part,
    parts,
    vectors_of,
)
from im2wingen.families.simd_cost import step_cycles
from im2wingen.families.simd_products import (
    TILE_REGISTERS,
    TILE_ROWS,
    Product,
    has_words,
    lies_in_words,
    products_of,
    tile_registers,
    word_channels,
)
from im2wingen.families.simd_rules import streams
from im2wingen.families.support import ceil_div
from im2wingen.problem import ConvProblem

_MOST_TIMES_SLOWER = 3
_TILES = 10  # offered for one number of vectors


@lru_cache(maxsize=256)
def pixel_tiles(of: SimdVectors, vectors: int) -> tuple[tuple[int, int, int], ...]:
    """The best (tile_n, tile_p, tile_q) for so many vectors of output channels, best first."""
    shapes = _register_rows(of, vectors) if of.product == "amx" else _vector_tiles(of, vectors)
    ranked = sorted(shapes, key=lambda tile: (step_cycles(of, vectors, tile), tile))
    return tuple(ranked[:_TILES])


def _vector_tiles(of: SimdVectors, vectors: int) -> set[tuple[int, int, int]]:
    problem, free = of.problem, of.target.num_vector_registers - 1
    most = max(1, free // vectors - 1 if of.hold_channels else free // (vectors + 1) // of.unit_vectors)
    tiles = set()
    for q in sizes(of.columns, most):
        for p in sizes(problem.p, most // q):
            whole = of.hold_images or (p, q) == (problem.p, of.columns)
            tiles |= {(n, p, q) for n in sizes(of.units, most // (q * p)) if n == 1 or whole}
    return tiles


def _register_rows(of: SimdVectors, vectors: int) -> set[tuple[int, int, int]]:
    """Of AMX: a tile register for each row of pixels."""
    most = max(rows for rows in range(1, TILE_REGISTERS) if tile_registers(rows, vectors) <= TILE_REGISTERS)
    return {
        (n, p, q)
        for q in sizes(of.columns, TILE_ROWS)
        for p in sizes(of.problem.p, most)
        for n in sizes(of.units, most // p)
        if n == 1 or p == of.problem.p
    }


def sizes(extent: int, most: int) -> list[int]:
    """Sizes up to `most` that are the largest of equal parts."""
    return [size for size in range(1, min(extent, most) + 1) if largest_part(extent, size) == size]


def vector_counts(of: SimdVectors) -> list[int]:
    """Vectors of output channels of a tile; single ones where vectors hold images or pixels."""
    registers = of.target.num_vector_registers
    most = min(6, registers // 4) if of.hold_channels else (registers - 1) // of.unit_vectors - 1
    return sizes(of.group_vectors, most)


@lru_cache(maxsize=256)
def worthwhile_products(problem: ConvProblem, target: CpuTarget) -> tuple[Product, ...]:
    """Those that the cost model doesn't find several times slower than the best."""

    def cycles(product: Product) -> float:
        kinds = [
            SimdVectors(problem=problem, target=target, product=product, vector_of=kind) for kind in vectors_of(problem)
        ]
        return min(
            of.steps * step_cycles(of, vectors, pixel_tiles(of, vectors)[0])
            for of in kinds
            for vectors in vector_counts(of)
        )

    able = products_of(problem, target)
    if len(able) == 1:
        return able
    found = {product: cycles(product) for product in able}
    return tuple(product for product in able if found[product] <= _MOST_TIMES_SLOWER * min(found.values()))


def channel_chunks(problem: ConvProblem, product: Product) -> list[int]:
    """Channels of a chunk: all, or whole parts of them, in whole words."""
    c, word = problem.group_c, word_channels(problem, product)
    parts_of_c = {n: ceil_div(ceil_div(c, word), n) * word for n in (2, 3, 4, 6, 8, 16, 32)}
    return sorted({c, *(part for part in parts_of_c.values() if 8 <= part < c)})


def windows(problem: ConvProblem, product: Product) -> tuple[Window, ...]:
    """Where the micro-kernel finds x."""
    if not has_words(problem):
        return get_args(Window)
    return ("direct", "copied") if lies_in_words(problem, product) else ("copied",)


def counts(extent: int) -> list[int]:
    """1, 2, 4 ... and all, as largest of equal parts."""
    return sorted({largest_part(extent, min(n, extent)) for n in (1, 2, 3, 4, 6, 8, 12, 16, 32, extent)})


def stores(problem: ConvProblem, target: CpuTarget, inner_loop: InnerLoop) -> tuple[Store, ...]:
    """Ways to store."""
    if has_planes(problem):
        return ("cached", "staged", "streamed") if inner_loop == "pixels" else ("cached",)
    return ("cached", "streamed") if streams(problem, target) else ("cached",)


def suggest(problem: ConvProblem, target: CpuTarget, choose: Choose) -> SimdConfig:
    """A config from the search space; most of its picks are legal together."""
    product: Product = choose("product", worthwhile_products(problem, target))
    vector_of: VectorOf = choose("vector_of", vectors_of(problem))
    of = SimdVectors(problem=problem, target=target, product=product, vector_of=vector_of)
    kind, tiled = f"{vector_of}.{product}", product == "amx"
    vectors = choose(f"vectors_k.{kind}", vector_counts(of))
    tiles = ["x".join(map(str, tile)) for tile in pixel_tiles(of, vectors)]
    tile_n, tile_p, tile_q = map(int, choose(f"tile_n,tile_p,tile_q.{kind}.{vectors}", tiles).split("x"))
    filter_tiles = parts(of.group_vectors, vectors)
    rows = [n * tile_p for n in counts(parts(problem.p, tile_p))]
    inner_loop: InnerLoop = choose("inner_loop", get_args(InnerLoop))
    picks: dict[str, Any] = {
        "block_c": choose(f"block_c.{product}", channel_chunks(problem, product)),
        "block_p": choose(f"block_p.{tile_p}", rows),
        "block_k": choose(f"block_k.{kind}.{vectors}", counts(filter_tiles)),
        "window": choose(f"window.{product}", windows(problem, product)),
        "steps": choose(f"steps.{product}", ("channels",) if tiled else ("channels", "taps")),
        "inner_loop": inner_loop,
        "item_order": choose("item_order", ("pixels", "filters")),
        "unroll": choose(f"unroll.{product}", (1,) if tiled else (1, 2, 4, 8, 16)),
        "prefetch": choose("prefetch", get_args(Prefetch)),
        "tile_order": choose("tile_order", ("linear", "zigzag")),
        "store": choose(f"store.{inner_loop}", stores(problem, target, inner_loop)),
        "schedule": choose("schedule", ("static", "dynamic")),
    }
    return SimdConfig(
        product=product, vector_of=vector_of, vectors_k=vectors, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, **picks
    )  # fmt: skip
