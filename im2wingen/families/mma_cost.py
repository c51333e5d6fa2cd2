"""What a CTA of mma.cu.j2 costs an SM: the cycles of its scarcest pipe, and the cycles that it waits.

The constants are cycles of an H200 SM, fitted to measured fp16 NHWC configs of the twelve layers. The estimates rank
configs, which tests/test_cost_model.py holds them to on a table of such measurements; they judge nothing.
"""

from dataclasses import replace

from im2wingen.families.base import Launch
from im2wingen.families.mma_config import MmaConfig, MmaGeometry
from im2wingen.families.occupancy import SUSTAINED_CLOCK, resident_ctas
from im2wingen.families.support import ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_LDMATRIX = 4.0  # shared memory gives 128 bytes a cycle; one ldmatrix.x4 reads 512
_RUN_FRAGMENT = 6.75  # the same fragment read word by word, as run order does
_BANK_CONFLICTS = 1.55  # for pixels whose rows are neither padded nor whole groups of 8
# Cycles that the SM spends on a warp-wide copy, its addresses included.
_FILTER_COPY = 17.5
_PATCH_COPY = 17.5  # asynchronous
_REGISTER_COPY = 10.5  # through a register, one element a lane
_REGISTER_LOOPS = 480.0  # of a CTA that copies so: its unrolled loops issue for rows that it doesn't have, too
_TARGET = 2.0  # each further place that column order stores the same element to
_PIXEL_COPY = 9.0  # tap and explicit staging
_GATHER = {2: 25.0, 4: 40.0, 8: 40.0}  # tap staging of an NCHW x: a lane gathers elements of so many bytes one by one
_L2_BYTES = 35.0  # a cycle, for one SM of all
_SMALL_PIXEL = 1.6  # times as long for pixels of 16 bytes: each step finds the places of two taps
_MINOR = 0.14  # share of the other pipes' time that adds to the scarcest's
# Cycles that a CTA waits.
_FIXED = 2400.0  # for its launch, the first copies and the end of its stores
_BARRIER = 145.0  # at each slice of the K axis
_LATENCY = 650.0  # from a copy's start to its end; what the slices copied ahead don't cover
_FRAGMENTS = 80.0  # at each step whose fragments were not loaded during the one before
_PER_COPY = 80.0  # for each copy that a warp makes before the first slice, or of the output after the last
_OTHER_REGISTERS = 40  # of a thread, beside accumulators and fragments
_SPLIT_PRODUCTS = 3.0  # of TF32
_SPLIT_INSTRUCTIONS = 4.0  # of a warp, to split a word of each lane
_ISSUED = 4.0  # instructions a cycle
_SMALL_SHAPE = 2.0  # fp64 on sm_90: times as long for the shape of 8 rows, which it has for sm_80's sake


def priced(launch: Launch, target: Target, *, registers: int) -> Launch:
    """The launch with the fields that the cost model reads, from its template values; a thread wants `registers`."""
    values = {name: int(value) for name, value in launch.values.items() if not isinstance(value, str)}
    ctas, warps = launch.grid[0], launch.block // 32
    block_m, block_n = values["WARPS_M"] * values["WARP_M"], values["WARPS_N"] * values["WARP_N"]
    element = element_bytes(launch)
    length = launch.flops // (2 * ctas * block_m * block_n)  # elements of the K axis
    slices, steps = length // values["BLOCK_K"], length * element // 32
    launch = replace(launch, ctas_per_sm_by_threads=_ctas_by_registers(registers, values, launch.block, target))
    resident = max(1, min(resident_ctas(launch, target), ceil_div(ctas, target.sm_count)))

    # Warps beyond a multiple of 4 leave tensor cores without work.
    uneven = round_up(resident * warps, 4) / (resident * warps)
    rows_of_warps = values["WARPS_M"] * values["WARPS_N"]
    products = 2 * block_m * block_n * length / _flops_per_cycle(element, target) * uneven
    issue = 0.0
    if values["SPLIT"]:
        products *= _SPLIT_PRODUCTS
        words = values["WARP_M"] // 4 + values["WARP_N"] // 4  # of a lane
        issue = steps * rows_of_warps * words * _SPLIT_INSTRUCTIONS / _ISSUED
        promotions = length / values["PROMOTE_K"] if values["PROMOTE_K"] > values["MMA_K"] else 0.0
        issue += (length / values["MMA_K"] + promotions) * block_m * block_n / 32 / _ISSUED
    elif values["MMA_M"] == 8 and target.compute_capability == 90:
        products *= _SMALL_SHAPE
    fragments = values["WARP_M"] / 16 * _a_fragment(launch, values) + values["WARP_N"] / 16 * _LDMATRIX
    patch, patches, copy_cycles = _patch_copies(launch, values)
    gathers = launch.values["STAGING"] == "TAP" and not values["INPUT_CHANNELS_LAST"]
    pixel_copy = _GATHER[element] if gathers else element / values["COPY_BYTES"] * _PIXEL_COPY
    pixels = 0.0 if patch else block_m * length / 32 * pixel_copy
    copies = patch * patches * copy_cycles + pixels + block_n * length * element / 512 * _FILTER_COPY
    if patch and values["COPY_BYTES"] < 4:
        copies += _REGISTER_LOOPS
    loads = steps * rows_of_warps * fragments
    pipes = (products, loads, copies, issue, launch.l2_bytes / ctas / _L2_BYTES)
    busy = (1 - _MINOR) * max(pipes) + _MINOR * sum(pipes)

    pixel = {"ROW": values["CHANNELS"], "COLUMN": values["C"]}.get(str(launch.values["ORDER"]), 0) * element
    if pixel == 16:
        busy *= _SMALL_PIXEL
    covered = (values["NUM_STAGES"] - 1) * busy * resident / slices
    waits = slices * (_BARRIER + max(0.0, _LATENCY - covered))
    if values["FRAGMENT_STAGES"] == 1:
        waits += steps / values["WARPS_K"] * _FRAGMENTS
    output = values["TILE_N"] * values["TILE_P"] * values["TILE_Q"] * block_n * element / 512
    waits += _FIXED + (patch + output) / warps * _PER_COPY
    # measured: kernels of one CTA an SM take so much less, beside the gap between two plans, those of two half of it
    share = ceil_div(ctas, target.sm_count)
    hidden = _FIXED / share if share <= 2 and not values["SPLIT"] else 0.0
    return replace(launch, busy_cycles=busy, idle_cycles=waits, hidden_cycles=hidden)


