"""A problem's test data in host memory: a few images, repeated over the batch, and what y must be for them."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.layouts import image_of
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference
from im2wingen.verify_data import Kind, WrongResultError, error_bound, wrong_result_sentence
from im2wingen.verify_emulated import emulated_inputs

# Numbers of different images: primes, so that an image that is mistaken for one at a power of two from it is another.
_PERIODS = (13, 7, 5, 3)
_REFERENCE_FLOPS = 2e9  # what the reference computes in a fifth of a second


def distinct_images(problem: ConvProblem) -> int:
    """How many images of the batch differ; the rest repeats them, so that the reference of any batch takes seconds."""
    per_image = problem.flops / problem.n
    affordable = (count for count in _PERIODS if count <= problem.n and count * per_image <= _REFERENCE_FLOPS)
    return next(affordable, min(problem.n, _PERIODS[-1]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TestData:
    """Inputs of one kind. x holds the different images alone; `allowed` is the error of each element of y."""

    __test__ = False  # pytest

    problem: ConvProblem
    kind: Kind
    inputs: dict[str, NDArray[Any]]  # x, w and bias, storage dtype
    reference: NDArray[np.float64]  # rounded to the storage type where it must be met bit for bit
    allowed: NDArray[np.float64]

    @classmethod
    def of(cls, problem: ConvProblem, kind: Kind, seed: int) -> "TestData":
        few = replace(problem, n=distinct_images(problem))
        inputs = emulated_inputs(few, kind, seed)
        bias = None if problem.epilogue == "none" else inputs["bias"]
        reference = conv_reference(few, inputs["x"], inputs["w"], bias)
        if kind == "integer":
            reference = from_storage(to_storage(reference, problem.y_dtype), problem.y_dtype)
            allowed = np.zeros(())
        else:
            bound = error_bound(problem)
            allowed = bound.output_rounding * np.abs(reference) + bound.absolute
            allowed += bound.term_rounding * conv_magnitude(few, inputs["x"], inputs["w"], bias)
        return cls(problem=problem, kind=kind, inputs=inputs, reference=reference, allowed=allowed)

    @property
    def distinct(self) -> int:
        return distinct_images(self.problem)

    def fill_x(self, x: NDArray[Any]) -> None:
        """Write the images over the whole batch of `x`."""
        layout, images = self.problem.x_layout, self.inputs["x"]
        if layout == "chwn8" and x.dtype.kind == "f":
            x[-1] = np.nan  # beyond the last image: must not matter
        for n in range(self.problem.n):
            image_of(x, layout, n)[...] = image_of(images, layout, n % self.distinct)

    def check(self, y: NDArray[Any]) -> ErrorStats:
        """The statistics of y (storage dtype, `problem.y_shape`), or WrongResultError."""
        wrong = nans = 0
        worst = (-1.0, 0)  # severity, index
        max_error = squares = reference_squares = 0.0
        for n in range(self.problem.n):
            wanted, allowed = self._wanted(n)
            found = self._found(y, n)
            with np.errstate(invalid="ignore"):
                error = np.abs(found - wanted)
            bad = ~(error <= allowed)
            if bad.any():
                severity = np.where(np.isnan(error), np.inf, error / np.maximum(allowed, 1e-300))
                severity[~bad] = -1.0
                index = int(np.argmax(severity))
                worst = max(worst, (float(severity.flat[index]), -(n * severity.size + index)))
                wrong += int(np.count_nonzero(bad))
                nans += int(np.count_nonzero(np.isnan(found)))
            max_error = max(max_error, float(error.max()))
            squares += float(np.square(error).sum())
            reference_squares += float(np.square(wanted).sum())
        if wrong:
            raise WrongResultError(self._sentence(y, wrong, nans, -worst[1]))
        return ErrorStats(
            max_error=max_error, norm_error=(squares / reference_squares) ** 0.5 if reference_squares else 0.0
        )

    def _wanted(self, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Image `n` of the reference, and the error that is allowed there."""
        layout, n = self.problem.y_layout, n % self.distinct
        return image_of(self.reference, layout, n), image_of(
            self.allowed, layout, n
        ) if self.allowed.ndim else self.allowed

    def _found(self, y: NDArray[Any], n: int) -> NDArray[np.float64]:
        return from_storage(image_of(y, self.problem.y_layout, n), self.problem.y_dtype)

    def _sentence(self, y: NDArray[Any], wrong: int, nans: int, index: int) -> str:
        n, within = divmod(index, self.problem.k * self.problem.p * self.problem.q)
        return wrong_result_sentence(
            self.problem,
            self.kind,
            violations=wrong,
            nans=nans,
            index=index,
            found=float(self._found(y, n).flat[within]),
            wanted=float(self._wanted(n)[0].flat[within]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayForm:
    """An array as a kernel reads or writes it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # that stores it

    @property
    def size_bytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)


def array_forms(problem: ConvProblem) -> dict[str, ArrayForm]:
    """x, w, y and, where the epilogue has one, bias."""
    shapes: dict[str, tuple[int, ...]] = {"x": problem.x_shape, "w": problem.w_shape, "y": problem.y_shape}
    if problem.epilogue != "none":
        shapes["bias"] = (problem.k,)
    elements = {"x": problem.precision, "w": problem.precision, "y": problem.y_dtype, "bias": problem.y_dtype}
    return {name: ArrayForm(shape=shape, dtype=STORAGE_DTYPE[elements[name]]) for name, shape in shapes.items()}
