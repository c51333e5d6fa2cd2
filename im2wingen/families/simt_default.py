"""simt: the config for a problem that was never tuned."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from im2wingen.families import simt_space as space
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_cost import bank_waits, convolution_cycles, shape_cost, store_cost
from im2wingen.families.simt_geometry import SimtGeometry, copies_in_bulk
from im2wingen.families.simt_rules import RULES, whole_threads
from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_EXTENTS, _TILES, _SHORTLIST = 20, 400, 24  # how many the next, dearer estimate looks at
# Registers that the compiler takes beyond what a thread needs at the least.
_SPARE_REGISTERS = {"free": 14, "ordered": 8, "rows": 0}
_MANY_OUTPUTS = 184  # of a thread with several rows: they leave registers for one row's inputs only
_STRAIGHT_FFMAS = 1850  # whose code fits the instruction cache


@lru_cache(maxsize=256)
def default(problem: ConvProblem, target: Target) -> SimtConfig:
    """The legal config with the least estimated time; one warp and one pixel a CTA if no estimated one is legal."""
    tiles = sorted(_tiles(problem, target), key=lambda tile: _waste(problem, target, tile))[:_TILES]
    ways = product(tiles, (1, 2), _stores(problem, target))
    tiles = [_with(tile, slices=slices, store=store) for tile, slices, store in ways if slices <= problem.c]
    tiles = [_with(tile, ctas_per_sm=n) for tile in tiles if (n := _resident(problem, target, tile)) > 0]
    tiles = sorted(tiles, key=lambda tile: _cycles(problem, target, _usual_stage(problem, tile)))
    for staging, first in product(("window", "tap"), range(0, len(tiles), _SHORTLIST)):
        stages = [
            stage
            for tile in tiles[first : first + _SHORTLIST]
            for stage in _stages(problem, target, _with(tile, staging=staging))
        ]
        for stage in sorted(stages, key=lambda stage: _cycles(problem, target, stage)):
            config = _with(stage, store_n=_store_n(problem, target, stage))
            if all(rule.holds(problem, target, config) for rule in RULES):
                return config
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
        for thread_p, tile_p in rows[: 2 * _EXTENTS]:
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
            store=_stores(problem, target)[0], **_orders(problem, thread_p, thread_q, thread_n),
        )  # fmt: skip
        if whole_threads(problem, config):
            yield config


def _orders(problem: ConvProblem, thread_p: int, thread_q: int, thread_n: int) -> dict[str, Any]:
    """Of a thread's reads and products, and where its sums lie: what measured best for its extents."""
    outputs = thread_p * thread_q * thread_n
    if thread_p > 1 and outputs >= (_MANY_OUTPUTS if problem.stride_w == 1 else _MANY_OUTPUTS - 16):
        order, accumulators = ("zigzag", "copied") if problem.y_layout == "nhwc" else ("linear", "stored")
        return {"reads": "rows", "fragment_order": order, "fragment_outer": "pixels", "accumulators": accumulators}
    in_pairs = thread_p > 1 or thread_q % 4 == 2  # as stores in NCHW want them
    accumulators = "stored" if problem.y_layout == "nchw" and in_pairs else "shifted"
    return {"reads": "free" if thread_p > 1 or thread_n >= 16 else "ordered", "accumulators": accumulators}


def _stores(problem: ConvProblem, target: Target) -> list[str]:
    if problem.y_layout == "nhwc":
        return ["registers"]
    return ["shared", *(["bulk"] if copies_in_bulk(target) else [])]


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
    stores = ffmas * problem.element_bytes / store_cost(problem, tile).bytes_per_cycle / 2
    shape = shape_cost(SimtGeometry(problem=problem, config=tile))
    return outputs * ctas * (bank_waits(tile) + reads + copies + stores) * busy * few_outputs * shape


def _cycles(problem: ConvProblem, target: Target, config: SimtConfig) -> float:
    return convolution_cycles(SimtGeometry(problem=problem, config=config), target)


def _usual_stage(problem: ConvProblem, tile: SimtConfig) -> SimtConfig:
    """The tile with a stage of all filter rows and few channels, to tell tiles apart; it need not be legal."""
    return _with(tile, block_r=problem.r, block_c=min(4, round_up(problem.c, tile.slices)), unroll_r=False)


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
                unroll_r=block_r == 1 or straight <= _STRAIGHT_FFMAS, ctas_per_sm=resident - fewer,
            )  # fmt: skip
            straight = problem.s if tile.staging != "tap" else 1
            straight *= (block_r if config.unroll_r else 1) * tile.thread_p * tile.thread_q * tile.thread_n
            if block_c % tile.slices == 0:
                config = _with(config, unroll_c=space.unrolled_channels(straight, block_c // tile.slices)[0])
            yield _with(config, persistent=_ahead(problem, config))


def _ahead(problem: ConvProblem, stage: SimtConfig) -> bool:
    """Whether the next box's copies are the only ones that can hide behind products."""
    return problem.y_layout == "nhwc" and SimtGeometry(problem=problem, config=stage).steps == 1


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
    free = tile.reads == "free"
    early = 2 * tile.thread_p * geometry.segment if geometry.phases > 1 and free else 0  # the next phases, read ahead
    registers = round_up(geometry.registers + early + _SPARE_REGISTERS[tile.reads], 8)
    most = min(target.max_threads_per_sm // geometry.threads, target.max_blocks_per_sm)
    fits = [n for n in range(1, most + 1) if registers * round_up(n * geometry.threads, 128) <= target.regs_per_sm]
    return max(fits, default=0) if registers <= 256 else 0


def _with(config: SimtConfig, **fields: Any) -> SimtConfig:
    return replace(config, **fields)
