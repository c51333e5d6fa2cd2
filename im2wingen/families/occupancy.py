"""How CTAs share an SM: how many it holds at once, and how long it takes for all of its own."""

from im2wingen.families.base import Launch
from im2wingen.families.support import ceil_div, round_up
from im2wingen.target import Target

SUSTAINED_CLOCK = 0.83  # share of the boost clock that a busy device keeps within its power limit
_RESERVED_SMEM_BYTES = 1024  # the system's, per resident CTA
_WARP = 32


def resident_ctas(launch: Launch, target: Target, *, num_regs: int = 0, static_smem_bytes: int = 0) -> int:
    """CTAs of the launch that one SM can hold at once; 0 if not even one fits.

    A thread's `num_regs` are known after the compile; before it (0) the launch's own limit stands in.
    """
    smem = launch.smem_bytes + static_smem_bytes
    if smem > target.smem_per_block_bytes:
        return 0
    warps = ceil_div(launch.block, _WARP)
    limits = [
        target.max_blocks_per_sm,
        target.max_threads_per_sm // (warps * _WARP),
        target.smem_per_sm_bytes // (smem + _RESERVED_SMEM_BYTES),
    ]
    if num_regs:
        limits.append(target.regs_per_sm // (warps * warp_registers(num_regs)))
    elif launch.ctas_per_sm_by_threads:
        limits.append(launch.ctas_per_sm_by_threads)
    return min(limits)


def warp_registers(num_regs: int) -> int:
    """Registers that a warp takes: 32 times the thread's, in units of 256."""
    return round_up(num_regs * _WARP, 256)


def sm_cycles(launch: Launch, target: Target, resident: int, *, busy: float, idle: float) -> float:
    """Cycles of the busiest SM over the launch, whose CTAs each keep it `busy` and wait `idle` cycles.

    CTAs come in rounds of `resident`. One waits at the SM's expense only while all others of its round wait too.
    """
    share = ceil_div(launch.grid[0] * launch.grid[1] * launch.grid[2], target.sm_count)
    full, rest = divmod(share, max(1, resident))

    def round_cycles(ctas: int) -> float:
        return ctas * busy + idle * (idle / (busy + idle)) ** (ctas - 1) if ctas else 0.0

    return full * round_cycles(max(1, resident)) + round_cycles(rest)
