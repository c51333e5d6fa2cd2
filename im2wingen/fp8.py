"""The 8-bit floating-point formats of the OCP specification (OFP8, 2023), as tables: bits to numbers and back."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAN = 0x7F  # the canonical one of both formats


@dataclass(frozen=True, kw_only=True)
class Fp8Format:
    """Sign, exponent, mantissa; `has_inf` as IEEE 754 has it, else one mantissa of the last exponent is NaN alone."""

    mantissa_bits: int
    bias: int
    has_inf: bool

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number behind each of the 256 bit patterns."""
        exponent, mantissa = np.divmod(np.arange(128), 1 << self.mantissa_bits)
        mantissa = mantissa / 2.0**self.mantissa_bits
        positive = np.where(exponent == 0, mantissa, 1 + mantissa) * 2.0 ** (np.maximum(exponent, 1) - self.bias)
        positive[self._first_special :] = np.nan
        if self.has_inf:
            positive[self._first_special] = np.inf
        return np.concatenate([positive, -positive])

    def decode(self, bits: NDArray[np.uint8]) -> NDArray[np.float64]:
        return self.numbers[bits]

    def encode(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Rounded to nearest, ties to even; what rounds beyond the largest becomes Inf, where there is none NaN."""
        magnitude = np.abs(np.asarray(values, np.float64))
        # the step beyond the largest number counts as one more number, so that rounding finds the overflow
        finite = self.numbers[: self._first_special]
        grid = np.append(finite, 2 * finite[-1] - finite[-2])
        upper = np.clip(np.searchsorted(grid, magnitude), 1, len(grid) - 1)
        above, below = grid[upper] - magnitude, magnitude - grid[upper - 1]
        code = np.where((above < below) | ((above == below) & (upper % 2 == 0)), upper, upper - 1)
        overflow = self._first_special if self.has_inf else _NAN
        code = np.where(code >= self._first_special, overflow, code)
        code = np.where(np.isnan(magnitude), _NAN, code)
        return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)

    @property
    def _first_special(self) -> int:
        """The first positive pattern that is no finite number."""
        return 31 << self.mantissa_bits if self.has_inf else _NAN


FP8_FORMATS: dict[str, Fp8Format] = {
    "e4m3": Fp8Format(mantissa_bits=3, bias=7, has_inf=False),
    "e5m2": Fp8Format(mantissa_bits=2, bias=15, has_inf=True),
}
