"""simd: cycles of a core, from counts alone."""

import itertools

from im2wingen.families.simd_config import SimdGeometry, SimdVectors, has_planes, parts
from im2wingen.families.simd_products import has_words, tile_words, word_bytes
from im2wingen.families.support import ceil_div

_FMA_LATENCY = 4  # cycles
_LOADS_PER_CYCLE = 2
_L2_BYTES_PER_CYCLE = 16  # that stream into L1 beside everything else
_WINDOW_BYTES_PER_CYCLE = 12  # from L2
_ROW_CYCLES = 4  # of a window's row, which the hardware hardly foresees
_TILE_OVERHEAD = 1.0  # cycles, spread over a tile's steps
_COPY_BYTES_PER_CYCLE = 12
_COPY_CYCLES = 8  # of each run of elements
_GATHERED_WORDS = 5  # from several planes, that take as long as a run's begin
_FEW_WORDS = 4  # of a pixel, which are gathered likewise
_ITEM_CYCLES = 300
_L3_FACTOR = 0.25  # what filters that don't stay in L2 add to the time of their steps
_STRIDED_FACTOR = 0.08  # what steps that leap through x add
_FEW_CHANNELS = 8  # fewer than that lie near each other in any layout
_STATIC_FACTOR = 0.03  # what the wait for the last core adds where no other takes its items
_LINE_BYTES = 64
_WIDENED_FACTOR = 2.0  # int16's products are added by an instruction of their own, bf16's by one that takes two cycles
_TILE_FEWEST_ROWS = 10  # of a tile register: fewer are multiplied no faster
_TILE_ROWS_PER_CYCLE = 2  # that are loaded
_TILE_L2_BYTES_PER_CYCLE = 32
_TILE_OUTPUT_CYCLES = 3  # of a vector of sums, from its tile to y
_RUN_CYCLES = 24  # of four neighbours of a plane, each a vector of channels, that are transposed and stored
_SCATTERED_CYCLES = 64  # of a vector of channels whose elements go to their planes one by one


def step_cycles(of: SimdVectors, vectors: int, tile: tuple[int, int, int]) -> float:
    """Cycles of one step (r, s, c) of all tiles of a group, those with fewer pixels or vectors included.

    What a tile does once, windows that come from L2 and outputs that are transposed, is spread over its steps.
    """
    extents = zip((of.units, of.problem.p, of.columns, of.group_vectors), (*tile, vectors), strict=True)
    total = 0.0
    for cut in itertools.product(*(_sizes_of_parts(extent, most) for extent, most in extents)):
        (n, many_n), (p, many_p), (q, many_q), (v, many_v) = cut
        once = _window_cycles(of, n, p, q) + _transposition_cycles(of, p, q) * n * v
        if of.product == "amx":
            step = _registers_cycles(of, n * p, q, v)
            once += _TILE_OUTPUT_CYCLES * n * p * q * v
        else:
            step = _tile_cycles(of, n * of.unit_vectors * p * q, v)
        total += many_n * many_p * many_q * many_v * (step + once / of.steps)
    return total


def busy_cycles(geometry: SimdGeometry) -> float:
    """Of the core that has most to do: steps, what tiles load and store around them, what items copy."""
    problem, target, config = geometry.problem, geometry.target, geometry.config
    tile = (config.tile_n, config.tile_p, config.tile_q)
    steps = problem.groups * geometry.steps * step_cycles(geometry, config.vectors_k, tile)
    taps = problem.r * problem.s
    filters = geometry.chunk_words * taps * config.vectors_k * geometry.filter_lanes * word_bytes(problem)
    from_l3 = filters * (config.block_k if config.inner_loop == "filters" else 1) > target.l2_bytes // 2
    if from_l3 and geometry.product != "amx":  # whose filters are fetched ahead
        steps *= 1 + _L3_FACTOR
    if _leaps(geometry):
        steps *= 1 + _STRIDED_FACTOR
    outputs = (
        geometry.units * geometry.unit_vectors * problem.p * geometry.columns * geometry.group_vectors * problem.groups
    )
    passes = 2 * (geometry.chunks - 1) + 1
    items: float = geometry.items * _ITEM_CYCLES
    if config.window == "copied":
        runs = geometry.copied_bytes / word_bytes(problem) / _run_words(geometry)
        items += geometry.items * geometry.chunks * (
            geometry.copied_bytes / _COPY_BYTES_PER_CYCLE + runs * _COPY_CYCLES
        )  # fmt: skip
    shares = ceil_div(geometry.items, target.cores) / geometry.items
    if config.schedule == "static":
        shares *= 1 + _STATIC_FACTOR
    return shares * (steps + outputs * passes + items)


