"""Peer `im2col`: the im2col matrix of the whole batch, copied out of strided windows, times the filter by cuBLAS."""

from collections.abc import Sequence
from typing import Any

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.problem import ConvProblem


def contestants(session: Session) -> list[Contestant]:
    """One contestant; copy and GEMM are both in its time, the matrix is its workspace."""
    torch, problem, buffers = session.torch, session.problem, session.buffers
    if problem.groups > 1:
        raise PeerUnavailableError("im2col is not written for groups")
    if problem.element_bytes == 1:
        raise PeerUnavailableError("im2col is not written for elements of 8 bits")
    if problem.im2col_bytes > torch.cuda.mem_get_info()[0]:
        raise PeerUnavailableError(f"the im2col matrix needs {problem.im2col_bytes} bytes, more than is free")
    matrix = torch.empty(matrix_shape(problem), device="cuda", dtype=buffers.x[0].dtype)

    def launch(j: int) -> None:
        run(torch, problem, buffers.x[j], buffers.w[j], buffers.y[j], matrix)

    return [
        Contestant(
            name="im2col",
            peer="im2col",
            detail="copy + cuBLAS",
            launch=launch,
            output=lambda j: as_nchw(buffers.y[j], problem.y_layout),
            workspace_bytes=problem.im2col_bytes,
            held_bytes=problem.im2col_bytes,
        )
    ]


def matrix_shape(problem: ConvProblem) -> tuple[int, ...]:
    """For NHWC output windows as rows of gemm_k, for NCHW output one [gemm_k, P, Q] an image; ordered as the filter."""
    run = (problem.r, problem.s, problem.c) if problem.w_layout == "krsc" else (problem.c, problem.r, problem.s)
    n, p, q = problem.n, problem.p, problem.q
    return (n, p, q, *run) if problem.y_layout == "nhwc" else (n, *run, p, q)


def run(torch: Any, problem: ConvProblem, x: Any, w: Any, y: Any, matrix: Any) -> None:
    """Queue the copy and the product; `matrix` has `matrix_shape`, the others the problem's shapes."""
    image = as_nchw(x, problem.x_layout)
    if problem.has_padding:
        pads = (problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom)
        image = torch.nn.functional.pad(image, pads)
    windows = image.as_strided(*window_view(problem, image.stride()))
    matrix.copy_(windows)
    filters = w.reshape(problem.k, problem.gemm_k)
    if problem.y_layout == "nhwc":
        rows = matrix.view(problem.gemm_m, problem.gemm_k)
        torch.matmul(rows, filters.t(), out=y.view(problem.gemm_m, problem.k))
    else:
        columns = matrix.view(problem.n, problem.gemm_k, problem.p * problem.q)
        images = filters.expand(problem.n, problem.k, problem.gemm_k)
        torch.bmm(images, columns, out=y.view(problem.n, problem.k, problem.p * problem.q))


def window_view(problem: ConvProblem, strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes and strides of the windows in a padded image whose dimensions n, c, h, w have these strides.

    In the order of the im2col matrix, so copying them is all that makes it.
    """
    n, c, h, v = strides
    sizes_strides = {
        "n": (problem.n, n), "c": (problem.c, c),
        "p": (problem.p, h * problem.stride_h), "q": (problem.q, v * problem.stride_w),
        "r": (problem.r, h * problem.dilation_h), "s": (problem.s, v * problem.dilation_w),
    }  # fmt: skip
    run_order = "rsc" if problem.w_layout == "krsc" else "crs"
    order = f"npq{run_order}" if problem.y_layout == "nhwc" else f"n{run_order}pq"
    return [sizes_strides[d][0] for d in order], [sizes_strides[d][1] for d in order]
