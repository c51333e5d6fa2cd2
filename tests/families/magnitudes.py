"""What the tests of kernels that multiply halves share: numbers of any magnitude, and how near y must be to float64."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference

LEAST = 2.0**-149  # above 0
# What a product may be off by; those of tf32: both elements have 11 bits, and tiny ones add up to 2^-12 of an output.
PRODUCTS = {"fp32": 3 * 2.0**-22, "tf32": (1 + 2.0**-11) ** 2 - 1 + 2.0**-12}
Numbers = NDArray[np.float64]
Make = Callable[[np.random.Generator, tuple[int, ...]], Numbers]


def scaled(scale: float) -> Make:
    return lambda rng, shape: scale * rng.standard_normal(shape)


# of x and of w; some below the scales' range, and below fp32's normal numbers
SCALES = {
    "tiny": (1e-30, 1.0),
    "tiny by huge": (1e-30, 1e30),
    "huge by tiny": (1e34, 1e-36),
    "x of few bits": (1e-39, 1e3),
    "w of few bits": (1e3, 1e-39),
}


def far_from_float64(problem: ConvProblem, arrays: Mapping[str, NDArray[Any]], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Where y of `x`, `w` and `bias` is farther from float64 than its precision may be."""
    bias = None if problem.epilogue == "none" else arrays["bias"]
    with np.errstate(invalid="ignore", over="ignore"):
        reference = conv_reference(problem, arrays["x"], arrays["w"], bias)
        wanted = reference.astype(np.float32).astype(np.float64)
        magnitude = conv_magnitude(problem, arrays["x"], arrays["w"], bias)
        # a product of split numbers is off by 3 * 2^-22 at most; a product may be rounded to a multiple of LEAST
        product = PRODUCTS[problem.precision]
        allowed = (product + 4 * problem.gemm_k**0.5 * 2.0**-24) * magnitude + problem.gemm_k * LEAST
        far: NDArray[np.bool_] = ~(
            (np.abs(y - reference) <= allowed) | (y == wanted) | (np.isnan(y) & np.isnan(wanted))
        )
    return far
