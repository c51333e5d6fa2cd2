"""A plan's results in the CPU emulator, held to the same bounds as on a device."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.emulator import run_plan
from im2wingen.emulator.kernel import Poison
from im2wingen.families.base import Arithmetic, Plan
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference
from im2wingen.verify_data import (
    Kind,
    WrongResultError,
    error_bound,
    input_scale,
    wrong_result_sentence,
)


def verify_emulated(problem: ConvProblem, plan: Plan, *, seed: int = 0, sanitize: bool = False) -> ErrorStats:
    """Run the plan in the emulator on integers, then on normals; the statistics of the normals.

    For small problems: a product takes tens of nanoseconds. Memory that nobody wrote holds huge numbers in the first
    run (for kernels that treat NaN apart) and NaN in the second. Raises WrongResultError, CompileError, and
    EmulatorError for what a device would punish.
    """
    _run_and_check(problem, plan, "integer", seed, sanitize, "finite")
    return _run_and_check(problem, plan, "normal", seed, sanitize, "nan")


def emulated_inputs(problem: ConvProblem, kind: Kind, seed: int) -> dict[str, NDArray[Any]]:
    """x, w and bias (storage dtype, bias whatever the epilogue) in host memory, by a seed."""
    rng = np.random.default_rng((seed, ("integer", "normal").index(kind)))
    arrays: dict[str, NDArray[Any]] = {}
    for name, shape in (("x", problem.x_shape), ("w", problem.w_shape), ("bias", (problem.k,))):
        scale = input_scale(problem, name, kind)
        if kind == "integer":
            values = rng.integers(-int(scale), int(scale) + 1, shape).astype(np.float64)
        else:
            values = scale * rng.standard_normal(shape)
        arrays[name] = to_storage(values, problem.y_dtype if name == "bias" else problem.precision)
    return arrays


def compare_arrays(
    problem: ConvProblem,
    kind: Kind,
    inputs: dict[str, NDArray[Any]],
    y: NDArray[Any],
    *,
    arithmetic: Arithmetic = "direct",
) -> ErrorStats:
    """The statistics of y (storage dtype, `problem.y_shape`) for these inputs, or WrongResultError."""
    bias = None if problem.epilogue == "none" else inputs["bias"]
    reference = conv_reference(problem, inputs["x"], inputs["w"], bias)
    found = from_storage(y, problem.y_dtype)
    error = np.abs(found - reference)
    if kind == "integer":
        expected = from_storage(to_storage(reference, problem.y_dtype), problem.y_dtype)
        right, severity = found == expected, np.abs(found - expected)
    else:
        bound = error_bound(problem, arithmetic)
        allowed = bound.output_rounding * np.abs(reference) + bound.absolute
        allowed += bound.term_rounding * conv_magnitude(problem, inputs["x"], inputs["w"], bias)
        right, severity = error <= allowed, error / np.maximum(allowed, 1e-300)
    if not right.all():
        index = int(np.argmax(np.where(np.isnan(severity), np.inf, severity)))
        raise WrongResultError(
            wrong_result_sentence(
                problem,
                kind,
                violations=int(np.count_nonzero(~right)),
                nans=int(np.count_nonzero(np.isnan(found))),
                index=index,
                found=float(found.flat[index]),
                wanted=float(reference.flat[index]),
            )
        )
    norm = float(np.linalg.norm(reference))
    norm_error = float(np.linalg.norm(error)) / norm if norm else 0.0
    if kind == "normal" and (breach := bound.breach(norm_error)) is not None:
        raise WrongResultError(breach)
    return ErrorStats(max_error=float(error.max()), norm_error=norm_error)


def _run_and_check(
    problem: ConvProblem, plan: Plan, kind: Kind, seed: int, sanitize: bool, poison: Poison
) -> ErrorStats:  # fmt: skip
    inputs = emulated_inputs(problem, kind, seed)
    for array in inputs.values():
        array.flags.writeable = False
    y = np.empty(problem.y_shape, STORAGE_DTYPE[problem.y_dtype])
    y.view(np.uint8)[...] = 0xFF  # NaN in every floating-point type
    run_plan(plan, {**inputs, "y": y}, seed=seed, sanitize=sanitize, poison=poison)
    return compare_arrays(problem, kind, inputs, y, arithmetic=plan.arithmetic)
