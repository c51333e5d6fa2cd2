"""An x of wgmma's scaled tf32: the kernels that write it as fp16 numbers with scales."""

from dataclasses import replace

from im2wingen.families.base import Launch
from im2wingen.families.support import ceil_div, problem_values, round_up
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.target import Target

_HALF_BYTES = 2
_THREADS = 256
_PART_BYTES = 32 * 1024  # of x, that a CTA takes at a time
_TILE_PIXELS = 64  # of an NCHW x
_MOST_PARTS = 4096  # of an image
_CHECKERS = 2  # CTAs an SM that see whether the first scales are good
_SCALE_BYTES, _RANGE_BYTES, _GUESS_BYTES = 8, 8, 4  # of an image; of a part; of an image


def scale_input(geometry: WgmmaGeometry, target: Target) -> tuple[list[Launch], int]:
    """The launches that write workspace `halves`, and its bytes: x in NHWC, then its scales and what they come from."""
    problem = geometry.problem
    pixels = problem.h * problem.w
    part = max(1, _PART_BYTES // (problem.c * problem.element_bytes), ceil_div(pixels, _MOST_PARTS))
    part = round_up(part, 1 if problem.x_layout == "nhwc" else _TILE_PIXELS)
    parts = ceil_div(pixels, part)
    x_bytes = problem.n * pixels * problem.c * problem.element_bytes
    size = problem.n * pixels * geometry.channels * _HALF_BYTES
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
    beside = _SCALE_BYTES + _GUESS_BYTES + parts * _RANGE_BYTES
    return [write, check], size + problem.n * beside
