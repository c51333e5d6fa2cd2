"""An analytic time estimate of a plan, from static facts alone; it ranks configs and never judges one.

Per launch: the cycles of the busiest SM, or what the device moves through DRAM if that takes longer. A family says how
long a CTA keeps an SM busy and how long it waits (Launch.busy_cycles, idle_cycles); for other kernels flops and L2
bytes do. CTAs that share an SM hide each other's waits. Shared memory and threads bound how many do; registers too,
guessed by the family or known from cubins.
"""

import math
from collections.abc import Sequence

from im2wingen.cpu_target import CpuTarget
from im2wingen.families import occupancy
from im2wingen.families.base import AnyTarget, Launch, Plan
from im2wingen.families.occupancy import SUSTAINED_CLOCK, sm_cycles, warp_registers
from im2wingen.nvrtc import Cubin
from im2wingen.target import Target

__all__ = ["estimate_us", "resident_ctas", "warp_registers"]

_LAUNCH_US = 2.0  # gap between two plans of one stream
_NEXT_US = 0.5  # and between two kernels of a plan, the first of them a short one; none where they run side by side
_IDLE_CYCLES = 2500  # of a CTA that says nothing
_L2_BYTES_PER_CYCLE = 32  # per SM, sustained
_DRAM_EFFICIENCY = 0.9
_CPU_LAUNCH_US = 5.0  # a team of threads begins and ends
_CPU_BYTES_PER_US = 30_000  # of all cores
_NOT_OVERLAPPED = 0.13  # share of the smaller cost that adds to the larger
_CXX_BYTES = {"float": 4, "double": 8, "int32_t": 4, "int8_t": 1, "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1}
_HALF_RATE_WARPS = {"ffma": 3.0, "mma": 1.5, "memory": 4.0}  # warps of a CTA at which a pipe runs at half its rate


def estimate_us(plan: Plan, target: AnyTarget, cubins: Sequence[Cubin] | None = None) -> float:
    """Microseconds for one run of all launches; `cubins`, one a launch, sharpen the occupancy."""
    if isinstance(target, CpuTarget):
        return sum(_cpu_launch_us(launch, target) for launch in plan.launches)
    known: Sequence[Cubin | None] = cubins if cubins is not None else [None] * len(plan.launches)
    gaps = sum(_NEXT_US for launch in plan.launches[1:] if not launch.beside)
    launches = zip(plan.launches, known, strict=True)
    return _LAUNCH_US + gaps + sum(_launch_us(plan, launch, target, cubin) for launch, cubin in launches)


def resident_ctas(launch: Launch, target: Target, cubin: Cubin | None = None) -> int:
    """CTAs of the launch that one SM can hold at once; 0 if not even one fits."""
    if cubin is None:
        return occupancy.resident_ctas(launch, target)
    return occupancy.resident_ctas(launch, target, num_regs=cubin.num_regs, static_smem_bytes=cubin.smem_bytes)


def _launch_us(plan: Plan, launch: Launch, target: Target, cubin: Cubin | None) -> float:
    busy, idle = launch.busy_cycles or _busy_cycles(launch, target), launch.idle_cycles or _IDLE_CYCLES
    cycles = sm_cycles(launch, target, resident_ctas(launch, target, cubin), busy=busy, idle=idle)
    cycles = max(0.0, cycles - launch.hidden_cycles)
    sm_us = cycles / (SUSTAINED_CLOCK * target.clock_mhz)
    dram_us = _dram_bytes(plan, launch, target) / (_DRAM_EFFICIENCY * target.dram_gbps * 1e3)
    return _together(sm_us, dram_us)


def _cpu_launch_us(launch: Launch, target: CpuTarget) -> float:
    """From `busy_cycles`, those of the busiest core, or else from flops; and from what comes from beyond its caches."""
    busy_us = launch.busy_cycles / target.clock_mhz or launch.flops / target.fp32_gflops * 1e-3
    return _together(busy_us, launch.l2_bytes / _CPU_BYTES_PER_US) + _CPU_LAUNCH_US


def _busy_cycles(launch: Launch, target: Target) -> float:
    """Cycles of one CTA from its flops and its L2 bytes."""
    ctas, warps = math.prod(launch.grid), -(-launch.block // 32)
    element = _element_bytes(launch)
    cuda_cores = target.fp64_tflops if element == 8 else target.fp32_tflops
    tensor = {8: "fp64", 4: "tf32", 1: "int8"}.get(element, "fp16")
    peak = target.mma_sync_tflops(tensor) if launch.pipe == "mma" else cuda_cores
    flops = launch.flops / ctas / (peak * 1e6 / target.sm_count) * SUSTAINED_CLOCK * target.clock_mhz
    l2 = launch.l2_bytes / ctas / _L2_BYTES_PER_CYCLE
    return _together(flops, l2) * (1 + _HALF_RATE_WARPS[launch.pipe] / warps)


def _together(a: float, b: float) -> float:
    return max(a, b) + _NOT_OVERLAPPED * min(a, b)


def _dram_bytes(plan: Plan, launch: Launch, target: Target) -> int:
    """Bytes that must cross DRAM: each array once; a workspace that fits L2 stays there."""
    used = launch.array_names
    if "y" in used:  # where a workspace stands for x or w, those come along for the repair path alone
        used -= {
            original
            for original, stand_in in (("x", "window"), ("x", "channels_last"), ("x", "halves"), ("w", "packed"))
            if stand_in in used
        }
    arrays = sum(_array_bytes(launch, name) for name in used & {"x", "w", "y"})
    workspaces = sum(size for name, size in plan.workspace.items() if name in used and size > target.l2_bytes / 2)
    return arrays + workspaces


def _array_bytes(launch: Launch, name: str) -> int:
    """Bytes of x, w or y as the launch's template values give them; 0 where they don't."""
    dims = {"x": ("N", "C", "H", "W"), "w": ("K", "C", "R", "S"), "y": ("N", "K", "P", "Q")}[name]
    elements = math.prod(int(launch.values.get(dim, 0)) for dim in dims)
    return elements * _element_bytes(launch, "OUTPUT" if name == "y" else "ELEMENT")


def _element_bytes(launch: Launch, value: str = "ELEMENT") -> int:
    return _CXX_BYTES.get(str(launch.values.get(value) or launch.values.get("ELEMENT")), 2)
