"""simt: how long a CTA computes and waits, fitted to kernels measured on an H200."""

from dataclasses import dataclass

from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_geometry import SimtGeometry
from im2wingen.families.simt_rules import SMEM_RESERVE
from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

# Share of the FFMA rate that 1, 2, 3, 4 warps of a scheduler reach.
_RATE_OF_WARPS = (0.84, 0.91, 0.955, 0.955)
_ROUNDS_APART = 3.0  # until CTAs no longer end together
_ONE_STAGE = 0.12  # share that a CTA alone waits for copies
_NEXT_BOX_CYCLES = 1600  # that a persistent CTA with one stage waits for the next box's inputs
_NHWC_COPY_CYCLES = 15  # channels last: lanes copy from many sectors
_ODD_COLUMNS, _FEW_FILTERS = 1.02, 1.055  # of a thread, for which products wait for the registers' banks
_FILL_CYCLES = 6000  # first copies and last stores of a CTA, nothing else running on its SM
_READ_CYCLES = 0.6  # of a register read from shared memory, beside the load: it takes a turn of the register file
_COPY_CYCLES, _STEP_CYCLES = 3.2, 100  # of a copy to shared memory or its place; of a step, its barrier included
_BOX_INSTRUCTIONS = 250  # of a thread, beside its copies, products and outputs
_CODE_FFMAS, _CODE_MISSES = 1850, 1.1  # beyond so many, straight code doesn't fit the instruction cache of 32 KiB
# Small CTAs do the same at different times, and fetch filters and instructions for themselves. Of one warp, of two, and
# of others that are not whole warps for every scheduler:
_ONE_WARP, _HALF_WARPS, _UNEVEN_WARPS = 1.15, 1.03, 1.12
_ALONE = 1.03  # the only CTA of an SM: all its warps copy, multiply and store at the same time
_STRIDED_ROWS = 1.03  # of a thread with several rows that share no inputs
_SLICE = 0.05  # of a slice more
_PERSISTENT_WAITS = 0.5  # of what a CTA waits; the rest hides behind its next box
_L2_BYTES_PER_CYCLE = 46  # of an SM, all at it
_WAITS_FOR_LOADS = 0.2  # share that a CTA alone on its SM does not hide, if it has other steps
_SECTOR_BYTES = 32
_MOST_REGISTERS = 256  # of a thread


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoreCost:
    bytes_per_cycle: float  # of an SM, all at it, of sectors written whole
    instructions: float  # of an output
    run_cycles: float  # of an SM for each run of outputs
    waits: float  # share that a CTA alone on its SM does not hide


_NCHW_STORES = {
    "registers": _StoreCost(bytes_per_cycle=2.3, instructions=2.0, run_cycles=0, waits=0.8),
    "shared": _StoreCost(bytes_per_cycle=14, instructions=2.3, run_cycles=0.5, waits=0.5),
    "sectors": _StoreCost(bytes_per_cycle=12, instructions=2.6, run_cycles=9, waits=0.6),
    "bulk": _StoreCost(bytes_per_cycle=16, instructions=1.5, run_cycles=20, waits=0.2),
}
_NHWC_STORES = _StoreCost(bytes_per_cycle=15, instructions=0.8, run_cycles=0, waits=0.65)


def convolution_cycles(geometry: SimtGeometry, target: Target) -> float:
    """Estimated SM cycles of the whole convolution."""
    resident = resident_ctas(geometry, target)
    rounds, rest = divmod(geometry.ctas, target.sm_count * resident)
    # CTAs that end together leave an SM with room for several, and the last ones share as few SMs as they can.
    fewest = ceil_div(rest, target.sm_count)
    last = fewest + (resident - fewest) * max(0.0, 1 - (rounds - 1) / _ROUNDS_APART) if rest and rounds else fewest
    return sum(
        ctas * (busy + idle / together)
        for ctas, together in ((rounds * resident, resident), (last, last))
        if ctas
        for busy, idle in [_cycles(geometry, target, together)]
    )


def cta_cycles(geometry: SimtGeometry, target: Target) -> tuple[float, float]:
    """Estimated SM cycles of one CTA: those that keep the SM busy, and those that other CTAs may hide."""
    return _cycles(geometry, target, min(resident_ctas(geometry, target), ceil_div(geometry.ctas, target.sm_count)))


def resident_ctas(geometry: SimtGeometry, target: Target) -> int:
    """CTAs that an SM holds: more than ctas_per_sm where threads with all the registers they can have leave room."""
    config = geometry.config
    by_registers = target.regs_per_sm // (_MOST_REGISTERS * geometry.threads)
    if config.persistent or by_registers <= config.ctas_per_sm:
        return config.ctas_per_sm
    room = (
        by_registers,
        target.smem_per_sm_bytes // (geometry.smem_bytes + SMEM_RESERVE),
        target.max_threads_per_sm // geometry.threads,
        target.max_blocks_per_sm,
    )
    return max(config.ctas_per_sm, min(room))


