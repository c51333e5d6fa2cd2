"""wgmma in the emulator against numpy: every kind of descriptor, N and element; and what breaks one multiplication."""

from typing import cast

import numpy as np
import pytest
from emulated import load, nvrtc_log, one_kernel

from im2wingen.dtypes import to_storage
from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError
from im2wingen.problem import Precision

ONE = (1, 1, 1)
INSTRUCTIONS = {"f16": "wgmma_m64k16_f32_f16", "bf16": "wgmma_m64k16_f32_bf16", "tf32": "wgmma_m64k8_f32_tf32"}
HELD = {name: instruction.replace("wgmma_", "wgmma_held_") for name, instruction in INSTRUCTIONS.items()}
EIGHT_BITS = {"int8": "wgmma_m64k32_s32_s8", "e4m3": "wgmma_m64k32_f32_e4m3", "e5m2": "wgmma_m64k32_f32_e5m2"}


def narrow(x: np.ndarray, precision: str) -> np.ndarray:
    """Small integers as bytes of the element type, rows kept."""
    if precision == "f16":
        return x.astype(np.float16).view(np.uint8)
    if precision in EIGHT_BITS:
        return to_storage(x, cast(Precision, precision)).view(np.uint8)
    bits = x.astype(np.float32).view(np.uint32)
    if precision == "bf16":
        return (bits >> 16).astype(np.uint16).view(np.uint8)
    garbage = np.random.default_rng(5).integers(0, 1 << 13, x.shape, dtype=np.uint32)  # bits that tf32 ignores
    return (bits | garbage).view(np.uint8)


