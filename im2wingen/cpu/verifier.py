"""A plan's results on the CPU, held to the float64 reference, in memory that tells what is written outside."""

from typing import Any

from numpy.typing import NDArray

from im2wingen.cpu.data import TestData, array_forms
from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu.memory import WORKSPACE_ALIGNMENT, GuardedArray
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import GuardError

_NAN_BYTE = 0xFF  # every element type reads it as NaN
_HUGE_BYTE = 0x7B  # fp16 reads 61280, bf16 and fp32 1.3e36


class CpuVerifier:
    """Small integers, which must match bit for bit, then random normals within `error_bound`.

    x, w, bias and y end at forbidden memory, in the second run but for an element, so that they start at multiples of
    their element's size alone. The inputs can't be written; y and the workspaces are filled with huge numbers, then
    with NaN, and have guard bytes at their ends.
    """

    def __init__(self, problem: ConvProblem, *, seed: int = 0) -> None:
        self._sets = [TestData.of(problem, kind, seed) for kind in ("integer", "normal")]
        self._arrays = {
            name: (GuardedArray(name, form.size_bytes, alignment=form.dtype.itemsize), form)
            for name, form in array_forms(problem).items()
        }

    @property
    def normal(self) -> TestData:
        """The data that timings run on."""
        return self._sets[1]

    def check(self, loaded: LoadedCpuPlan) -> ErrorStats:
        """Run the plan on both data sets; the statistics of the normals. Raises GuardError and WrongResultError.

        What reads or writes farther outside ends the process.
        """
        workspaces = {
            name: GuardedArray(f"workspace {name}", size, alignment=WORKSPACE_ALIGNMENT)
            for name, size in loaded.plan.workspace.items()
        }
        integers, normals = self._sets
        self._run(loaded, integers, workspaces, _HUGE_BYTE, 0)
        return self._run(loaded, normals, workspaces, _NAN_BYTE, 1)

    def _run(
        self, loaded: LoadedCpuPlan, data: TestData, workspaces: dict[str, GuardedArray], fill: int, shift: int
    ) -> ErrorStats:
        inputs = [array for name, (array, _) in self._arrays.items() if name != "y"]
        outputs = [self._arrays["y"][0], *workspaces.values()]
        for array in inputs:
            array.set_writable(True)
        for array, _ in self._arrays.values():
            array.place(shift)
        data.fill_x(self._view("x"))
        for name in self._arrays.keys() & {"w", "bias"}:
            self._view(name)[...] = data.inputs[name]
        for array in inputs:
            array.set_writable(False)
        for array in outputs:
            array.bytes[...] = fill
            array.reset_guards()
        pointers = {name: array.pointer for name, (array, _) in self._arrays.items()}
        pointers |= {name: array.pointer for name, array in workspaces.items()}
        loaded.launch({"bias": 0} | pointers)
        for array in outputs:
            if (damage := array.damage()) is not None:
                raise GuardError(damage)
        return data.check(self._view("y"))

    def _view(self, name: str) -> NDArray[Any]:
        array, form = self._arrays[name]
        return array.view(form.dtype, form.shape)
