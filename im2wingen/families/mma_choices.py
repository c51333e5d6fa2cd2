"""Which values a field of an mma config may take for a problem."""

from itertools import product

from im2wingen.families.mma_config import padded_channels
from im2wingen.families.support import FilterOrder, ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem

WARP_WIDTHS = (16, 32, 48, 64, 96, 128)
SMALL_TILES, LARGE_TILES = ((32, 64),), ((65, 128), (129, 192), (193, 256))  # pixels
_MAX_COLUMN_CHANNELS = 256


def runs(problem: ConvProblem) -> bool:
    """Whether a window's rows are runs of x that begin at 4-byte words."""
    pixel = problem.stride_w * problem.c * problem.element_bytes
    return problem.x_layout == "nhwc" and problem.dilation_w == 1 and pixel % 4 == 0


def copy_choices(problem: ConvProblem, order: FilterOrder) -> list[int]:
    """Bytes that one copy of x may move: what divides a pixel's channels, or in run order 4 if rows begin at words."""
    if problem.x_layout == "nchw":
        return [16]
    if order == "run":
        row, pad = (extent * problem.c * problem.element_bytes for extent in (problem.w, problem.pad_left))
        return [4] if row % 4 == 0 and pad % 4 == 0 else [problem.element_bytes]
    pixel = problem.c * problem.element_bytes
    return [b for b in (16, 8, 4) if pixel % b == 0] or [problem.element_bytes]


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
