"""Direct convolution in float64 on the CPU: what every kernel is held to."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.dtypes import from_storage
from im2wingen.errors import ArrayError
from im2wingen.layouts import to_logical, to_stored
from im2wingen.problem import ConvProblem


def conv_reference(
    problem: ConvProblem, x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """y in float64, in `problem.y_shape`, epilogue applied.

    x and w have `problem.x_shape` and `w_shape` (storage dtype, so bf16 as uint16 and fp8 as uint8, or numbers); bias
    has K numbers.
    Padding is skipped, not multiplied by zero: a tap outside the image contributes nothing even if its weight is NaN.
    Raises ArrayError for a wrong shape or a missing bias.
    """
    _check_shape("x", x, problem.x_shape)
    _check_shape("w", w, problem.w_shape)
    image, taps = from_storage(x, problem.precision), from_storage(w, problem.precision)
    image = to_logical(image, problem.x_layout, problem.n)
    if problem.w_layout == "krsc":
        taps = taps.transpose(0, 3, 1, 2)
    groups, group_c, group_k = problem.groups, problem.group_c, problem.k // problem.groups
    image = image.reshape(problem.n, groups, group_c, problem.h, problem.w)
    taps = taps.reshape(groups, group_k, group_c, problem.r, problem.s)
    y = np.zeros((problem.n, groups, group_k, problem.p, problem.q))
    for r in range(problem.r):
        rows, h = _inside(r * problem.dilation_h - problem.pad_top, problem.stride_h, problem.h, problem.p)
        for s in range(problem.s):
            columns, w_ = _inside(s * problem.dilation_w - problem.pad_left, problem.stride_w, problem.w, problem.q)
            window = image[:, :, :, h, w_]
            y[:, :, :, rows, columns] += np.einsum("ngcpq,gkc->ngkpq", window, taps[:, :, :, r, s], optimize=True)
    nkpq = y.reshape(problem.n, problem.k, problem.p, problem.q)
    if problem.epilogue != "none":
        if bias is None:
            raise ArrayError(f"bias is missing; the epilogue {problem.epilogue} needs {problem.k} numbers")
        _check_shape("bias", bias, (problem.k,))
        nkpq = nkpq + from_storage(bias, problem.y_dtype)[None, :, None, None]
    if problem.epilogue == "bias_relu":
        nkpq = np.maximum(nkpq, 0.0)
    return to_stored(nkpq, problem.y_layout)


def conv_magnitude(
    problem: ConvProblem, x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """sum |x * w| (+ |bias|) for each element of y, in `problem.y_shape`: what rounding errors are relative to."""
    linear = replace(problem, epilogue="none" if bias is None else "bias")
    absolute_x = np.abs(from_storage(x, problem.precision))
    absolute_w = np.abs(from_storage(w, problem.precision))
    return conv_reference(
        linear, absolute_x, absolute_w, None if bias is None else np.abs(from_storage(bias, problem.y_dtype))
    )


def _inside(offset: int, stride: int, extent: int, outputs: int) -> tuple[slice, slice]:
    """Outputs o for which 0 <= o * stride + offset < extent, and those inputs, as two slices of equal length."""
    first = max(0, -(offset // stride))
    last = min(outputs - 1, (extent - 1 - offset) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last + 1), slice(start, last * stride + offset + 1, stride)


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ArrayError(f"{name} has shape {array.shape}; needed is {shape}")
