"""simd: cycles of a core, from counts alone."""

import itertools

from im2wingen.families.simd_config import SimdGeometry, SimdVectors, has_planes, parts
from im2wingen.families.support import ceil_div

_FMA_LATENCY = 4  # cycles
_LOADS_PER_CYCLE = 2
_L2_BYTES_PER_CYCLE = 16  # that stream into L1 beside everything else
_TILE_OVERHEAD = 1.0  # cycles, spread over a tile's steps
_COPY_BYTES_PER_CYCLE = 12
_COPY_CYCLES = 8  # of each run of elements
_ITEM_CYCLES = 300
_L3_FACTOR = 0.25  # what filters that don't stay in L2 add to the time of their steps


def step_cycles(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> float:
    """Cycles of one step (r, s, c) of all tiles of a group, those with fewer pixels or vectors included."""
    extents = zip((of.units, of.problem.p, of.columns, of.group_vectors), (*tile, vectors), strict=True)
    total = 0.0
    for cut in itertools.product(*(_sizes_of_parts(extent, most) for extent, most in extents)):
        (n, many_n), (p, many_p), (q, many_q), (v, many_v) = cut
        total += many_n * many_p * many_q * many_v * _tile_cycles(of, n * of.unit_vectors * p * q, v)
    return total


def busy_cycles(geometry: SimdGeometry) -> float:
    """Of the core that has most to do: steps, what tiles load and store around them, what items copy."""
    problem, target, config = geometry.problem, geometry.target, geometry.config
    tile = (config.tile_n, config.tile_p, config.tile_q)
    steps = problem.groups * problem.gemm_k * step_cycles(geometry, config.vectors_k, tile)
    filters = config.block_c * problem.r * problem.s * config.vectors_k * geometry.filter_lanes * problem.element_bytes
    if filters * (config.block_k if config.inner_loop == "filters" else 1) > target.l2_bytes // 2:
        steps *= 1 + _L3_FACTOR
    outputs = (
        geometry.units * geometry.unit_vectors * problem.p * geometry.columns * geometry.group_vectors * problem.groups
    )
    passes = 2 * (geometry.chunks - 1) + (2 if has_planes(problem) and geometry.hold_channels else 1)
    items: float = geometry.items * _ITEM_CYCLES
    if config.window == "copied":
        runs = geometry.copied_bytes / problem.element_bytes / _run_elements(geometry)
        items += geometry.items * geometry.chunks * (
            geometry.copied_bytes / _COPY_BYTES_PER_CYCLE + runs * _COPY_CYCLES
        )  # fmt: skip
    shares = ceil_div(geometry.items, target.cores) / geometry.items
    return shares * (steps + outputs * passes + items)


def _run_elements(geometry: SimdGeometry) -> int:
    """That are copied at once."""
    if geometry.problem.x_layout == "nhwc":
        return geometry.config.block_c
    loose = geometry.problem.x_layout == "chwn" and geometry.hold_images
    return geometry.config.tile_n * geometry.lanes if loose else geometry.problem.w * geometry.unit_images


def _tile_cycles(of: SimdVectors, pixels: int, vectors: int) -> float:
    streamed = vectors if of.hold_channels else pixels
    loads = vectors + (2 if of.vector_of == "pixels" else 1) * pixels  # of a row few vectors lie in one cache line
    return _TILE_OVERHEAD + max(
        pixels * vectors / of.target.fma_per_cycle, _FMA_LATENCY, loads / _LOADS_PER_CYCLE,
        streamed * of.vector_bytes / _L2_BYTES_PER_CYCLE,
    )  # fmt: skip


def _sizes_of_parts(extent: int, most: int) -> list[tuple[int, int]]:
    """Each size of the equal parts, and how many there are."""
    least, longer = divmod(extent, parts(extent, most))
    sizes_and_counts = ((least, parts(extent, most) - longer), (least + 1, longer))
    return [(size, count) for size, count in sizes_and_counts if count]
