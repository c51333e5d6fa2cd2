"""Operands of wgmma's scaled tf32: x and the filter as fp16 numbers with scales, and how TMA sees them."""

from dataclasses import replace

from im2wingen.families.base import Launch, TensorMap
from im2wingen.families.support import ceil_div, problem_values, round_up
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.target import Target

HALF_BYTES = 2
_THREADS = 256
_PART_BYTES = 32 * 1024  # of x, that a CTA takes at a time
_TILE_PIXELS = 64  # of an NCHW x
_MOST_PARTS = 4096  # of an image
_CHECKERS = 2  # CTAs an SM that see whether the first scales are good
_FILTER_SCALE_BYTES, _IMAGE_SCALE_BYTES, _RANGE_BYTES, _GUESS_BYTES = 16, 8, 8, 4


def scale_filter(geometry: WgmmaGeometry) -> tuple[Launch, int]:
    """The launch that writes workspace `packed`, and its bytes: (chunks, R*S, K) rows of halves, then K scales."""
    problem, config = geometry.problem, geometry.config
    row_bytes = geometry.chunks * problem.r * problem.s * problem.k * geometry.row_bytes
    launch = Launch(
        template="split_filter",
        values={
            **problem_values(problem), "CHUNK": config.block_k, "PARTS": 1, "THREADS": _THREADS,
            "PROGRAMMATIC_LAUNCH": False,
        },
        grid=(problem.k, 1, 1), block=_THREADS, smem_bytes=0, arguments=("w", "packed"),
        l2_bytes=2 * problem.k * problem.gemm_k * problem.element_bytes + row_bytes,
    )  # fmt: skip
    return launch, row_bytes + problem.k * _FILTER_SCALE_BYTES


def scale_input(geometry: WgmmaGeometry, target: Target) -> tuple[list[Launch], int]:
    """The launches that write workspace `halves`, and its bytes: x in NHWC, then its scales and what they come from."""
    problem = geometry.problem
    pixels = problem.h * problem.w
    part = max(1, _PART_BYTES // (problem.c * problem.element_bytes), ceil_div(pixels, _MOST_PARTS))
    part = round_up(part, 1 if problem.x_layout == "nhwc" else _TILE_PIXELS)
    parts = ceil_div(pixels, part)
    x_bytes = problem.n * pixels * problem.c * problem.element_bytes
    size = problem.n * pixels * geometry.channels * HALF_BYTES
    write = Launch(
        template="scale_input",
        values={
            **problem_values(problem), "CHANNELS": geometry.channels, "PART_PIXELS": part, "CTAS": parts,
            "THREADS": _THREADS, "CHECK": False, "PROGRAMMATIC_LAUNCH": False,
        },
        grid=(problem.n * parts, 1, 1), block=_THREADS, smem_bytes=0, arguments=("x", "halves"), beside=True,
        l2_bytes=x_bytes + size,
    )  # fmt: skip
    checkers = min(parts, max(1, _CHECKERS * target.sm_count // problem.n))
    check = replace(
        write, values={**write.values, "CTAS": checkers, "CHECK": True, "PROGRAMMATIC_LAUNCH": True},
        grid=(problem.n * checkers, 1, 1), beside=False, programmatic=True, l2_bytes=problem.n * parts * _RANGE_BYTES,
    )  # fmt: skip
    beside = _IMAGE_SCALE_BYTES + _GUESS_BYTES + parts * _RANGE_BYTES
    return [write, check], size + problem.n * beside


def scaled_filter_map(geometry: WgmmaGeometry, *, promotion_bytes: int) -> TensorMap:
    """The (halves of a row, K, chunks * R*S) of workspace `packed`; a box is one tap of a tile's channels."""
    problem, row_bytes = geometry.problem, geometry.row_bytes
    return TensorMap(
        array="packed", element="fp16",
        dims=(geometry.config.block_k, problem.k, geometry.chunks * problem.r * problem.s),
        strides_bytes=(row_bytes, problem.k * row_bytes), box=(geometry.config.block_k, geometry.filter_rows, 1),
        swizzle_bytes=row_bytes, l2_promotion_bytes=promotion_bytes,
    )  # fmt: skip
