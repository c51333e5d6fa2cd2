"""An analytic time estimate of a plan, from static facts alone; it ranks configs and never judges one.

Per launch: what the busiest SM computes, reads from shared memory and asks of L2, and what the device moves through
DRAM. The largest of the four rules; the others hide behind it as far as pipeline stages and resident CTAs let them, and
each round of CTAs pays its first fill. Shared memory and threads bound the CTAs that an SM holds at once; registers do
too where cubins are given. Beside the launch's own fields it reads the template values that carry a fixed meaning:
the problem's (ELEMENT, N, C ...), NUM_STAGES, and the tile of a warp (WARP_M, WARP_N, or LANES_M and THREAD_*).
"""

import math
from collections.abc import Sequence

from im2wingen.families.base import Launch, Plan
from im2wingen.nvrtc import Cubin
from im2wingen.target import Target

_LAUNCH_US = 2.0  # gap between two kernels of one stream
_FILL_CYCLES = 2500  # from a CTA's start to its first product, where no other CTA hides it
_L2_BYTES_PER_CYCLE = 32  # per SM, sustained
_DRAM_EFFICIENCY = 0.9
_SMEM_BYTES_PER_CYCLE = 128  # per SM
_NOT_OVERLAPPED = 0.15  # share of the smaller costs that adds to the largest however deep the pipeline
_HALF_RATE_WARPS = {
    "ffma": 3.0,
    "mma": 1.5,
    "memory": 4.0,
}  # resident warps at which an SM's pipe runs at half its rate
_CTA_RESERVED_SMEM_BYTES = 1024  # the system's, per resident CTA
_WARP = 32


def estimate_us(plan: Plan, target: Target, cubins: Sequence[Cubin] | None = None) -> float:
    """Microseconds for one run of all launches; `cubins`, one a launch, sharpen the occupancy."""
    known: Sequence[Cubin | None] = cubins if cubins is not None else [None] * len(plan.launches)
    return sum(_launch_us(plan, launch, target, cubin) for launch, cubin in zip(plan.launches, known, strict=True))


def resident_ctas(launch: Launch, target: Target, cubin: Cubin | None = None) -> int:
    """CTAs of the launch that one SM can hold at once; 0 if not even one fits."""
    smem = launch.smem_bytes + (cubin.smem_bytes if cubin else 0)
    if smem > target.smem_per_block_bytes:
        return 0
    warps = _warps(launch)
    limits = [
        target.max_blocks_per_sm,
        target.max_threads_per_sm // (warps * _WARP),
        target.smem_per_sm_bytes // (smem + _CTA_RESERVED_SMEM_BYTES),
    ]
    if cubin is not None and cubin.num_regs:
        limits.append(target.regs_per_sm // (warps * warp_registers(cubin.num_regs)))
    elif launch.ctas_per_sm_by_threads:
        limits.append(launch.ctas_per_sm_by_threads)
    return min(limits)


def warp_registers(num_regs: int) -> int:
    """Registers that a warp takes: 32 times the thread's, in units of 256."""
    return -(-num_regs * _WARP // 256) * 256


def _launch_us(plan: Plan, launch: Launch, target: Target, cubin: Cubin | None) -> float:
    ctas = launch.grid[0] * launch.grid[1] * launch.grid[2]
    per_sm = -(-ctas // target.sm_count)  # on the busiest SM, over the whole launch
    resident = max(1, resident_ctas(launch, target, cubin))
    full, rest = divmod(per_sm, resident)
    rounds = ((full, resident), (1, rest))

    # An SM's CTA count, each counted by how far its round falls short of the pipe's full rate.
    warps, half = _warps(launch), _HALF_RATE_WARPS[launch.pipe]
    weighted = sum(n * side * (1 + half / (side * warps)) for n, side in rounds if n and side)

    clock = target.clock_mhz
    costs_us = [
        weighted * launch.flops / ctas / _sm_flops_per_us(launch, target),
        per_sm * _operand_bytes(launch) / ctas / (_SMEM_BYTES_PER_CYCLE * clock),
        weighted * launch.l2_bytes / ctas / (_L2_BYTES_PER_CYCLE * clock),
        _dram_bytes(plan, launch, target) / (_DRAM_EFFICIENCY * target.dram_gbps * 1e3),
    ]
    largest = max(costs_us)
    exposed = max(_NOT_OVERLAPPED, 1 / (int(launch.values.get("NUM_STAGES", 8)) + min(resident, per_sm) - 1))
    fill_us = (full + (rest > 0)) * _FILL_CYCLES / clock / resident
    return largest + exposed * (sum(costs_us) - largest) + fill_us + _LAUNCH_US


def _operand_bytes(launch: Launch) -> float:
    """Bytes that all warps read from shared memory for their products; 0 where the values don't give a warp's tile."""
    values = {name: int(value) for name, value in launch.values.items() if not isinstance(value, str)}
    if {"WARP_M", "WARP_N"} <= values.keys():
        rows, columns = values["WARP_M"], values["WARP_N"]
    elif {"LANES_M", "THREAD_P", "THREAD_Q", "THREAD_N"} <= values.keys():
        rows = values["LANES_M"] * values["THREAD_P"] * values["THREAD_Q"]
        columns = _WARP // values["LANES_M"] * values["THREAD_N"]
    else:
        return 0.0
    return launch.flops / 2 * (rows + columns) / (rows * columns) * _element_bytes(launch)


def _sm_flops_per_us(launch: Launch, target: Target) -> float:
    """One SM's ceiling on the launch's pipe; `memory` launches count their few operations at the CUDA cores' rate."""
    tensor = "tf32" if _element_bytes(launch) == 4 else "fp16"
    return target.peak_tflops(tensor if launch.pipe == "mma" else "fp32") * 1e6 / target.sm_count


def _dram_bytes(plan: Plan, launch: Launch, target: Target) -> int:
    """Bytes that must cross DRAM: each array once; a workspace that fits L2 stays there."""
    used = set(launch.arguments)
    if "y" in used:  # where a workspace stands for x or w, those come along for the repair path alone
        used -= {original for original, stand_in in (("x", "window"), ("w", "packed")) if stand_in in used}
    arrays = sum(_array_bytes(launch, name) for name in used & {"x", "w", "y"})
    workspaces = sum(size for name, size in plan.workspace.items() if name in used and size > target.l2_bytes / 2)
    return arrays + workspaces


def _array_bytes(launch: Launch, name: str) -> int:
    """Bytes of x, w or y as the launch's template values give them; 0 where they don't."""
    dims = {"x": ("N", "C", "H", "W"), "w": ("K", "C", "R", "S"), "y": ("N", "K", "P", "Q")}[name]
    return _element_bytes(launch) * math.prod(int(launch.values.get(dim, 0)) for dim in dims)


def _element_bytes(launch: Launch) -> int:
    return 4 if launch.values.get("ELEMENT") == "float" else 2


def _warps(launch: Launch) -> int:
    return -(-launch.block // _WARP)
