"""What the families share: a problem as template values, filter packing, the explicit window tensor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from im2wingen.dtypes import ELEMENT_CXX
from im2wingen.families.base import AnyTarget, Launch, TemplateValue
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_QUICK_BYTES = 96 << 20  # of x, w and y
_THREADS = 256
_TURNED = 64  # channels of a CTA of channels_last, and taps of all its filters at most
_TURNED_BYTES = 256  # of a channel's pixels that it turns at a time, at most
_MAX_TILE_BYTES = 48 * 1024  # of static shared memory
MAX_GRID_X = 2**31 - 1
MAX_STRIDE = 65535


def problem_values(problem: ConvProblem) -> dict[str, TemplateValue]:
    """The values of parts/problem.cuh."""
    return {
        "ELEMENT": ELEMENT_CXX[problem.precision], "OUTPUT": ELEMENT_CXX[problem.y_dtype],
        "N": problem.n, "C": problem.c, "H": problem.h, "W": problem.w,
        "K": problem.k, "R": problem.r, "S": problem.s, "P": problem.p, "Q": problem.q,
        "STRIDE_H": problem.stride_h, "STRIDE_W": problem.stride_w,
        "PAD_TOP": problem.pad_top, "PAD_LEFT": problem.pad_left, "PADDED_W": problem.padded_w,
        "HAS_PADDING": problem.has_padding,
        "DILATION_H": problem.dilation_h, "DILATION_W": problem.dilation_w, "GROUPS": problem.groups,
        "INPUT_CHANNELS_LAST": problem.x_layout == "nhwc",
        "FILTER_CHANNELS_LAST": problem.w_layout == "krsc",
        "OUTPUT_CHANNELS_LAST": problem.y_layout == "nhwc",
        "HAS_BIAS": problem.epilogue != "none", "HAS_RELU": problem.epilogue == "bias_relu",
    }  # fmt: skip


def foreign_layout(problem: ConvProblem) -> str | None:
    """The sentence of a family that takes neither CHWN nor CHWN8, or None."""
    taken = ("nhwc", "nchw")
    if problem.x_layout in taken and problem.y_layout in taken:
        return None
    return f"layout {problem.layout} is not supported: x and y must be nhwc or nchw"


def not_for_hopper(problem: ConvProblem, target: AnyTarget, precisions: Sequence[str]) -> str | None:
    """The sentence of a family that runs these precisions, in NHWC and NCHW, on sm_90a, or None."""
    if not isinstance(target, Target):
        return f"needs a CUDA GPU, the target is {target.name}"
    if (reason := foreign_layout(problem)) is not None:
        return reason
    if problem.precision not in precisions:
        return f"precision {problem.precision} is not one of {', '.join(precisions)}"
    if target.arch != "sm_90a":
        return f"needs sm_90a, the target is {target.arch}"
    return None


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    return ceil_div(a, b) * b


def unit_elements(problem: ConvProblem) -> int:
    """Elements in 16 bytes."""
    return 16 // problem.element_bytes


FilterOrder = Literal["row", "column", "run"]


def filter_taps(problem: ConvProblem, order: FilterOrder) -> tuple[int, int]:
    """Taps of the filter in that order, and a tap's channels, unpadded: row (R*S, C), column (S, R*C), run (R, S*C)."""
    return {
        "row": (problem.r * problem.s, problem.c),
        "column": (problem.s, problem.r * problem.c),
        "run": (problem.r, problem.s * problem.c),
    }[order]


# Cycles of the gap before a plan that kernels which begin in it save.
EARLY_CYCLES = 1100.0


def is_quick(problem: ConvProblem) -> bool:
    """Whether x, w and y are so little that the gap before a plan counts: then kernels had better begin in it."""
    return problem.compulsory_bytes <= _QUICK_BYTES


def early(launch: Launch) -> Launch:
    """A kernel that prepares an operand, begun while the kernel before the plan ends."""
    return replace(launch, values={**launch.values, "PROGRAMMATIC_LAUNCH": True}, programmatic=True)


