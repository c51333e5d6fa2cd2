"""Whole kernels in the emulator against NumPy, and the same kernels broken on purpose."""

from typing import Any

import numpy as np
import pytest
from emulated import load, nvrtc_log
from numpy.typing import NDArray

from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError

SEEDS = (0, 1, 2, 3)  # in order, reversed, two shuffles
MMA = {
    "fp16": {"ELEMENT": "__half", "MMA": "mma_m16n8k16_f32_f16"},
    "bf16": {"ELEMENT": "__nv_bfloat16", "MMA": "mma_m16n8k16_f32_bf16"},
    "tf32": {"ELEMENT": "float", "MMA": "mma_m16n8k8_f32_tf32"},
}
MMA_SMEM_BYTES = 3 * 128 * 80


def values(shape: tuple[int, int], precision: str, seed: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Random-normal values as a kernel gets them, and exactly what they are."""
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    if precision == "fp16":
        half = x.astype(np.float16)
        return half, half.astype(np.float64)
    kept = np.uint32(0xFFFF0000 if precision == "bf16" else 0xFFFFE000 if precision == "tf32" else 0xFFFFFFFF)
    bits = x.view(np.uint32) & kept
    exact = bits.view(np.float32).astype(np.float64)
    return ((bits >> 16).astype(np.uint16) if precision == "bf16" else bits.view(np.float32)), exact


def run_sgemm(kernel: EmulatedKernel, seed: int) -> float:
    """The largest error of 100x100x40: partial tiles in each dimension."""
    a, exact_a = values((100, 40), "fp32", 1)
    b, exact_b = values((40, 100), "fp32", 2)
    c = np.full((100, 100), np.nan, np.float32)
    kernel.launch((2, 2, 1), 256, 0, [a, b, c, np.int32(100), np.int32(100), np.int32(40)], seed)
    return float(np.abs(c - exact_a @ exact_b).max())


def run_mma(kernel: EmulatedKernel, precision: str, seed: int) -> float:
    """The largest error of 128x64x(8 tiles of k): two CTAs, the ring of stages goes round."""
    k = 8 * 64 // (4 if precision == "tf32" else 2)
    a, exact_a = values((128, k), precision, 1)
    b, exact_b = values((64, k), precision, 2)
    c = np.full((128, 64), np.nan, np.float32)
    kernel.launch((1, 2, 1), 128, MMA_SMEM_BYTES, [a, b, c, np.int32(64), np.int32(k)], seed)
    return float(np.abs(c - exact_a @ exact_b.T).max())


def test_sgemm_matches_numpy_in_every_thread_order() -> None:
    kernel = EmulatedKernel(load("sgemm", MUTANT=0))
    assert max(run_sgemm(kernel, seed) for seed in SEEDS) < 1e-4


@pytest.mark.parametrize("precision", MMA)
def test_mma_gemm_matches_numpy_in_every_thread_order(precision: str) -> None:
    kernel = EmulatedKernel(load("mma_gemm", MUTANT=0, **MMA[precision]))
    assert max(run_mma(kernel, precision, seed) for seed in SEEDS) < 1e-4


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("precision", MMA)
def test_nvrtc_compiles_the_same_text(precision: str, arch: str) -> None:
    assert "error" not in nvrtc_log(load("mma_gemm", MUTANT=0, **MMA[precision]), arch)
    assert "error" not in nvrtc_log(load("sgemm", MUTANT=0), arch)


def wrong(error: float) -> bool:
    return not error < 1e-3


@pytest.mark.parametrize("mutant", [1, 2], ids=["no sync before use", "no sync after use"])
def test_missing_sync_of_sgemm_is_a_wrong_result_in_every_order(mutant: int) -> None:
    kernel = EmulatedKernel(load("sgemm", MUTANT=mutant))
    assert all(wrong(run_sgemm(kernel, seed)) for seed in SEEDS)


def test_unused_read_past_an_array_is_reported() -> None:
    kernel = EmulatedKernel(load("sgemm", MUTANT=3))
    with pytest.raises(EmulatorError, match="past the end of argument 1"):
        run_sgemm(kernel, 0)


@pytest.mark.parametrize("precision", MMA)
@pytest.mark.parametrize("mutant", [1, 2, 3], ids=["wait too lax", "no sync", "prefetch into the live stage"])
def test_race_of_mma_gemm_is_a_wrong_result_in_every_order(precision: str, mutant: int) -> None:
    kernel = EmulatedKernel(load("mma_gemm", MUTANT=mutant, **MMA[precision]))
    assert all(wrong(run_mma(kernel, precision, seed)) for seed in SEEDS)


def test_row_past_the_tile_leaves_shared_memory() -> None:
    kernel = EmulatedKernel(load("mma_gemm", MUTANT=4, **MMA["fp16"]))
    with pytest.raises(EmulatorError, match=r"outside shared memory: .* past the end of dynamic shared memory"):
        run_mma(kernel, "fp16", 0)


def test_row_past_the_matrix_is_reported() -> None:
    kernel = EmulatedKernel(load("mma_gemm", MUTANT=5, **MMA["fp16"]))
    with pytest.raises(EmulatorError, match="past the end of argument 1"):
        run_mma(kernel, "fp16", 0)


def test_finite_poison_shows_a_race_that_no_nan_shows() -> None:
    a, exact_a = values((64, 64), "fp16", 1)
    b, exact_b = values((64, 64), "fp16", 2)
    kernel = EmulatedKernel(load("mma_gemm", MUTANT=1, **MMA["fp16"]))
    c = np.full((64, 64), np.nan, np.float32)
    arguments = [a, b, c, np.int32(64), np.int32(64)]
    kernel.launch((1, 1, 1), 128, MMA_SMEM_BYTES, arguments, poison="finite")
    assert np.isfinite(c).all()
    assert np.abs(c - exact_a @ exact_b.T).max() > 1e4


def test_sanitizers_pass_the_correct_kernels() -> None:
    assert run_sgemm(EmulatedKernel(load("sgemm", MUTANT=0), sanitize=True), 2) < 1e-4
    assert run_mma(EmulatedKernel(load("mma_gemm", MUTANT=0, **MMA["bf16"]), sanitize=True), "bf16", 2) < 1e-4


def test_sanitizers_name_the_line_of_a_static_shared_overrun() -> None:
    kernel = EmulatedKernel(load("sgemm", MUTANT=4), sanitize=True)
    with pytest.raises(EmulatorError, match=r"index 16 out of bounds for type 'float \[16\]\[64\]'"):
        run_sgemm(kernel, 0)