def element_bytes(launch: Launch) -> int:
    return {"double": 8, "float": 4}.get(str(launch.values["ELEMENT"]), 2)


def thread_registers(problem: ConvProblem, config: MmaConfig) -> int:
    """What a thread takes where nothing limits it, roughly."""
    geometry = MmaGeometry(problem=problem, config=config)
    stages = config.fragment_stages + (2 if problem.precision == "fp32" else 0)  # and the parts of split ones
    return geometry.accumulator_registers + stages * geometry.fragment_registers + _OTHER_REGISTERS


def staging_registers(problem: ConvProblem, config: MmaConfig) -> int:
    """What a thread takes on top, roughly: to round to tf32, to read runs, to transpose NCHW, for places of pixels."""
    registers = {"tf32": 48, "fp32": 56, "fp64": 18}.get(problem.precision, 0)
    if problem.precision == "fp32" and config.fragment_stages == 1:  # the compiler loads several steps ahead
        registers += 3 * MmaGeometry(problem=problem, config=config).fragment_registers
    registers += 24 if config.window_order == "run" else 0
    transposes = problem.x_layout == "nchw" and config.staging != "explicit"
    registers += (24 if problem.precision == "fp32" else 32) if transposes else 0
    if config.staging != "window":
        copies = ceil_div(config.block_m * config.block_k, unit_elements(problem) * config.threads)
        registers += copies * (14 if transposes else 6)
    return registers


def _ctas_by_registers(wanted: int, values: dict[str, int], threads: int, target: Target) -> int:
    limit = min(255, target.regs_per_sm // (values["CTAS_PER_SM"] * threads))
    by_registers = target.regs_per_sm // (threads * round_up(min(wanted, limit), 8))
    return max(1, min(by_registers, target.max_threads_per_sm // threads))


def _flops_per_cycle(element: int, target: Target) -> float:
    """An SM's at the clock that it sustains."""
    peak = target.mma_sync_tflops({8: "fp64", 4: "tf32"}.get(element, "fp16")) * 1e6 / target.sm_count
    return peak / (SUSTAINED_CLOCK * target.clock_mhz)


def _a_fragment(launch: Launch, values: dict[str, int]) -> float:
    if launch.values["ORDER"] == "RUN":
        return _RUN_FRAGMENT
    together = launch.values["STAGING"] != "WINDOW" or values["PAD_ROWS"] or values["TILE_Q"] % 8 == 0
    return _LDMATRIX if together else _LDMATRIX * _BANK_CONFLICTS


def _patch_copies(launch: Launch, values: dict[str, int]) -> tuple[float, int, float]:
    """Window staging: warp-wide copies of a patch (lanes run along its rows), patches, and cycles of a copy."""
    if launch.values["STAGING"] != "WINDOW":
        return 0.0, 0, 0.0
    order, last_row = launch.values["ORDER"], (values["R"] - 1) * values["DILATION_H"]
    rows = values["TILE_N"] * ((values["TILE_P"] - 1) * values["STRIDE_H"] + last_row + 1)
    columns = (values["TILE_Q"] - 1) * values["STRIDE_W"] + (values["S"] - 1) * values["DILATION_W"] + 1
    element = element_bytes(launch)
    channels = values["PATCH_K"] if order == "ROW" else values["C"]
    patches = ceil_div(values["CHANNELS"], values["PATCH_K"])
    if not values["INPUT_CHANNELS_LAST"]:  # a lane gathers the channels of 16 bytes one by one
        unit = 16 // element
        return rows * ceil_div(columns * ceil_div(values["PATCH_K"], unit), 32) * unit, patches, _REGISTER_COPY
    copies = rows * ceil_div(columns * channels * element // values["COPY_BYTES"], 32)
    targets = min(last_row // values["STRIDE_H"] + 1, values["TILE_P"]) if order == "COLUMN" else 1
    cycles = _PATCH_COPY if values["COPY_BYTES"] >= 4 else _REGISTER_COPY
    return copies, patches, cycles + (targets - 1) * _TARGET
