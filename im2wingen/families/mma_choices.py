"""Which values a field of an mma config may take for a problem."""

import math
from itertools import product

from im2wingen.families.mma_config import MmaConfig, Shape, padded_channels
from im2wingen.families.support import FilterOrder, ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

WARP_WIDTHS = (16, 32, 48, 64, 96, 128)
SMALL_TILES, LARGE_TILES = ((32, 64),), ((65, 128), (129, 192), (193, 256))  # pixels
_MAX_COLUMN_CHANNELS = 256
_PROMOTE_K = (8, 32, 64, 128)  # of gemm_k; 8 is a step
_SPLIT_ERROR = 2.5e-7  # of y's norm, expected


def runs(problem: ConvProblem) -> bool:
    """Whether a window's rows are runs of x that begin at 4-byte words."""
    pixel = problem.stride_w * problem.c * problem.element_bytes
    return problem.x_layout == "nhwc" and problem.dilation_w == 1 and pixel % 4 == 0


def copy_choices(problem: ConvProblem, order: FilterOrder) -> list[int]:
    """Bytes that one copy of x may move: what divides a pixel's channels, or in run order 4 if rows begin at words."""
    if problem.x_layout == "nchw":
        return [16]
    if order == "run":
        word = max(4, problem.element_bytes)
        row, pad = (extent * problem.c * problem.element_bytes for extent in (problem.w, problem.pad_left))
        return [word] if row % word == 0 and pad % word == 0 else [problem.element_bytes]
    pixel = problem.c * problem.element_bytes
    return [b for b in (16, 8, 4) if pixel % b == 0 and b >= problem.element_bytes] or [problem.element_bytes]


def shape_choices(problem: ConvProblem, target: Target) -> list[Shape]:
    """mma.sync's shapes of the precision, the fastest first; sm_90 alone has fp64 shapes of 16 rows in hardware."""
    if problem.precision == "fp64":
        return ["m16n8k4", "m16n8k8", "m16n8k16"] if target.compute_capability == 90 else ["m8n8k4"]
    return ["m16n8k16"] if problem.element_bytes == 2 else ["m16n8k8"]


def splits(problem: ConvProblem) -> bool:
    """Whether elements are split into two TF32 numbers."""
    return problem.precision == "fp32"


def promote_choices(problem: ConvProblem) -> list[int]:
    """gemm_k of a partial sum: few roundings in it, and few of them; without any where gemm_k is short."""
    if not splits(problem):
        return [1]
    errors = {promote_k: split_error(problem, promote_k) for promote_k in _PROMOTE_K}
    return [k for k in _PROMOTE_K if errors[k] <= _SPLIT_ERROR] or [min(_PROMOTE_K, key=errors.__getitem__)]


def split_error(problem: ConvProblem, promote_k: int) -> float:
    """Norm-relative error that split fp32 is expected to have: of a step's products, and of fp32 additions.

    `count` additions of random signs, each off by half a unit in the last place at most, are off by 2^-24 *
    sqrt(count / 12) of the sum; `verify_data.error_bound` says more.
    """
    totals = 2.0**-24 * (problem.gemm_k / promote_k / 12) ** 0.5
    partials = 2.0**-24 * (promote_k / 8 / 12) ** 0.5 if promote_k > 8 else 0.0
    return math.hypot(1e-7, partials, totals)


def promotes(config: MmaConfig) -> bool:
    """Whether partial sums end with a slice, or a slice with a partial sum."""
    steps, wanted = config.warp_steps, config.promote_k // config.mma_k
    return steps > 0 and wanted > 0 and (steps % wanted == 0 or wanted % steps == 0)


def block_k_choices(problem: ConvProblem) -> list[int]:
    unit = unit_elements(problem)
    return [2 * unit, 4 * unit, 8 * unit, 16 * unit]


def patch_k_choices(problem: ConvProblem) -> list[int]:
    """Channels of a chunk in row order that waste little of the last chunk; small ones only for want of others."""
    unit, channels = unit_elements(problem), padded_channels(problem, "row")
    for multiples in ((4, 8, 16), (2, 6, 12)):
        sizes = {min(channels, m * unit) for m in multiples} | ({channels} if channels <= 16 * unit else set())
        fair = sorted(s for s in sizes if s * ceil_div(channels, s) <= 1.1 * channels)
        if fair:
            return fair
    return [channels]


def orders(problem: ConvProblem) -> list[FilterOrder]:
    """Orders of the K axis worth trying: folding pays where a pixel has few channels."""
    unit = unit_elements(problem)
    orders: list[FilterOrder] = ["row"] if 2 * problem.c > unit else []
    if problem.c < 4 * unit and padded_channels(problem, "column") <= _MAX_COLUMN_CHANNELS:
        orders.append("column")
    if runs(problem) and problem.c < 2 * unit:
        orders.append("run")
    return orders or ["row"]


def warp_columns(problem: ConvProblem) -> list[str]:
    """Ways to lay warps (count x width) over the output channels that waste at most a third."""
    widths = [n for n in (32, 48, 64, 96) if n < problem.k + 16 and (n % 48 or problem.k % n == 0)] or [16]
    fair = [
        f"{count}x{n}"
        for count, n in product((1, 2, 4), widths)
        if (count - 1) * n < problem.k and 3 * round_up(problem.k, count * n) <= 4 * problem.k
    ]
    return fair or [f"1x{widths[0]}"]
