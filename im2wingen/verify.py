"""A plan's results on the device, held to a float64 reference made there too, before any of its timings count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from im2wingen.buffers import HUGE_BYTE, NAN_BYTE, OUTPUT_GUARD, GuardedBuffer
from im2wingen.device import Device
from im2wingen.device_data import ELEMENT_CODE, Filler, input_sizes, output_bytes, support_kernel
from im2wingen.dtypes import STORAGE_DTYPE, from_storage
from im2wingen.families.base import Arithmetic, Launch
from im2wingen.families.support import problem_values
from im2wingen.kernel import LoadedPlan
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import GuardError, Kind, WrongResultError, error_bound, wrong_result_sentence

COMPARE_JOB = np.dtype(
    {
        "names": ["count", "output_rounding", "term_rounding", "absolute", "element", "exact"],
        "formats": ["<i8", "<f8", "<f8", "<f8", "<i4", "<i4"],
    }
)
COMPARE_PARTIAL = np.dtype(
    {
        "names": [
            "violations", "nans", "worst_index", "worst", "max_error", "error_squares", "reference_squares",
        ],
        "formats": ["<i8", "<i8", "<i8", "<f8", "<f8", "<f8", "<f8"],
    }
)  # fmt: skip
COMPARE_LAUNCH = Launch(
    template="compare", values={}, grid=(512, 1, 1), block=256, smem_bytes=0,
    arguments=("job", "y", "y_ref", "y_abs", "partials"),
)  # fmt: skip


def reference_launch(problem: ConvProblem) -> Launch:
    """The float64 reference kernel for a problem; its tile follows the group's filters and channels."""
    group_k = problem.k // problem.groups
    block_k = next(size for size in (4, 16, 64) if size >= group_k or size == 64)
    block_m = 4096 // block_k
    block_c = next(size for size in (1, 2, 4, 8, 16) if size >= problem.group_c or size == 16 or size * block_m == 4096)
    tiles_m, tiles_k = -(-problem.gemm_m // block_m), -(-group_k // block_k)
    return Launch(
        template="reference",
        values={
            **problem_values(problem),
            "BLOCK_M": block_m,
            "BLOCK_K": block_k,
            "BLOCK_C": block_c,
        },
        grid=(tiles_m, problem.groups * tiles_k, 1),
        block=256,
        smem_bytes=0,
        arguments=("x", "w", "bias", "y_ref", "y_abs"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataSet:
    """Inputs of one kind and what y must be for them."""

    kind: Kind
    inputs: dict[str, GuardedBuffer]
    y_ref: int  # double
    y_abs: int  # float

    @property
    def pointers(self) -> dict[str, int]:
        return {"bias": 0} | {name: buffer.pointer for name, buffer in self.inputs.items()}


class Verifier:
    """Holds a problem's test data on the device: small integers, then random normals, each with its reference.

    Integer inputs make every product and sum exact, so y must be the reference rounded to nearest; normal ones are held
    to `error_bound`. y and the workspaces are filled with NaN before each run and have guard bytes on both sides.
    """

    def __init__(self, problem: ConvProblem, device: Device, filler: Filler, *, seed: int = 0) -> None:
        self.problem = problem
        self._device = device
        self._y = GuardedBuffer(device, "y", output_bytes(problem), OUTPUT_GUARD)
        self._compare = support_kernel(COMPARE_LAUNCH, device.target.arch)
        self._job = device.alloc(COMPARE_JOB.itemsize)
        self._partials = device.alloc(COMPARE_LAUNCH.grid[0] * COMPARE_PARTIAL.itemsize)
        self._reference = support_kernel(reference_launch(problem), device.target.arch)
        self._filler, self._seed = filler, seed
        kinds: tuple[Kind, ...] = ("integer", "normal")
        self._sets = [self._allocate(kind) for kind in kinds]
        self._prepare()

    def check(self, loaded: LoadedPlan) -> ErrorStats:
        """Run the plan on both data sets; the statistics of the normal one.

        Raises GuardError, WrongResultError, and DeviceError for a fault in the kernel.
        """
        workspaces: dict[str, GuardedBuffer] = {}
        try:
            for name, size in loaded.plan.workspace.items():
                workspaces[name] = GuardedBuffer(self._device, f"workspace {name}", size, OUTPUT_GUARD)
            try:
                return self._check_sets(loaded, workspaces)
            except (GuardError, WrongResultError):
                self._prepare()  # an earlier candidate may have damaged inputs or references
                return self._check_sets(loaded, workspaces)
        finally:
            for workspace in workspaces.values():
                workspace.free()

    def close(self) -> None:
        """Give all memory back."""
        for data in self._sets:
            for buffer in data.inputs.values():
                buffer.free()
            self._device.free(data.y_ref)
            self._device.free(data.y_abs)
        self._y.free()
        self._device.free(self._job)
        self._device.free(self._partials)
        self._compare.unload()
        self._reference.unload()

    def _allocate(self, kind: Kind) -> _DataSet:
        elements = self.problem.gemm_m * self.problem.k
        sizes = input_sizes(self.problem)
        return _DataSet(
            kind=kind,
            inputs={name: GuardedBuffer(self._device, name, size, NAN_BYTE) for name, size in sizes.items()},
            y_ref=self._device.alloc(8 * elements),
            y_abs=self._device.alloc(4 * elements),
        )

    def _prepare(self) -> None:
        """Fill the inputs, their guards and the references; the same numbers each time."""
        for data in self._sets:
            for name, buffer in data.inputs.items():
                buffer.reset_guards()
                self._filler.fill_input(
                    self.problem, name, data.kind, buffer.pointer, buffer.size_bytes, self._seed
                )  # fmt: skip
            pointers = data.pointers | {"y_ref": data.y_ref, "y_abs": data.y_abs}
            self._reference.launch(pointers, self._device.stream)
        self._device.synchronize()

    def _check_sets(self, loaded: LoadedPlan, workspaces: dict[str, GuardedBuffer]) -> ErrorStats:
        integers, normals = self._sets
        self._check_set(loaded, integers, workspaces)
        return self._check_set(loaded, normals, workspaces)

    def _check_set(self, loaded: LoadedPlan, data: _DataSet, workspaces: dict[str, GuardedBuffer]) -> ErrorStats:
        outputs = {"y": self._y, **workspaces}
        for buffer in outputs.values():
            buffer.fill(HUGE_BYTE if data.kind == "integer" else NAN_BYTE)
            buffer.reset_guards()
        loaded.launch(data.pointers | {name: b.pointer for name, b in outputs.items()}, self._device.stream)
        self._device.synchronize()
        for buffer in (*outputs.values(), *data.inputs.values()):
            damage = buffer.damage()
            if damage is not None:
                raise GuardError(damage)
        return self._compare_set(data, loaded.plan.arithmetic)

    def _compare_set(self, data: _DataSet, arithmetic: Arithmetic) -> ErrorStats:
        exact = data.kind == "integer"
        bound = error_bound(self.problem, arithmetic)
        elements = self.problem.gemm_m * self.problem.k
        rounding = (bound.output_rounding, bound.term_rounding, bound.absolute)
        job = np.array([(elements, *rounding, ELEMENT_CODE[self.problem.y_dtype], exact)], COMPARE_JOB)
        self._device.copy_to_device(self._job, job)
        pointers = {"job": self._job, "y": self._y.pointer, "y_ref": data.y_ref, "y_abs": data.y_abs}
        self._compare.launch(pointers | {"partials": self._partials}, self._device.stream)
        partials = np.empty(COMPARE_LAUNCH.grid[0], COMPARE_PARTIAL)
        self._device.copy_to_host(partials, self._partials)
        if partials["violations"].any():
            raise WrongResultError(self._sentence(data, partials))
        squares = float(partials["reference_squares"].sum())
        norm_error = float(partials["error_squares"].sum() / squares) ** 0.5 if squares else 0.0
        if not exact and (breach := bound.breach(norm_error)) is not None:
            raise WrongResultError(breach)
        return ErrorStats(max_error=float(partials["max_error"].max()), norm_error=norm_error)

    def _sentence(self, data: _DataSet, partials: NDArray[np.void]) -> str:
        index = int(partials["worst_index"][np.argmax(partials["worst"])])
        found = np.empty(1, STORAGE_DTYPE[self.problem.y_dtype])
        wanted = np.empty(1, np.float64)
        self._device.copy_to_host(found, self._y.pointer + index * self.problem.y_element_bytes)
        self._device.copy_to_host(wanted, data.y_ref + 8 * index)
        return wrong_result_sentence(
            self.problem,
            data.kind,
            violations=int(partials["violations"].sum()),
            nans=int(partials["nans"].sum()),
            index=index,
            found=float(from_storage(found, self.problem.y_dtype)[0]),
            wanted=float(wanted[0]),
        )
