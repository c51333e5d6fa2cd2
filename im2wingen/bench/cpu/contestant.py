"""A contestant on the CPU, and the arrays that all of them share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.bench.cpu.clock import ClockProbe
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_target import CpuTarget
from im2wingen.problem import ConvProblem

_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """x, w and y as they lie in memory (problem.x_shape and so on), float32."""

    x: NDArray[np.float32]
    w: NDArray[np.float32]
    y: NDArray[np.float32]

    @classmethod
    def of(cls, problem: ConvProblem) -> "Arrays":
        """Normal x; normal w of variance 1/gemm_k, so that y is about normal too; y is NaN, its pages are there."""
        generator = np.random.default_rng(_SEED)

        def array(shape: tuple[int, ...]) -> NDArray[np.float32]:
            return aligned_bytes(4 * int(np.prod(shape))).view(np.float32).reshape(shape)

        made = cls(x=array(problem.x_shape), w=array(problem.w_shape), y=array(problem.y_shape))
        generator.standard_normal(out=made.x, dtype=np.float32)
        generator.standard_normal(out=made.w, dtype=np.float32)
        made.w[...] *= problem.gemm_k**-0.5
        made.y.fill(np.nan)
        return made


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
