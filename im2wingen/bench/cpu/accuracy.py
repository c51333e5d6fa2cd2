"""How far a contestant's y is from the float64 convolution of the same inputs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.bench.accuracy import demand_accurate, demand_written, tested_images
from im2wingen.bench.cpu.contestant import Arrays, spoiled
from im2wingen.dtypes import from_storage
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuReference:
    """Float64 y of the first, middle and last image, in the problem's own layout."""

    problem: ConvProblem
    images: tuple[int, ...]
    y: NDArray[np.float64]

    @classmethod
    def of(cls, problem: ConvProblem, arrays: Arrays) -> "CpuReference":
        images = tested_images(problem)
        few = replace(problem, n=len(images))
        return cls(problem=problem, images=images, y=conv_reference(few, arrays.x[list(images)], arrays.w))

    def check(self, y: NDArray[Any]) -> ErrorStats:
        """The errors of a whole y; PeerUnavailableError if it is wrong or has elements never written."""
        demand_written(spoiled(y), y.size)
        difference = from_storage(y[list(self.images)], self.problem.y_dtype) - self.y
        max_error = float(np.abs(difference).max())
        norm_error = float(np.linalg.norm(difference.ravel()) / np.linalg.norm(self.y.ravel()))
        return demand_accurate(self.problem, ErrorStats(max_error=max_error, norm_error=norm_error))