def pack_filter(problem: ConvProblem, *, order: FilterOrder, channels: int | None = None) -> tuple[Launch, int]:
    """The launch that writes workspace `packed` as [K][tap][channel], each filter padded to 16 bytes, and its bytes.

    `channels` is the padded number of channels of a tap (default: unpadded).
    """
    unit = unit_elements(problem)
    taps, unpadded = filter_taps(problem, order)
    channels = channels or unpadded
    length = round_up(taps * channels, unit)
    size = problem.k * length * problem.element_bytes
    launch = Launch(
        template="pack_filter",
        values={
            **problem_values(problem), "ORDER": order.upper(), "TAPS": taps, "CHANNELS": channels, "LENGTH": length,
            "THREADS": _THREADS, "PROGRAMMATIC_LAUNCH": False,
        },
        grid=(ceil_div(problem.k * length // unit, _THREADS), 1, 1), block=_THREADS, smem_bytes=0,
        arguments=("w", "packed"), l2_bytes=2 * size,
    )  # fmt: skip
    return launch, size


def filters_last(problem: ConvProblem) -> tuple[Launch, int]:
    """The launch that writes workspace `packed` as [tap][channel][K], K padded to 16 bytes, and its bytes."""
    length, filters = problem.c * problem.r * problem.s, round_up(problem.k, unit_elements(problem))
    size = filters * length * problem.element_bytes
    launch = Launch(
        template="filters_last",
        values={**problem_values(problem), "FILTERS": filters, "THREADS": _THREADS},
        grid=(ceil_div(length, 32) * ceil_div(filters, 32), 1, 1), block=_THREADS, smem_bytes=0,
        arguments=("w", "packed"), l2_bytes=2 * size,
    )  # fmt: skip
    return launch, size


def window_transform(problem: ConvProblem, *, channels_last: bool, column_pitch: int) -> tuple[Launch, int]:
    """The launch that writes workspace `window` (the im2win tensor, pads included), and its bytes.

    `column_pitch` counts elements: at least R*C channels last, else R.
    """
    vector = next(v for v in (unit_elements(problem), 4, 2, 1) if column_pitch % v == 0)
    planes = 1 if channels_last else problem.c
    elements = problem.n * planes * problem.p * problem.padded_w * column_pitch
    launch = Launch(
        template="window_transform",
        values={
            **problem_values(problem), "WINDOW_CHANNELS_LAST": channels_last, "COLUMN_PITCH": column_pitch,
            "VECTOR": vector, "THREADS": _THREADS,
        },
        grid=(ceil_div(elements // vector, _THREADS), 1, 1), block=_THREADS, smem_bytes=0, arguments=("x", "window"),
        l2_bytes=2 * elements * problem.element_bytes,
    )  # fmt: skip
    return launch, elements * problem.element_bytes


def channels_last(problem: ConvProblem, *, channels: int, beside: bool = False) -> tuple[Launch, int]:
    """The launch that writes workspace `channels_last`, an NCHW x as [N][H][W][channels], and its bytes.

    `beside`: the plan's launch before it packs the filter, which it needn't wait for.
    """
    pixels = problem.h * problem.w
    elements = problem.n * pixels * channels
    odd = pixels * problem.element_bytes % 8 != 0  # rows of a channel are hardly aligned; a run of channels is
    runs = odd and _TURNED * pixels * problem.element_bytes <= _MAX_TILE_BYTES
    tiles = 1 if runs else ceil_div(pixels * problem.element_bytes, _TURNED_BYTES)
    launch, size = _turn(
        problem, "x", "channels_last", channels=channels, runs=runs, images=problem.n, tiles=tiles, elements=elements
    )
    return replace(launch, beside=beside), size


def filter_channels_last(problem: ConvProblem, *, channels: int) -> tuple[Launch, int] | None:
    """The launch that writes workspace `packed`, a KCRS filter as [K][tap][channels], and its bytes.

    None where the filter is KRSC, elements have 8 bits, or the taps of a few channels don't fit shared memory.
    """
    taps = problem.r * problem.s
    if problem.w_layout != "kcrs" or problem.element_bytes == 1:
        return None
    if _TURNED * taps * problem.element_bytes > _MAX_TILE_BYTES:
        return None
    elements = problem.k * taps * channels
    images = ceil_div(problem.k, _filters_at_once(problem))
    return _turn(problem, "w", "packed", channels=channels, runs=True, images=images, tiles=1, elements=elements)


def _filters_at_once(problem: ConvProblem) -> int:
    return max(1, _TURNED // (problem.r * problem.s))


def _turn(
    problem: ConvProblem,
    name: str,
    turned: str,
    *,
    channels: int,
    runs: bool,
    images: int,
    tiles: int,
    elements: int,
) -> tuple[Launch, int]:
    size = elements * problem.element_bytes
    launch = Launch(
        template="channels_last",
        values={
            **problem_values(problem), "CHANNELS": channels, "TILES_PIXELS": tiles, "FILTER": name == "w",
            "FILTERS": _filters_at_once(problem) if name == "w" else 1, "RUNS": runs, "THREADS": _THREADS,
            "PROGRAMMATIC_LAUNCH": False,
        },
        grid=(images * tiles * ceil_div(channels, _TURNED), 1, 1), block=_THREADS, smem_bytes=0,
        arguments=(name, turned), l2_bytes=2 * size,
    )  # fmt: skip
    return launch, size
