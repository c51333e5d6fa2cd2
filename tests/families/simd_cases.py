"""Running plans of family simd in this process, for its tests."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_compiler import compile_shared_object
from im2wingen.cpu_target import CpuTarget, cpu_preset, cpu_target
from im2wingen.dtypes import STORAGE_DTYPE
from im2wingen.families.base import Plan
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_config import SimdConfig, vectors_of
from im2wingen.layouts import to_logical
from im2wingen.nvrtc import Cubin
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.render import Source, plan_sources

_RUNS_HERE = {
    "x86-64-avx512": ("x86-64-avx512", "x86-64-avx2", "generic"),
    "x86-64-avx2": ("x86-64-avx2", "generic"),
    "aarch64-neon": ("aarch64-neon", "generic"),
}
ARCHS = _RUNS_HERE.get(cpu_target().arch, ("generic",))  # whose kernels run on this machine
AVX2 = cpu_preset("x86-64-avx2")
SMALL = SimdConfig(
    vector_of="channels", vectors_k=1, tile_n=1, tile_p=1, tile_q=4, block_c=4, block_p=1, block_k=1, window="direct",
    steps="channels",
    inner_loop="pixels", item_order="filters", unroll=1, prefetch="hardware", tile_order="linear", store="cached",
    schedule="static",
)  # fmt: skip


def small(problem: ConvProblem, **changes: Any) -> SimdConfig:
    """SMALL with changes; vectors hold what they first can."""
    return replace(SMALL, **{"vector_of": vectors_of(problem)[0]} | changes)


def problem_of(
    shape: str, layout: str = "nhwc", epilogue: str = "none", precision: str = "fp32"
) -> ConvProblem:  # fmt: skip
    return ConvProblem.parse(shape, precision=precision, layout=layout, epilogue=epilogue)


@cache
def _compiled(source: Source, arch: str) -> Cubin:
    return compile_shared_object(source, arch)


def _aligned(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    array = aligned_bytes(dtype.itemsize * values.size).view(dtype).reshape(values.shape)
    array[...] = values
    return array


def arrays_of(problem: ConvProblem, *, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Small integers, so that y is exact; y, and what x has beyond the last image, full of NaN."""
    rng, dtype = np.random.default_rng(seed), STORAGE_DTYPE[problem.precision]
    shapes = {"x": problem.x_shape, "w": problem.w_shape, "bias": (problem.k,)}
    arrays = {name: _aligned(rng.integers(-4, 5, shape), dtype) for name, shape in shapes.items()}
    if problem.x_layout == "chwn8" and problem.n % 8:
        arrays["x"][-1, ..., problem.n % 8 :] = np.nan
    return arrays | {"y": _aligned(np.full(problem.y_shape, np.nan), dtype)}


def run_sources(plan: Plan, sources: tuple[Source, ...], arch: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Run the plan on two threads; the workspaces are full of NaN before, arrays["y"] is written."""
    loaded = LoadedCpuPlan(plan, [_compiled(source, arch) for source in sources], threads=2)
    nan, dtype = np.nan, arrays["y"].dtype
    workspaces = {name: _aligned(np.full(size // dtype.itemsize, nan), dtype) for name, size in plan.workspace.items()}
    try:
        loaded.launch({name: array.ctypes.data for name, array in (arrays | workspaces).items()})
    finally:
        loaded.unload()


def run(problem: ConvProblem, target: CpuTarget, config: SimdConfig, arrays: dict[str, NDArray[Any]]) -> None:
    broken = SIMD.broken_rules(problem, target, config)
    assert not broken, broken
    plan = SIMD.plan(problem, target, config)
    run_sources(plan, plan_sources(plan), target.arch, arrays)


def reference(problem: ConvProblem, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        return conv_reference(problem, arrays["x"], arrays["w"], arrays["bias"]).astype(arrays["y"].dtype)


def images(problem: ConvProblem, y: NDArray[Any]) -> NDArray[Any]:
    """[N,K,P,Q], without what lies beyond the last image."""
    return to_logical(y, problem.y_layout, problem.n)


def assert_exact(problem: ConvProblem, target: CpuTarget, config: SimdConfig, *, seed: int = 0) -> None:
    arrays = arrays_of(problem, seed=seed)
    run(problem, target, config, arrays)
    np.testing.assert_array_equal(images(problem, arrays["y"]), images(problem, reference(problem, arrays)))
