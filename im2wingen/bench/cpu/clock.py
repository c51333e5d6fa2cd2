"""The clock that a kernel runs at: templates/cpu_clock.cpp.j2 reads it right after one more run."""

import statistics
from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from im2wingen.bench.cpu.kernels import loaded_kernel
from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu_target import CpuTarget

_ADDITIONS = 4096  # about a microsecond; the clock begins to rise after two or three
_POINTERS = ("a", "b", "c", "d")


class ClockProbe:
    """`read()` runs a loaded plan's last kernel and notes its core's clock; `mhz` is the median of what was noted.

    The plan's kernels but the last are not run; `pointers` are the launch's, `held` is what has to live as long.
    """

    def __init__(
        self, loaded: LoadedCpuPlan, pointers: Mapping[str, int], target: CpuTarget, held: object = None
    ) -> None:
        kernel, arguments = loaded.last_call(pointers)
        reader = loaded_kernel(
            "cpu_clock", {"ARGUMENTS": len(arguments), "ADDITIONS": _ADDITIONS}, ("kernel", *_POINTERS, "mhz"), target
        )
        found = np.zeros(1)
        padded = (*arguments, *(0 for _ in _POINTERS[len(arguments) :]))
        given = {"kernel": kernel, "mhz": found.ctypes.data} | dict(zip(_POINTERS, padded, strict=True))
        self._held = (loaded, held)
        self._found = found
        self._run: Callable[[], None] = lambda: reader.launch(given)
        self._readings: list[float] = []

    def restarted(self) -> Self:
        """Itself, without the readings so far."""
        self._readings.clear()
        return self

    def read(self) -> None:
        self._run()
        self._readings.append(float(self._found[0]))

    @property
    def mhz(self) -> int:
        """0 before the first reading."""
        return round(statistics.median(self._readings)) if self._readings else 0