def run(
    n: int,
    precision: str = "f16",
    *,
    swizzle: int = 128,
    sbo: int = 0,
    lbo: int = 16,
    shift: int = 0,
    steps: int = 1,
    accumulate: bool = True,
    seed: int = 0,
    mutant: int = 0,
    sanitize: bool = False,
    held: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel gives and what it should; `shift` is how far the operands' starts are off a multiple of 1024."""
    sbo = sbo or 8 * (swizzle or 16)
    k_bytes = 32 * steps
    depth = k_bytes // (4 if precision == "tf32" else 1 if precision in EIGHT_BITS else 2)
    rng = np.random.default_rng(n)
    sums = np.int32 if precision == "int8" else np.float32
    least, most = (-128, 128) if precision == "int8" else (-4, 5)
    a, b, c = (rng.integers(least, most, shape).astype(sums) for shape in ((64, depth), (n, depth), (64, n)))
    used = shift + max(n, 64) // 8 * sbo + (0 if swizzle else k_bytes // 16 * lbo)
    region = -(-used // 1024) * 1024
    source = load(
        "wgmma_tile", WGMMA_N=n, ITEM_SLOTS=n, HELD=int(held), SWIZZLE=swizzle, SBO=sbo, LBO=lbo,
        WGMMA=(HELD if held else INSTRUCTIONS | EIGHT_BITS)[precision],
        K_BYTES=k_bytes, START_A=shift, START_B=region + shift, ACCUMULATE=int(accumulate), MUTANT=mutant,
        SUM="int32_t" if precision == "int8" else "float",
    )  # fmt: skip
    if mutant == 0:
        nvrtc_log(source, "sm_90a")
    d = c.copy()
    EmulatedKernel(source, sanitize=sanitize).launch(
        ONE, 128, 2 * region, [narrow(a, precision), narrow(b, precision), d], seed
    )
    return d, a @ b.T + (c if accumulate else 0)


@pytest.mark.parametrize("precision", list(INSTRUCTIONS))
@pytest.mark.parametrize("n", [8, 40, 176, 256])
def test_n_and_elements(n: int, precision: str) -> None:
    np.testing.assert_array_equal(*run(n, precision, steps=4))


@pytest.mark.parametrize("precision", list(HELD))
@pytest.mark.parametrize("n", [16, 112, 256])
def test_rows_held_in_registers(n: int, precision: str) -> None:
    np.testing.assert_array_equal(*run(n, precision, steps=4, held=True, accumulate=False))


@pytest.mark.parametrize("mutant", [1, 3, 5, 7])
def test_a_mutant_beside_held_rows_is_wrong(mutant: int) -> None:
    d, expected = run(16, steps=2, mutant=mutant, held=True)
    assert not np.array_equal(d, expected)


@pytest.mark.parametrize("precision", list(EIGHT_BITS))
@pytest.mark.parametrize("n", [24, 176])
def test_elements_of_8_bits(n: int, precision: str) -> None:
    np.testing.assert_array_equal(*run(n, precision, steps=4))


def test_sums_of_integers_wrap() -> None:
    big = np.full((64, 8), 2**31 - 1, np.int32)
    ones = np.ones((64, 32), np.int8)
    source = load(
        "wgmma_tile", WGMMA_N=8, ITEM_SLOTS=8, HELD=0, WGMMA=EIGHT_BITS["int8"], SWIZZLE=32, SBO=256, LBO=16,
        K_BYTES=32, START_A=0, START_B=2048, ACCUMULATE=1, MUTANT=0, SUM="int32_t",
    )  # fmt: skip
    EmulatedKernel(source).launch(ONE, 128, 4096, [ones.view(np.uint8), ones[:8].view(np.uint8), big])
    assert (big == -(2**31) + 31).all()


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        # 2^13 keeps steps of 1 beside it: 1.5 counts 1, also below zero
        ([(64, 128), (1.5, 1)], 2**13 + 1),
        ([(64, 128), (-1.5, 1)], 2**13 - 1),
        # twice as much keeps steps of 2
        ([(128, 128), (1.5, 1), (1.5, 1)], 2**14),
        # two halves of a step are both lost, before they are added
        ([(64, 128), (0.5, 1), (0.5, 1)], 2**13),
        ([(np.nan, 1), (1, 1)], np.nan),
    ],
)
def test_sums_of_fp8_have_14_bits(terms: list[tuple[float, float]], total: float) -> None:
    a, b, d = np.zeros((64, 32)), np.zeros((8, 32)), np.zeros((64, 8), np.float32)
    for k, (left, right) in enumerate(terms):
        a[:, k], b[:, k] = left, right
    source = load(
        "wgmma_tile", WGMMA_N=8, ITEM_SLOTS=8, HELD=0, WGMMA=EIGHT_BITS["e4m3"], SWIZZLE=32, SBO=256, LBO=16,
        K_BYTES=32, START_A=0, START_B=2048, ACCUMULATE=1, MUTANT=0, SUM="float",
    )  # fmt: skip
    EmulatedKernel(source).launch(ONE, 128, 4096, [narrow(a, "e4m3"), narrow(b, "e4m3"), d])
    np.testing.assert_array_equal(d, np.full((64, 8), total, np.float32))


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("rows", [0, 1, 3, 6])
def test_a_start_inside_the_pattern(rows: int, swizzle: int) -> None:
    """Starts that are any number of 128-byte lines into the 1024 bytes of a pattern."""
    np.testing.assert_array_equal(*run(24, swizzle=swizzle, shift=rows * 128, steps=swizzle // 32))


@pytest.mark.parametrize("sbo", [1280, 2432])
def test_groups_of_rows_at_any_distance(sbo: int) -> None:
    """A row of 10 or 19 pixels between two groups of 8."""
    np.testing.assert_array_equal(*run(40, swizzle=128, sbo=sbo, steps=4))


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_no_swizzle(precision: str) -> None:
    """Groups of 8 rows 128 bytes apart, the next 16 bytes of k behind them all."""
    np.testing.assert_array_equal(*run(48, precision, swizzle=0, sbo=128, lbo=1024, steps=2))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seeds_and_no_accumulation(seed: int) -> None:
    np.testing.assert_array_equal(*run(16, accumulate=False, steps=2, seed=seed))


def test_sanitized() -> None:
    np.testing.assert_array_equal(*run(16, sanitize=True))


@pytest.mark.parametrize("mutant", [1, 3, 5, 7])
def test_mutant_that_is_wrong(mutant: int) -> None:
    """No proxy fence; a descriptor a row too far; an operand changed under way; read before the wait."""
    d, expected = run(16, steps=2, mutant=mutant)
    assert not np.array_equal(d, expected)
    if mutant in (1, 7):
        assert np.isnan(d).all()
    if mutant == 5:  # the column whose operand it was
        assert np.isnan(d[:, 0]).all()
        np.testing.assert_array_equal(d[:, 1:], expected[:, 1:])


@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (2, "wgmma.m64k16.f16: no wgmma.fence since the thread last had its accumulators"),
        (4, "wgmma.m64k16.f16: the accumulators were written while a wgmma is under way"),
        (6, "the thread ended with wgmma in flight"),
    ],
)
def test_mutant_that_is_told(mutant: int, sentence: str) -> None:
    with pytest.raises(EmulatorError, match=sentence):
        run(16, steps=2, mutant=mutant)