def _leaps(geometry: SimdGeometry) -> bool:
    """Whether x has what one step reads after another far apart: channels of planes, taps of NHWC."""
    problem, config = geometry.problem, geometry.config
    if not geometry.hold_channels or problem.group_c < _FEW_CHANNELS:
        return False
    if problem.x_layout == "nhwc":
        return config.steps == "taps"
    return config.steps == "channels" and config.window != "copied"


def _run_words(geometry: SimdGeometry) -> float:
    """That are copied at once."""
    problem, words = geometry.problem, geometry.chunk_words
    if has_words(problem) and (problem.x_layout != "nhwc" or words <= _FEW_WORDS):
        return 1 / (1 / problem.w + 1 / _GATHERED_WORDS)
    if problem.x_layout == "nhwc":
        return words
    loose = problem.x_layout == "chwn" and geometry.hold_images
    return geometry.config.tile_n * geometry.lanes if loose else problem.w * geometry.unit_images


def _tile_cycles(of: SimdVectors, pixels: int, vectors: int) -> float:
    streamed = vectors if of.hold_channels else pixels
    loads = vectors + (2 if of.vector_of == "pixels" else 1) * pixels  # of a row few vectors lie in one cache line
    twice = of.product == "madd" or (of.product == "dot" and of.problem.precision == "bf16")
    products = pixels * vectors * (_WIDENED_FACTOR if twice else 1)
    return _TILE_OVERHEAD + max(
        products / of.target.fma_per_cycle, _FMA_LATENCY, loads / _LOADS_PER_CYCLE,
        streamed * of.vector_bytes / _L2_BYTES_PER_CYCLE,
    )  # fmt: skip


def _registers_cycles(of: SimdVectors, rows: int, q: int, vectors: int) -> float:
    """Of AMX, for one word of a tile's step."""
    words = tile_words(of.problem, of.product)
    return max(
        rows * vectors * max(q, _TILE_FEWEST_ROWS), (rows * q + vectors * words) / _TILE_ROWS_PER_CYCLE,
        vectors * words * of.vector_bytes / _TILE_L2_BYTES_PER_CYCLE,
    ) / words  # fmt: skip


def _window_cycles(of: SimdVectors, n: int, p: int, q: int) -> float:
    """Of the window's way into L1: a tile shares columns with the one before it, as far as L1 still has them."""
    problem = of.problem
    rows = (p - 1) * problem.stride_h + problem.window_h
    columns = q * of.lanes if of.vector_of == "pixels" else q
    fresh = columns * problem.stride_w
    whole = (columns - 1) * problem.stride_w + problem.window_w
    if of.hold_images or problem.x_layout == "nhwc" or has_words(problem):
        column_bytes = problem.group_c * problem.element_bytes * of.unit_images
        fresh_bytes, whole_bytes = (rows * count * column_bytes for count in (min(fresh, whole), whole))
    else:  # rows of planes begin anywhere in a line
        row_bytes = whole * problem.element_bytes + _LINE_BYTES - problem.element_bytes
        whole_bytes = problem.group_c * rows * row_bytes
        fresh_bytes = min(problem.group_c * rows * fresh * problem.element_bytes, whole_bytes)
    lost = min(1.0, n * whole_bytes / of.target.l1_bytes)
    return n * (fresh_bytes + (whole_bytes - fresh_bytes) * lost) / _WINDOW_BYTES_PER_CYCLE + n * rows * _ROW_CYCLES


def _transposition_cycles(of: SimdVectors, p: int, q: int) -> float:
    """Of a vector of output channels that goes to planes, for all pixels of a tile of one image."""
    if not (has_planes(of.problem) and of.hold_channels):
        return 0
    run = p * q if q == of.columns else q
    return p * q // run * ceil_div(run, 4) * _RUN_CYCLES if run >= 4 else p * q * _SCATTERED_CYCLES


def _sizes_of_parts(extent: int, most: int) -> list[tuple[int, int]]:
    """Each size of the equal parts, and how many there are."""
    least, longer = divmod(extent, parts(extent, most))
    sizes_and_counts = ((least, parts(extent, most) - longer), (least + 1, longer))
    return [(size, count) for size, count in sizes_and_counts if count]
