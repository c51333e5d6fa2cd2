"""A contestant on the CPU, and the arrays that all of them share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.bench.cpu.clock import ClockProbe
from im2wingen.cpu.data import array_forms
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_target import CpuTarget
from im2wingen.dtypes import to_storage
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import input_scale

_SEED = 2026
_BF16_NAN, _BF16_INF = 0x7FFF, 0x7F80


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """x, w and y as they lie in memory (problem.x_shape and so on), each in its storage dtype."""

    x: NDArray[Any]
    w: NDArray[Any]
    y: NDArray[Any]

    @classmethod
    def of(cls, problem: ConvProblem) -> "Arrays":
        """Normal x; normal w of variance 1/gemm_k, so that y is about normal too; of int8 those that verify has.

        y is spoiled, and its pages are there.
        """
        generator = np.random.default_rng(_SEED)
        forms = array_forms(problem)
        views = {
            name: aligned_bytes(forms[name].size_bytes).view(forms[name].dtype).reshape(forms[name].shape)
            for name in ("x", "w", "y")
        }
        for name in ("x", "w"):
            numbers = generator.standard_normal(forms[name].shape, dtype=np.float32)
            numbers *= np.float32(input_scale(problem, name, "normal"))
            views[name][...] = to_storage(numbers, problem.precision)
        made = cls(**views)
        made.spoil()
        return made

    def spoil(self) -> None:
        """Fill y with what no kernel writes: NaN or the least integer."""
        self.y.fill({"f": np.nan, "u": _BF16_NAN, "i": np.iinfo(np.int32).min}[self.y.dtype.kind])


def spoiled(y: NDArray[Any]) -> int:
    """Elements of y that still are what `spoil` writes, or NaN."""
    if y.dtype.kind == "f":
        return int(np.count_nonzero(np.isnan(y)))
    if y.dtype.kind == "i":
        return int(np.count_nonzero(y == np.iinfo(y.dtype).min))
    return int(np.count_nonzero((y & _BF16_NAN) > _BF16_INF))


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuContestant:
    """`launch()` runs the whole convolution; `output()` is its y then, in problem.y_shape."""

    name: str
    peer: str
    detail: str
    launch: Callable[[], None]
    output: Callable[[], NDArray[Any]]
    workspace_bytes: int | None  # None: not known
    window_bytes: int = 0  # of the workspace, and of what threads keep: copies of x
    clock: ClockProbe | None = None  # reads the clock that the kernel runs at


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSession:
    """What every peer needs to prepare its contestants for one layer."""

    problem: ConvProblem
    arrays: Arrays
    target: CpuTarget  # its cores are the threads
    prepacked: bool
    db: str | None  # path or URL of the tuning database; None: the environment's
