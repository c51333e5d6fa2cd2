"""simt: the config for a problem that was never tuned."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from im2wingen.families import simt_space as space
from im2wingen.families.simt_geometry import SimtConfig, SimtGeometry
from im2wingen.families.simt_rules import RULES, whole_threads
from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_SHORTLIST = 24  # tiles whose stages are looked at
_SPARE_REGISTERS = 16  # beyond what a thread needs at the least
# Share of the FFMA rate that 1, 2, 3, 4 warps of a scheduler reach.
_RATE_OF_WARPS = (0.80, 0.90, 0.95, 0.97)
_FILL_CYCLES = 1500  # first copies and last stores of a CTA, nothing else running on its SM
_STORE_BYTES_PER_CYCLE = 16  # of an SM, all storing


@lru_cache(maxsize=256)
def default(problem: ConvProblem, target: Target) -> SimtConfig:
    """The legal config with the least estimated time; one warp and one pixel a CTA if none of the estimates is legal."""
    tiles = sorted(_tiles(problem, target), key=lambda tile: (_cycles(problem, target, tile), tile.digest()))[:_SHORTLIST]
    for staging in ("window", "tap"):
        legal = [
            config
            for tile in tiles
            for config in _stages(problem, target, replace(tile, staging=staging))
            if all(rule.holds(problem, target, config) for rule in RULES)
        ]
        if legal:
            return min(legal, key=lambda config: (_cycles(problem, target, config), config.digest()))
    return _least()


def _cycles(problem: ConvProblem, target: Target, config: SimtConfig) -> float:
    """Estimated SM cycles of the whole convolution."""
    geometry = SimtGeometry(problem=problem, config=config)
    ffmas = geometry.block_m * config.block_n * problem.r * problem.s * round_up(problem.c, config.block_c)
    # instructions of a thread for one channel and filter row
    multiply = geometry.block_s * geometry.thread_m * config.thread_n
    reads = config.thread_p * geometry.segment_loads * geometry.phases
    reads += geometry.block_s * ceil_div(config.thread_n, 4)
    copies = 6 * geometry.patch_copies + 6 * geometry.filter_copies + 60
    copies_share = copies / (config.block_c * config.block_r * multiply)
    instructions = 1 + reads / multiply + copies_share
    resident = min(config.ctas_per_sm, ceil_div(geometry.ctas, target.sm_count))
    warps = resident * geometry.threads / 128
    rate = _RATE_OF_WARPS[min(4, max(1, int(warps))) - 1] * warps / -(-warps // 1)
    if config.num_stages == 1:
        rate *= 0.8 + 0.2 * (1 - 1 / resident)
    work = ffmas / target.ffma_per_sm * instructions / rate
    store = 4 * geometry.block_m * config.block_n / _STORE_BYTES_PER_CYCLE
    cta = max(work, store) + (min(work, store) + _FILL_CYCLES) / resident
    rounds, rest = divmod(geometry.ctas, target.sm_count * config.ctas_per_sm)
    return cta * (rounds * config.ctas_per_sm + ceil_div(rest, target.sm_count))


def _least() -> SimtConfig:
    return SimtConfig(
        staging="tap", tile_n=1, tile_p=1, tile_q=1, block_n=32, block_c=1, block_r=1, thread_p=1, thread_q=1,
        thread_n=1, lanes_m=1, num_stages=2, ctas_per_sm=1, unroll_r=True, x_vector=1, store="registers",
        tile_order="linear", fragment_order="linear",
    )  # fmt: skip


def _tiles(problem: ConvProblem, target: Target) -> Iterator[SimtConfig]:
    """Every way to share the output out, with the least stage."""
    rows = [(t, tile) for t in space.thread_rows(problem) for tile in space.tile_rows(problem, t)]
    columns = [(t, tile) for t in space.thread_columns(problem) for tile in space.tile_columns(problem, t)]
    filters = [(t, block) for t in space.thread_filters(problem) for block in space.block_filters(problem, t)]
    for (thread_p, tile_p), (thread_q, tile_q), (thread_n, block_n) in product(rows, columns, filters):
        if not 16 <= thread_p * thread_q * thread_n <= 128 and problem.gemm_m * problem.k > 1 << 16:
            continue
        threads_n = block_n // thread_n
        per_image = Fraction(tile_q // thread_q * tile_p * threads_n, thread_p)
        for tile_n in space.tile_images(problem, per_image):
            threads = tile_n * per_image
            if threads.denominator != 1 or threads % 32 or threads > 512:
                continue
            tile = _with(
                _least(), staging="window", tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, block_n=block_n,
                thread_p=thread_p, thread_q=thread_q, thread_n=thread_n,
                lanes_m=_lanes(int(threads) // threads_n, threads_n),
                store="shared" if problem.y_layout == "nchw" and thread_q % 4 else "registers",
            )  # fmt: skip
            if whole_threads(problem, tile):
                geometry = SimtGeometry(problem=problem, config=tile)
                yield _with(tile, ctas_per_sm=_resident(target, geometry))


def _lanes(threads_m: int, threads_n: int) -> int:
    """4 or 8 if possible: both operands are read at few addresses."""
    return min(space.pixel_lanes(threads_m, threads_n), key=lambda lanes: (abs(lanes - 6), lanes))


def _stages(problem: ConvProblem, target: Target, tile: SimtConfig) -> Iterator[SimtConfig]:
    """The tile with every stage that is worth a look."""
    geometry = SimtGeometry(problem=problem, config=tile)
    rows = [1] if tile.staging == "tap" else sorted({1, problem.r})
    channels = [c for c in space.block_channels(problem) if c in (1, 2, 4, 8, 16, problem.c)]
    vector = max(space.x_vectors(problem)) if tile.staging == "window" else 1
    if tile.tile_q % vector and tile.tile_q < problem.q:
        vector = 1
    for block_r, block_c, num_stages, fewer in product(rows, channels, (1, 2, 3), (0, 1, 2)):
        straight = block_r * problem.s * tile.thread_p * tile.thread_q * tile.thread_n
        yield _with(
            tile, block_r=block_r, block_c=block_c, num_stages=num_stages, x_vector=vector,
            unroll_r=block_r == 1 or straight <= 1024, ctas_per_sm=max(1, _resident(target, geometry) - fewer),
        )  # fmt: skip


def _resident(target: Target, geometry: SimtGeometry) -> int:
    """CTAs of an SM by registers and threads."""
    registers = round_up(geometry.registers + _SPARE_REGISTERS, 8)
    by_threads = target.max_threads_per_sm // geometry.threads
    return max(1, min(target.regs_per_sm // (registers * geometry.threads), by_threads, 8))


def _with(config: SimtConfig, **fields: Any) -> SimtConfig:
    return replace(config, **fields)
