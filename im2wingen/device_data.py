"""Problem data made on the device by the fill kernel, and the rotating sets that timings run over."""

import numpy as np

from im2wingen.cache import CubinCache
from im2wingen.device import Device
from im2wingen.dtypes import ElementType
from im2wingen.families.base import Launch, Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.problem import ConvProblem
from im2wingen.render import render
from im2wingen.settings import read_settings
from im2wingen.verify_data import Kind, input_scale

KIND_CODE: dict[Kind, int] = {"normal": 0, "integer": 1}
ELEMENT_CODE: dict[ElementType, int] = {
    "fp32": 0, "tf32": 0, "fp16": 1, "bf16": 2, "fp64": 3, "int8": 4, "e4m3": 5, "e5m2": 6, "int32": 7
}  # fmt: skip
FILL_JOB = np.dtype([("count", "<i8"), ("seed", "<u4"), ("kind", "<i4"), ("element", "<i4"), ("scale", "<f4")])
FILL_LAUNCH = Launch(
    template="fill",
    values={},
    grid=(1024, 1, 1),
    block=256,
    smem_bytes=0,
    arguments=("job", "out"),
)
_ALIGNMENT = 256
_MAX_SETS = 4096


def support_kernel(launch: Launch, arch: str) -> LoadedPlan:
    """One of our own kernels (fill, reference, compare), loaded; compiled where the kernel cache lacks it."""
    cubin = CubinCache(read_settings().cache_dir).get_or_compile(render(launch), arch)
    return LoadedPlan(Plan(launches=(launch,)), (cubin,))


def input_sizes(problem: ConvProblem) -> dict[str, int]:
    """Bytes of x, w and, where the epilogue has one, bias."""
    element = problem.element_bytes
    sizes = {"x": element * int(np.prod(problem.x_shape)), "w": element * int(np.prod(problem.w_shape))}
    return sizes if problem.epilogue == "none" else {**sizes, "bias": problem.k * problem.y_element_bytes}


def output_bytes(problem: ConvProblem) -> int:
    return problem.y_element_bytes * problem.gemm_m * problem.k


class Filler:
    """Fills device memory with reproducible random numbers."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kernel = support_kernel(FILL_LAUNCH, device.target.arch)
        self._job = device.alloc(FILL_JOB.itemsize)

    def fill_input(self, problem: ConvProblem, name: str, kind: Kind, pointer: int, size_bytes: int, seed: int) -> None:
        """Fill x, w or bias of a problem (or several of them in a row); each name gets its own numbers."""
        element: ElementType = problem.precision
        element_bytes = problem.element_bytes
        if name == "bias":
            element, element_bytes = problem.y_dtype, problem.y_element_bytes
        count = size_bytes // element_bytes
        stream_seed = (4 * seed + ("x", "w", "bias").index(name)) % 2**32
        job = np.array(
            [(count, stream_seed, KIND_CODE[kind], ELEMENT_CODE[element], input_scale(problem, name, kind))],
            FILL_JOB,
        )
        self._device.copy_to_device(self._job, job)
        self._kernel.launch({"job": self._job, "out": pointer}, self._device.stream)
        self._device.synchronize()

    def close(self) -> None:
        self._device.free(self._job)
        self._kernel.unload()


class BufferSets:
    """Random-normal x, w, bias and an own y, as many times as it takes to exceed four times the L2 cache."""

    def __init__(self, device: Device, filler: Filler, problem: ConvProblem, *, seed: int) -> None:
        self._device = device
        sizes = {**input_sizes(problem), "y": output_bytes(problem)}
        pitch = {name: -(-size // _ALIGNMENT) * _ALIGNMENT for name, size in sizes.items()}
        self.count = set_count(sum(sizes.values()), device.target.l2_bytes)
        self._slabs: list[int] = []
        first = {}
        for name in sizes:
            first[name] = device.alloc(self.count * pitch[name])
            self._slabs.append(first[name])
            if name != "y":
                filler.fill_input(problem, name, "normal", first[name], self.count * pitch[name], seed)
        self.pointers: list[dict[str, int]] = [
            {"bias": 0} | {name: first[name] + i * pitch[name] for name in sizes} for i in range(self.count)
        ]

    def close(self) -> None:
        for slab in self._slabs:
            self._device.free(slab)


def set_count(set_bytes: int, l2_bytes: int) -> int:
    """How many sets exceed four times the L2 cache; at least 1, at most 4096."""
    return min(_MAX_SETS, max(1, 4 * l2_bytes // set_bytes + 1))
