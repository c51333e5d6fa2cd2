"""Peer `im2col`: NumPy copies the im2col matrix out of strided windows, OpenBLAS multiplies it by the filter."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from im2wingen.bench.cpu.contestant import CpuContestant, CpuSession
from im2wingen.bench.im2col import matrix_shape, window_view
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.cpu.memory import aligned_bytes, available_bytes
from im2wingen.problem import ConvProblem


def contestants(session: CpuSession) -> list[CpuContestant]:
    """The whole batch at once and, where there are several images, one after the other; all buffers are there before.

    The copy is NumPy's, which one thread does; the product has all threads.
    """
    problem, arrays = session.problem, session.arrays
    if problem.precision != "fp32":
        raise PeerUnavailableError("im2col is written for fp32")
    if problem.groups > 1:
        raise PeerUnavailableError("im2col is not written for groups")
    if problem.im2col_bytes > available_bytes():
        raise PeerUnavailableError(f"the im2col matrix needs {problem.im2col_bytes} bytes, more than is free")
    one = replace(problem, n=1)
    whole = _steps(problem, arrays.x, arrays.w, arrays.y)
    runs = [("whole batch", problem.im2col_bytes, [whole])]
    if problem.n > 1:
        matrix = _matrix(one)
        images = [
            _steps(one, arrays.x[n : n + 1], arrays.w, arrays.y[n : n + 1], matrix) for n in range(problem.n)
        ]  # fmt: skip
        runs.append(("image by image", one.im2col_bytes, images))
    return [
        CpuContestant(
            name=f"im2col {name}",
            peer="im2col",
            detail=f"strided copy + matmul, {name}",
            launch=partial(_run_all, steps),
            output=lambda: arrays.y,
            workspace_bytes=matrix_bytes,
        )
        for name, matrix_bytes, steps in runs
    ]


def _steps(
    problem: ConvProblem, x: NDArray[Any], w: NDArray[Any], y: NDArray[Any], matrix: NDArray[Any] | None = None
) -> Callable[[], None]:
    """The convolution of these arrays as one call; `matrix` has `matrix_shape`."""
    image = x.transpose(0, 3, 1, 2) if problem.x_layout == "nhwc" else x
    padded = image
    if problem.has_padding:
        shape = list(x.shape)
        h, v = (1, 2) if problem.x_layout == "nhwc" else (2, 3)
        shape[h], shape[v] = problem.padded_h, problem.padded_w
        filled = np.zeros(shape, x.dtype)
        padded = filled.transpose(0, 3, 1, 2) if problem.x_layout == "nhwc" else filled
    top, left = problem.pad_top, problem.pad_left
    inner = padded[:, :, top : top + problem.h, left : left + problem.w]
    windows = as_strided(padded, *window_view(problem, padded.strides), writeable=False)
    target = _matrix(problem) if matrix is None else matrix
    filters = w.reshape(problem.k, problem.gemm_k)
    factors: tuple[NDArray[Any], NDArray[Any]]
    product: NDArray[Any]
    if problem.y_layout == "nhwc":
        factors = target.reshape(problem.gemm_m, problem.gemm_k), filters.T
        product = y.reshape(problem.gemm_m, problem.k)
    else:
        factors = filters, target.reshape(problem.n, problem.gemm_k, problem.p * problem.q)
        product = y.reshape(problem.n, problem.k, problem.p * problem.q)

    def run() -> None:
        if problem.has_padding:
            np.copyto(inner, image)
        np.copyto(target, windows)
        np.matmul(factors[0], factors[1], out=product)

    return run


def _run_all(steps: list[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _matrix(problem: ConvProblem) -> NDArray[np.float32]:
    matrix = aligned_bytes(problem.im2col_bytes).view(np.float32)
    matrix.fill(0.0)  # its pages are there
    return matrix.reshape(matrix_shape(problem))
