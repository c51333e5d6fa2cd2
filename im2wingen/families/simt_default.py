"""simt: the config for a problem that was never tuned."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from im2wingen.families import simt_space as space
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_geometry import SimtGeometry, copies_in_bulk
from im2wingen.families.simt_rules import RULES, whole_threads
from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_EXTENTS, _TILES, _SHORTLIST = 10, 150, 12  # how many the next, dearer estimate looks at
_SPARE_REGISTERS = 14  # that the compiler takes beyond what a thread needs at the least
# Share of the FFMA rate that 1, 2, 3, 4 warps of a scheduler reach.
_RATE_OF_WARPS = (0.80, 0.90, 0.95, 0.97)
_FILL_CYCLES = 3000  # first copies and last stores of a CTA, nothing else running on its SM
_READ_CYCLES = 1.0  # of a register read from shared memory: it takes a turn of the register file
_COPY_CYCLES, _STEP_CYCLES = 6, 100  # of a copy to shared memory; of a step, its barrier included
_FETCH_FFMAS, _FETCH = 1000, 0.1  # beyond so many, straight code waits for instructions
_L2_BYTES_PER_CYCLE = 24  # of an SM, all at it
_NHWC_BYTES_PER_CYCLE = 16  # likewise; y in NCHW takes fewer, since a CTA writes in many places
_NCHW_BYTES_PER_CYCLE = {"registers": 3, "shared": 9, "sectors": 12, "bulk": 14}
# Instructions of an output on its way to y: its vectors are short.
_STORE_INSTRUCTIONS = {"registers": 2.0, "shared": 3.0, "sectors": 2.5, "bulk": 1.5}
_WAITS_FOR_LOADS, _WAITS_FOR_STORES = 0.3, 0.85  # shares that a CTA alone on its SM does not hide


@lru_cache(maxsize=256)
def default(problem: ConvProblem, target: Target) -> SimtConfig:
    """The legal config with the least estimated time; one warp and one pixel a CTA if no estimated one is legal."""
    tiles = sorted(_tiles(problem, target), key=lambda tile: _waste(problem, target, tile))[:_TILES]
    tiles = [_with(tile, slices=slices) for tile, slices in product(tiles, (1, 2)) if slices <= problem.c]
    tiles = [_with(tile, ctas_per_sm=n) for tile in tiles if (n := _resident(problem, target, tile)) > 0]
    tiles = sorted(tiles, key=lambda tile: _cycles(problem, target, tile))
    for staging, first in product(("window", "tap"), range(0, len(tiles), _SHORTLIST)):
        legal = [
            config
            for tile in tiles[first : first + _SHORTLIST]
            for config in _stages(problem, target, _with(tile, staging=staging))
            if all(rule.holds(problem, target, config) for rule in RULES)
        ]
        if legal:
            return min(legal, key=lambda config: (_cycles(problem, target, config), config.digest()))
    return _least()


def _least() -> SimtConfig:
    return SimtConfig(
        staging="tap", tile_n=1, tile_p=1, tile_q=1, block_n=32, block_c=1, block_r=1, thread_p=1, thread_q=1,
        thread_n=1, slices=1, lanes_m=1, num_stages=2, ctas_per_sm=1, persistent=False, unroll_r=True, unroll_c=1,
        reads="free", x_vector=1,
        store="registers", store_n=1, tile_order="linear", fragment_order="zigzag", fragment_outer="filters",
        accumulators="stored",
    )  # fmt: skip


def _tiles(problem: ConvProblem, target: Target) -> Iterator[SimtConfig]:
    """Ways to share the output out, with the least stage."""
    columns = [(t, tile) for t in space.thread_columns(problem) for tile in space.tile_columns(problem, t)]
    columns.sort(key=lambda pair: _extent_waste(problem.q, problem.stride_w, problem.window_w, pair))
    for (thread_q, tile_q), thread_n in product(columns[:_EXTENTS], space.thread_filters(problem)):
        threads_q = tile_q // thread_q
        rows = [
            (t, tile)
            for t in space.thread_rows(problem, thread_q * thread_n)
            for tile in space.tile_rows(problem, t, threads_q)
        ]
        rows.sort(key=lambda pair: _extent_waste(problem.p, problem.stride_h, problem.window_h, pair))
        for thread_p, tile_p in rows[:_EXTENTS]:
            threads_m = Fraction(tile_p * threads_q, thread_p)
            for block_n in space.block_filters(problem, thread_n, threads_m):
                yield from _boxes(problem, target, (thread_p, thread_q, thread_n), (tile_p, tile_q, block_n))


def _boxes(
    problem: ConvProblem, target: Target, thread: tuple[int, int, int], tile: tuple[int, int, int]
) -> Iterator[SimtConfig]:
    (thread_p, thread_q, thread_n), (tile_p, tile_q, block_n) = thread, tile
    threads_n = block_n // thread_n
    per_image = Fraction(tile_p * tile_q * threads_n, thread_p * thread_q)
    for tile_n in space.tile_images(problem, per_image, space.images_together(tile_p, thread_p)):
        threads = int(tile_n * per_image)
        config = _with(
            _least(), staging="window", tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, block_n=block_n,
            thread_p=thread_p, thread_q=thread_q, thread_n=thread_n, lanes_m=_lanes(threads // threads_n, threads_n),
            store="shared" if problem.y_layout == "nchw" and thread_q % 4 else "registers",
            accumulators="placed" if problem.y_layout == "nhwc" else "stored",
        )  # fmt: skip
        if whole_threads(problem, config):
            yield config
            if problem.y_layout == "nchw" and copies_in_bulk(target):
                yield _with(config, store="bulk")


def _extent_waste(extent: int, stride: int, window: int, pair: tuple[int, int]) -> float:
    """Computed over wanted, with the input that neighbouring tiles both read as a tenth; small threads cost reads."""
    thread, tile = pair
    overlap = (window - stride) / (tile * stride)
    return round_up(extent, tile) / extent * (1 + max(0.0, overlap) / 10) * (1 + 0.1 / thread)


def _lanes(threads_m: int, threads_n: int) -> int:
    """4 or 8 if possible: both operands are read at few addresses."""
    return min(space.pixel_lanes(threads_m, threads_n), key=lambda lanes: (abs(lanes - 6), lanes))


def _waste(problem: ConvProblem, target: Target, tile: SimtConfig) -> float:
    """Instructions for each wanted multiply-add, and SMs without work; from the tile alone."""
    thread_m, outputs = tile.thread_p * tile.thread_q, tile.tile_n * tile.tile_p * tile.tile_q * tile.block_n
    ctas = ceil_div(problem.n, tile.tile_n) * ceil_div(problem.p, tile.tile_p) * ceil_div(problem.q, tile.tile_q)
    ctas *= ceil_div(problem.k, tile.block_n)
    reads = (tile.thread_p * (tile.thread_q / problem.s + 1) + tile.thread_n) / (4 * thread_m * tile.thread_n)
    rows = (tile.tile_p - 1) * problem.stride_h + problem.window_h
    columns = (tile.tile_q - 1) * problem.stride_w + problem.window_w
    copies = 6 * tile.tile_n * (rows * columns / (problem.r * problem.s) + tile.block_n / 4) / outputs
    busy = ceil_div(ctas, target.sm_count) * target.sm_count / ctas
    few_outputs = 1 + 2 / (thread_m * tile.thread_n)
    ffmas = target.ffma_per_sm / (problem.c * problem.r * problem.s)  # a cycle's, in outputs
    stores = _WAITS_FOR_STORES / 2 * ffmas * problem.element_bytes / _store_bytes_per_cycle(problem, tile)
    return outputs * ctas * (1 + reads + copies + stores) * busy * few_outputs


def _cycles(problem: ConvProblem, target: Target, config: SimtConfig) -> float:
    """Estimated SM cycles of the whole convolution."""
    geometry = SimtGeometry(problem=problem, config=config)
    busy, idle = cta_cycles(geometry, target)
    resident = min(config.ctas_per_sm, ceil_div(geometry.ctas, target.sm_count))
    rounds, rest = divmod(geometry.ctas, target.sm_count * config.ctas_per_sm)
    return (busy + idle / resident) * (rounds * config.ctas_per_sm + ceil_div(rest, target.sm_count))


def cta_cycles(geometry: SimtGeometry, target: Target) -> tuple[float, float]:
    """Estimated SM cycles of one CTA: those that keep the SM busy, and those that other CTAs may hide."""
    problem, config = geometry.problem, geometry.config
    outputs = geometry.slice_threads * geometry.thread_m * config.thread_n  # those of idle lanes included
    channels = round_up(problem.c, config.block_c)
    # of a thread, for one channel and filter row
    multiply = geometry.block_s * geometry.thread_m * config.thread_n
    reads = _READ_CYCLES * (config.thread_p * geometry.segment * geometry.phases + geometry.block_s * config.thread_n)
    copies = config.slices * (_COPY_CYCLES * (geometry.patch_copies + geometry.filter_copies) + _STEP_CYCLES)
    plan = 30 * ceil_div(geometry.places, geometry.threads)  # of a group of taps
    stored = _STORE_INSTRUCTIONS[config.store] * geometry.thread_m * config.thread_n / (problem.c * problem.r)
    instructions = multiply + reads + (copies / config.block_c + plan / problem.c) / config.block_r + stored

    resident = min(config.ctas_per_sm, ceil_div(geometry.ctas, target.sm_count))
    warps = resident * geometry.threads / 128  # of a scheduler
    rate = _RATE_OF_WARPS[min(4, max(1, int(warps))) - 1] * warps / -(-warps // 1)
    if config.num_stages == 1:
        rate *= 1 - 0.2 / resident
    fma_per_sm = target.dfma_per_sm if problem.precision == "fp64" else target.ffma_per_sm
    work = outputs * channels * problem.r * problem.s / fma_per_sm * instructions / multiply / rate
    work *= 1 + _FETCH * max(0.0, geometry.straight_ffmas / _FETCH_FFMAS - 1)
    staged = config.block_c * (config.tile_n * geometry.rows * geometry.columns + geometry.taps * config.block_n)
    stores = problem.element_bytes * outputs / _store_bytes_per_cycle(problem, config)
    loads = problem.element_bytes * geometry.steps * staged / _L2_BYTES_PER_CYCLE
    idle = _WAITS_FOR_LOADS * min(work, loads) + _WAITS_FOR_STORES * min(work, stores) + _FILL_CYCLES
    return max(work, loads + stores), idle


def _store_bytes_per_cycle(problem: ConvProblem, config: SimtConfig) -> float:
    return _NHWC_BYTES_PER_CYCLE if problem.y_layout == "nhwc" else _NCHW_BYTES_PER_CYCLE[config.store]


def _stages(problem: ConvProblem, target: Target, tile: SimtConfig) -> Iterator[SimtConfig]:
    """The tile with every stage that is worth a look."""
    rows = [1] if tile.staging == "tap" else sorted({1, problem.r})
    channels = [c for c in space.block_channels(problem) if c in (1, 2, 4, 8, 16, problem.c)]
    aligned = 4 if tile.tile_q >= problem.q else tile.tile_q & -tile.tile_q
    vector = max(space.x_vectors(problem, aligned)) if tile.staging == "window" else 1
    resident = tile.ctas_per_sm
    for block_r, block_c, num_stages, fewer in product(rows, channels, (1, 2, 3), (0, 1, 2)):
        straight = block_r * problem.s * tile.thread_p * tile.thread_q * tile.thread_n
        if resident > fewer:
            config = _with(
                tile, block_r=block_r, block_c=block_c, num_stages=num_stages, x_vector=vector,
                unroll_r=block_r == 1 or straight <= 1024, ctas_per_sm=resident - fewer,
            )  # fmt: skip
            straight = problem.s if tile.staging != "tap" else 1
            straight *= (block_r if config.unroll_r else 1) * tile.thread_p * tile.thread_q * tile.thread_n
            if block_c % tile.slices == 0:
                config = _with(config, unroll_c=space.unrolled_channels(straight, block_c // tile.slices)[0])
            yield _with(config, store_n=_store_n(problem, target, config))


def _store_n(problem: ConvProblem, target: Target, config: SimtConfig) -> int:
    """As many filters at once as the stages' shared memory, or what is spare, holds."""
    ways = [_with(config, store_n=n) for n in space.store_filters(config.store, config.thread_n)]
    fits = [way.store_n for way in ways if _outputs_fit(SimtGeometry(problem=problem, config=way), target)]
    return max(fits, default=ways[-1].store_n)


def _outputs_fit(geometry: SimtGeometry, target: Target) -> bool:
    spare = target.smem_per_sm_bytes // geometry.config.ctas_per_sm - 1024
    return geometry.outputs_bytes + geometry.outputs_offset <= max(geometry.pipeline_bytes, spare)


def _resident(problem: ConvProblem, target: Target, tile: SimtConfig) -> int:
    """CTAs of an SM by registers and threads; 0 if the registers of not even one suffice."""
    geometry = SimtGeometry(problem=problem, config=tile)
    early = 2 * tile.thread_p * geometry.segment if geometry.phases > 1 else 0  # the next phases, read ahead
    registers = round_up(geometry.registers + early + _SPARE_REGISTERS, 8)
    most = min(target.max_threads_per_sm // geometry.threads, target.max_blocks_per_sm)
    fits = [n for n in range(1, most + 1) if registers * round_up(n * geometry.threads, 128) <= target.regs_per_sm]
    return max(fits, default=0) if registers <= 256 else 0


def _with(config: SimtConfig, **fields: Any) -> SimtConfig:
    return replace(config, **fields)
