"""What the families' emulated tests share: runs on changed integers, and small random problems."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.emulator import run_plan
from im2wingen.errors import UsageError
from im2wingen.families.base import Plan
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.verify_emulated import emulated_inputs

Changes = dict[str, dict[tuple[int, ...], float]]  # array name -> {index: value}


def run_integers(problem: ConvProblem, plan: Plan, changes: Changes) -> tuple[NDArray[Any], NDArray[Any]]:
    """y and the reference, rounded, for integers some of which are replaced."""
    arrays = emulated_inputs(problem, "integer", 0)
    for name, places in changes.items():
        element = problem.y_dtype if name == "bias" else problem.precision
        numbers = from_storage(arrays[name], element)
        for index, value in places.items():
            numbers[index] = value
        arrays[name] = to_storage(numbers, element)
    y = np.zeros(problem.y_shape, STORAGE_DTYPE[problem.y_dtype])
    run_plan(plan, {**arrays, "y": y}, poison="finite")
    bias = None if problem.epilogue == "none" else arrays["bias"]
    with np.errstate(invalid="ignore"):
        wanted = conv_reference(problem, arrays["x"], arrays["w"], bias)
        rounded = from_storage(to_storage(wanted, problem.y_dtype), problem.y_dtype)
    return from_storage(y, problem.y_dtype), rounded


def random_problem(
    rng: np.random.Generator,
    *,
    precisions: Sequence[str],
    largest_filter: int,
    largest_stride: int,
    c: Sequence[int],
    k: Sequence[int],
) -> ConvProblem:
    """A small problem of any kind."""
    while True:
        fields: dict[str, Any] = {name: int(rng.integers(1, most + 1)) for name, most in (
            ("n", 4), ("h", 14), ("w", 14), ("r", largest_filter), ("s", largest_filter),
            ("stride_h", largest_stride), ("stride_w", largest_stride), ("dilation_h", 2), ("dilation_w", 2),
        )}  # fmt: skip
        fields |= {f"pad_{side}": int(rng.integers(0, 3)) for side in ("top", "bottom", "left", "right")}
        fields |= {name: str(rng.choice(values)) for name, values in (
            ("precision", precisions), ("x_layout", ("nhwc", "nchw")), ("w_layout", ("krsc", "kcrs")),
            ("y_layout", ("nhwc", "nchw")), ("epilogue", ("none", "bias", "bias_relu")),
        )}  # fmt: skip
        fields |= {"c": int(rng.choice(c)), "k": int(rng.choice(k))}
        try:
            return ConvProblem(**fields)
        except UsageError:  # the window is larger than the input
            continue
