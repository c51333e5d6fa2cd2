"""Operands of wgmma's split arithmetic: the filter as rows of halves, an NCHW x as it lands, and how TMA sees them."""

from itertools import product

from im2wingen.families.base import Launch, TensorMap
from im2wingen.families.support import ceil_div, problem_values
from im2wingen.families.wgmma_axes import horizontal, vertical
from im2wingen.families.wgmma_geometry import WgmmaGeometry

_THREADS = 256
_HALF_BYTES = 2
_SCALE_BYTES = {2: 4, 1: 16}  # of a filter: its inverse; of scaled operands also what sums are measured by


def split_filter(geometry: WgmmaGeometry) -> tuple[Launch, int]:
    """The launch that writes workspace `packed`, and its bytes: (chunks, R*S, K) rows of halves, then K scales.

    A row has high and low halves of a chunk, of scaled operands high ones alone.
    """
    problem, config = geometry.problem, geometry.config
    parts = 2 if config.arithmetic == "split" else 1
    rows_bytes = geometry.chunks * problem.r * problem.s * problem.k * geometry.row_bytes
    w_bytes = problem.k * problem.gemm_k * problem.element_bytes
    launch = Launch(
        template="split_filter",
        values={
            **problem_values(problem), "CHUNK": config.block_k, "PARTS": parts, "THREADS": _THREADS,
            "PROGRAMMATIC_LAUNCH": False,
        },
        grid=(problem.k, 1, 1), block=_THREADS, smem_bytes=0, arguments=("w", "packed"),
        l2_bytes=2 * w_bytes + rows_bytes,
    )  # fmt: skip
    return launch, rows_bytes + problem.k * _SCALE_BYTES[parts]


def split_filter_map(geometry: WgmmaGeometry, *, promotion_bytes: int) -> TensorMap:
    """The (halves of a row, K, chunks * R*S) of workspace `packed`; a box is one tap of a tile's channels."""
    problem, row_bytes = geometry.problem, geometry.row_bytes
    return TensorMap(
        array="packed", element="fp16",
        dims=(row_bytes // _HALF_BYTES, problem.k, geometry.chunks * problem.r * problem.s),
        strides_bytes=(row_bytes, problem.k * row_bytes), box=(row_bytes // _HALF_BYTES, geometry.filter_rows, 1),
        swizzle_bytes=row_bytes, l2_promotion_bytes=promotion_bytes,
    )  # fmt: skip


def landing_maps(geometry: WgmmaGeometry) -> tuple[TensorMap, ...]:
    """The NCHW x of each plane, with all columns: (W, rows, C, N); strips (H*W, C, N); images (C*H*W, N, 1)."""
    problem, landing = geometry.problem, geometry.landing
    if landing is None:
        raise ValueError("x does not land: transposed input staging breaks a rule")
    row, pixels = 4 * problem.w, problem.h * problem.w
    image = 4 * problem.c * pixels
    maps = []
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    planes = product(range(vertical(problem).used_planes), range(horizontal(problem).used_planes))
    for plane, _ in planes:
        top = vertical(problem).place(plane)[0]
        if landing.kind == "rectangles":
            dims = problem.w, ceil_div(problem.h - top, problem.stride_h), problem.c, problem.n
            strides = problem.stride_h * row, 4 * pixels, image
        elif landing.kind == "strips":
            dims, strides = (pixels, problem.c, problem.n), (4 * pixels, image)
        else:
            dims, strides = (problem.c * pixels, problem.n, 1), (image, problem.n * image)
        maps.append(
            TensorMap(
                array="x", element="fp32", offset_bytes=top * row, dims=dims, strides_bytes=strides, box=landing.box,
                swizzle_bytes=0, l2_promotion_bytes=geometry.config.l2_promotion_bytes,
            )
        )  # fmt: skip
    return tuple(maps)
