"""Running plans of family simd in this process, for its tests."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.cpu.data import array_forms
from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu.memory import aligned_bytes
from im2wingen.cpu_compiler import compile_shared_object
from im2wingen.cpu_target import CpuTarget, cpu_preset, cpu_target
from im2wingen.dtypes import to_storage
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
HERE = frozenset(cpu_target().features)  # that multiply bf16 and int8


def target_of(arch: str) -> CpuTarget:
    """The preset with no more features than this machine has."""
    preset = cpu_preset(arch)
    return replace(preset, features=tuple(name for name in preset.features if name in HERE))


SMALL = SimdConfig(
    product="fma", vector_of="channels", vectors_k=1, tile_n=1, tile_p=1, tile_q=4, block_c=4, block_p=1, block_k=1,
    window="direct", steps="channels",
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


def _aligned(values: NDArray[Any]) -> NDArray[Any]:
    array = aligned_bytes(values.nbytes).view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def arrays_of(problem: ConvProblem, *, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Small integers, int8's of its whole range, so that y is exact; y and what x has beyond the last image: NaN."""
    rng, forms = np.random.default_rng(seed), array_forms(replace(problem, epilogue="bias"))
    arrays = {}
    for name, form in forms.items():
        most = (2**20 if name == "bias" else 128) if problem.precision == "int8" else 4
        numbers = rng.integers(-most, most + 1, form.shape).astype(np.float64)
        arrays[name] = _aligned(to_storage(numbers, problem.precision if name in ("x", "w") else problem.y_dtype))
    if problem.x_layout == "chwn8" and problem.n % 8:
        arrays["x"][-1, ..., problem.n % 8 :] = np.nan
    arrays["y"].view(np.uint8)[...] = 0xFF
    return arrays


def run_sources(plan: Plan, sources: tuple[Source, ...], arch: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Run the plan on two threads; the workspaces are full of NaN before, arrays["y"] is written."""
    loaded = LoadedCpuPlan(plan, [_compiled(source, arch) for source in sources], threads=2)
    workspaces = {name: aligned_bytes(size) for name, size in plan.workspace.items()}
    for workspace in workspaces.values():
        workspace[...] = 0xFF
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
        y = conv_reference(problem, arrays["x"], arrays["w"], arrays["bias"])
    return to_storage(y, problem.y_dtype)


def images(problem: ConvProblem, y: NDArray[Any]) -> NDArray[Any]:
    """[N,K,P,Q], without what lies beyond the last image."""
    return to_logical(y, problem.y_layout, problem.n)


def assert_exact(problem: ConvProblem, target: CpuTarget, config: SimdConfig, *, seed: int = 0) -> None:
    arrays = arrays_of(problem, seed=seed)
    run(problem, target, config, arrays)
    np.testing.assert_array_equal(images(problem, arrays["y"]), images(problem, reference(problem, arrays)))