OPERANDS = """
  float d[8] = {}, e[8] = {};
  const uint64_t a = uint64_t(1) << 62 | uint64_t(64) << 32 | 64, b = a;
  ptx::wgmma_fence();
"""
FINISH = "ptx::wgmma_commit_group(); ptx::wgmma_wait_group<0>();"


@pytest.mark.parametrize(
    ("body", "threads", "sentence"),
    [
        ("ptx::wgmma_m64k16_f32_f16(d, a, b, false);", 96, "needs a whole warpgroup of 128 threads"),
        ("ptx::wgmma_m64k16_f32_f16(d, a | 1ull << 50, b, false);", 128, "has a base offset"),
        ("ptx::wgmma_m64k16_f32_f16(d, a | 1ull << 55, b, false);", 128, "has reserved bits"),
        ("ptx::wgmma_m64k16_f32_f16(d, a + 600, b, false);", 128, "address 10624 of shared memory belongs to nothing"),
        (
            "if (threadIdx.x < 64) ptx::wgmma_m64k16_f32_f16(d, a, b, false);"
            "else ptx::wgmma_m64k16_f32_bf16(d, a, b, false);",
            128,
            "differs from what other threads of the warpgroup have issued",
        ),
        (
            "ptx::wgmma_m64k16_f32_f16(threadIdx.x == 3 ? d : e, a, b, false);"
            "ptx::wgmma_m64k16_f32_f16(e, a, b, false);",
            128,
            "the lanes of the warp give different accumulators",
        ),
        (
            "if (threadIdx.x < 96) ptx::wgmma_m64k16_f32_f16(d, a, b, false);",
            128,
            "deadlock: threads 0-95 wait in wgmma.wait_group; threads 96-127 ended",
        ),
        (
            f"ptx::wgmma_m64k16_f32_f16(d, a, b, false); {FINISH} ptx::wgmma_m64k16_f32_f16(d, a, b, true);",
            128,
            "no wgmma.fence since the thread last had its accumulators",
        ),
    ],
)
def test_misuse(body: str, threads: int, sentence: str) -> None:
    source = one_kernel(
        "float* y", OPERANDS + body + FINISH, includes=("ptx/wgmma_sync.cuh", "ptx/wgmma.cuh"), WGMMA_N=16
    )
    with pytest.raises(EmulatorError, match=sentence):
        EmulatedKernel(source).launch(ONE, threads, 8192, [np.zeros(1, np.float32)])


def test_two_accumulators_and_a_wait_for_the_older_group() -> None:
    """The older group's d is there after wait_group<1>, the younger one's only after wait_group<0>."""
    body = """
  IM2WINGEN_DYNAMIC_SMEM(smem);
  for (int i = threadIdx.x; i < 4096; i += 128) reinterpret_cast<uint16_t*>(smem)[i] = 0x3c00;  // 1
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  float d[4] = {}, e[4] = {5, 5, 5, 5};
  const uint64_t a = uint64_t(1) << 62 | uint64_t(64) << 32 | __cvta_generic_to_shared(smem) >> 4;
  ptx::wgmma_fence();
  ptx::wgmma_m64k16_f32_f16(d, a, a, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_m64k16_f32_f16(e, a, a, true);
  ptx::wgmma_m64k16_f32_f16(e, a, a, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<1>();
  y[threadIdx.x * 3] = d[0];
  y[threadIdx.x * 3 + 1] = e[0];
  ptx::wgmma_wait_group<0>();
  y[threadIdx.x * 3 + 2] = e[0];"""
    y = np.zeros((128, 3), np.float32)
    source = one_kernel("float* y", body, includes=("ptx/tma.cuh", "ptx/wgmma_sync.cuh", "ptx/wgmma.cuh"), WGMMA_N=8)
    EmulatedKernel(source).launch(ONE, 128, 8192, [y])
    np.testing.assert_array_equal(y, np.broadcast_to(np.array([16, np.nan, 37], np.float32), y.shape))