def _cycles(geometry: SimtGeometry, target: Target, resident: float) -> tuple[float, float]:
    problem, config = geometry.problem, geometry.config
    store = store_cost(problem, config)
    # of a thread, for one channel and filter row
    multiply = bank_waits(config) * geometry.block_s * geometry.thread_m * config.thread_n
    segments = geometry.rows_read * geometry.segment * geometry.phases
    filters = geometry.block_s * config.thread_n
    loads = segments / geometry.segment_vector + filters / geometry.unit
    reads = _READ_CYCLES * (segments + filters) + loads
    places = ceil_div(geometry.places, geometry.threads // geometry.channel_lanes)  # of a thread; each is looked up
    copy = _NHWC_COPY_CYCLES if problem.x_layout == "nhwc" else _COPY_CYCLES
    copies = copy * (geometry.patch_copies + places) + _COPY_CYCLES * geometry.filter_copies + _STEP_CYCLES
    copies *= config.slices
    plan = 30 * ceil_div(geometry.places, geometry.threads)  # of a group of taps
    box = _BOX_INSTRUCTIONS + store.instructions * geometry.thread_m * config.thread_n
    instructions = multiply + reads + (copies / config.block_c + plan / problem.c) / config.block_r
    channels = round_up(problem.c, config.block_c)

    warps = resident * geometry.threads / 128  # of a scheduler
    rate = _RATE_OF_WARPS[min(4, max(1, int(warps))) - 1] * warps / -(-warps // 1)
    if config.num_stages == 1 and geometry.steps > 1:
        rate *= 1 - _ONE_STAGE / resident
    fma_per_sm = target.dfma_per_sm if problem.precision == "fp64" else target.ffma_per_sm
    products = channels * problem.r * instructions / config.slices
    work = geometry.threads * (products + box) / fma_per_sm / rate
    work *= 1 + _SLICE * (config.slices - 1)
    work *= _CODE_MISSES if geometry.straight_ffmas > _CODE_FFMAS else 1
    work *= shape_cost(geometry)
    work *= _ALONE if resident_ctas(geometry, target) == 1 else 1
    work += store.run_cycles * geometry.runs * config.block_n
    staged = config.block_c * (config.tile_n * geometry.rows * geometry.columns + geometry.taps * config.block_n)
    stores = _written_bytes(geometry) * config.block_n / store.bytes_per_cycle
    copied = problem.element_bytes * geometry.steps * staged / _L2_BYTES_PER_CYCLE
    waits_for_loads = 1.0 if geometry.steps == 1 and not config.persistent else _WAITS_FOR_LOADS
    idle = waits_for_loads * min(work, copied) + store.waits * min(work, stores) + _FILL_CYCLES / resident
    if config.persistent:
        idle *= _PERSISTENT_WAITS
        idle += _NEXT_BOX_CYCLES if config.num_stages == 1 else 0
    return max(work, copied + stores), idle


def shape_cost(geometry: SimtGeometry) -> float:
    """What the threads' shape costs, over that of whole warps for every scheduler."""
    problem, config = geometry.problem, geometry.config
    strided_rows = _STRIDED_ROWS if config.thread_p > 1 and problem.stride_h > 1 else 1.0
    if geometry.threads % 128 == 0:
        return strided_rows
    return strided_rows * (
        _ONE_WARP if geometry.threads <= 32 else _HALF_WARPS if geometry.threads == 64 else _UNEVEN_WARPS
    )


def bank_waits(config: SimtConfig) -> float:
    """Time of a thread's products over that of a shape whose registers never wait for their banks."""
    return (_ODD_COLUMNS if config.thread_q % 2 else 1) * (_FEW_FILTERS if config.thread_n < 8 else 1)


def store_cost(problem: ConvProblem, config: SimtConfig) -> _StoreCost:
    return _NHWC_STORES if problem.y_layout == "nhwc" else _NCHW_STORES[config.store]


def _written_bytes(geometry: SimtGeometry) -> float:
    """Bytes of a filter's sectors in the box, those written in parts counted twice."""
    problem = geometry.problem
    whole = problem.element_bytes * geometry.block_m
    if problem.y_layout == "nhwc" or geometry.config.store == "registers":
        return whole
    return whole + geometry.runs * (_SECTOR_BYTES - geometry.run_alignment * problem.element_bytes)
