"""ldmatrix, stmatrix, mma.sync against the fragment tables of the PTX ISA, element by element, written once more.

The tables: "Matrix Fragments for mma.m16n8k16 with floating point type", "Matrix Fragments for mma.m16n8k8" (.tf32),
"Warp-level matrix load instruction: ldmatrix" and "Warp-level matrix store instruction: stmatrix".
"""

import numpy as np
import pytest
from emulated import nvrtc_log, one_kernel

from im2wingen.emulator import EmulatedKernel

ONE = (1, 1, 1)
LANES = np.arange(32)
GROUP, THREAD = LANES // 4, LANES % 4


def place_16bit(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column, by lane, of a_i of A[16x16]."""
    row = GROUP if i < 2 or 4 <= i < 6 else GROUP + 8
    return row, THREAD * 2 + (i & 1) + (8 if i >= 4 else 0)


def place_b_16bit(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column, by lane, of b_i of B[16x8]."""
    return THREAD * 2 + (i & 1) + (8 if i >= 2 else 0), GROUP


def place_accumulator(i: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column, by lane, of c_i of C[16x8]."""
    return (GROUP if i < 2 else GROUP + 8), THREAD * 2 + (i & 1)


MMA_BODY = """
  float d[4]; uint32_t fa[4], fb[2];
  for (int i = 0; i < 4; ++i) d[i] = c[threadIdx.x * 4 + i];
  for (int i = 0; i < 4; ++i) fa[i] = a[threadIdx.x * 4 + i];
  for (int i = 0; i < 2; ++i) fb[i] = b[threadIdx.x * 2 + i];
  ptx::INSTRUCTION(d, fa, fb);
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = d[i];"""


@pytest.mark.parametrize("precision", ["f16", "bf16", "tf32"])
def test_mma_fragments(precision: str) -> None:
    depth = 8 if precision == "tf32" else 16
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 9, (16, depth)).astype(np.float32)  # small integers: every sum is exact
    b = rng.integers(-8, 9, (depth, 8)).astype(np.float32)
    c = rng.integers(-8, 9, (16, 8)).astype(np.float32)
    if precision == "tf32":
        garbage = rng.integers(0, 1 << 13, (32, 4), dtype=np.uint32)  # low bits that the instruction ignores
        fa = np.stack([a[GROUP + i % 2 * 8, THREAD + i // 2 * 4] for i in range(4)], 1).view(np.uint32) | garbage
        fb = np.stack([b[THREAD + i * 4, GROUP] for i in range(2)], 1).view(np.uint32) | garbage[:, :2]
        instruction = "mma_m16n8k8_f32_tf32"
    else:

        def narrow(x: np.ndarray) -> np.ndarray:
            return (
                x.astype(np.float16).view(np.uint16)
                if precision == "f16"
                else (x.view(np.uint32) >> 16).astype(np.uint16)
            )

        fa = np.stack([narrow(a[place_16bit(i)]) for i in range(8)], 1).view(np.uint32)
        fb = np.stack([narrow(b[place_b_16bit(i)]) for i in range(4)], 1).view(np.uint32)
        instruction = f"mma_m16n8k16_f32_{precision}"
    fragment_c = np.stack([c[place_accumulator(i)] for i in range(4)], 1)
    source = one_kernel(
        "const uint32_t* a, const uint32_t* b, float* c",
        MMA_BODY.replace("INSTRUCTION", instruction),
        includes=("ptx/mma.cuh",),
    )
    nvrtc_log(source, "sm_80")
    EmulatedKernel(source).launch(ONE, 32, 0, [np.ascontiguousarray(fa), np.ascontiguousarray(fb), fragment_c], seed=2)
    expected = c + a @ b
    for i in range(4):
        np.testing.assert_array_equal(fragment_c[:, i], expected[place_accumulator(i)])


DMMA_BODY = """
  double d[D], fa[A], fb[B];
  for (int i = 0; i < D; ++i) d[i] = c[threadIdx.x * D + i];
  for (int i = 0; i < A; ++i) fa[i] = a[threadIdx.x * A + i];
  for (int i = 0; i < B; ++i) fb[i] = b[threadIdx.x * B + i];
  CALL;
  for (int i = 0; i < D; ++i) c[threadIdx.x * D + i] = d[i];"""


@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_fp64_mma_fragments(rows: int, depth: int) -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-8, 9, shape).astype(np.float64) for shape in ((rows, depth), (depth, 8), (rows, 8)))
    places = [(GROUP + 8 * half, THREAD + column) for column in range(0, depth, 4) for half in range(rows // 8)]
    fa = np.stack([a[place] for place in places], 1)
    fb = np.stack([b[THREAD + row, GROUP] for row in range(0, depth, 4)], 1)
    fc = np.stack([c[place_accumulator(i)] for i in range(rows // 4)], 1)
    call = "ptx::mma_m8n8k4_f64(d[0], d[1], fa[0], fb[0])" if rows == 8 else f"ptx::mma_m16n8k{depth}_f64(d, fa, fb)"
    body = f"constexpr int A = {fa.shape[1]}, B = {fb.shape[1]}, D = {fc.shape[1]};" + DMMA_BODY.replace("CALL", call)
    source = one_kernel("const double* a, const double* b, double* c", body, includes=("ptx/mma.cuh",))
    nvrtc_log(source, "sm_80" if rows == 8 else "sm_90a")
    EmulatedKernel(source).launch(ONE, 32, 0, [np.ascontiguousarray(fa), np.ascontiguousarray(fb), fc], seed=2)
    expected = c + a @ b
    for i in range(rows // 4):
        np.testing.assert_array_equal(fc[:, i], expected[place_accumulator(i)])


@pytest.mark.parametrize("suffix", ["", "_trans"])
def test_ldmatrix(suffix: str) -> None:
    """Lane l gives the address of row l % 8 of matrix l / 8 and gets elements 2 * (l % 4) and + 1 of row l / 4.

    Transposed, of column l / 4.
    """
    matrices, pitch = 4, 24  # elements; rows are spread, so that an address is more than its index
    body = f"""
  IM2WINGEN_DYNAMIC_SMEM(smem);
  uint16_t* tile = reinterpret_cast<uint16_t*>(smem);
  for (int i = threadIdx.x; i < {matrices} * 8 * {pitch}; i += 32) tile[i] = x[i];
  __syncwarp();
  uint32_t r[{matrices}];
  ptx::ldmatrix_x4{suffix}(r, tile + threadIdx.x * {pitch});
  for (int i = 0; i < {matrices}; ++i) y[threadIdx.x * {matrices} + i] = r[i];"""
    source = one_kernel("const uint16_t* x, uint32_t* y", body, includes=(f"ptx/ldmatrix{suffix}.cuh",))
    nvrtc_log(source, "sm_80")
    x = np.arange(matrices * 8 * pitch, dtype=np.uint16)
    y = np.zeros((32, matrices), np.uint32)
    EmulatedKernel(source).launch(ONE, 32, matrices * 8 * pitch * 2, [x, y])
    rows = x.reshape(matrices, 8, pitch)[:, :, :8]
    if suffix:
        rows = rows.transpose(0, 2, 1)
    pairs = y.view(np.uint16).reshape(32, matrices, 2)
    for i in range(matrices):
        np.testing.assert_array_equal(pairs[:, i, 0], rows[i, GROUP, THREAD * 2])
        np.testing.assert_array_equal(pairs[:, i, 1], rows[i, GROUP, THREAD * 2 + 1])


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("matrices", [2, 4])
def test_stmatrix(matrices: int, transpose: bool) -> None:
    """Lane l gives the address of row l % 8 of matrix l / 8 and, of row (transposed: column) l / 4, two elements."""
    pitch = 24
    suffix = "_trans" if transpose else ""
    body = f"""
  IM2WINGEN_DYNAMIC_SMEM(smem);
  uint16_t* tile = reinterpret_cast<uint16_t*>(smem);
  for (int i = threadIdx.x; i < {matrices} * 8 * {pitch}; i += 32) tile[i] = 0;
  __syncwarp();
  uint32_t r[{matrices}];
  for (int i = 0; i < {matrices}; ++i) r[i] = x[threadIdx.x * {matrices} + i];
  ptx::stmatrix_x{matrices}{suffix}(tile + threadIdx.x % {matrices * 8} * {pitch}, r);
  __syncwarp();
  for (int i = threadIdx.x; i < {matrices} * 8 * {pitch}; i += 32) y[i] = tile[i];"""
    source = one_kernel("const uint32_t* x, uint16_t* y", body, includes=("ptx/stmatrix.cuh",))
    nvrtc_log(source, "sm_90")
    x = np.arange(1, 32 * matrices * 2 + 1, dtype=np.uint16).reshape(32, matrices, 2)
    y = np.zeros((matrices, 8, pitch), np.uint16)
    EmulatedKernel(source).launch(ONE, 32, y.nbytes, [np.ascontiguousarray(x).view(np.uint32), y])
    for i in range(matrices):
        stored = y[i, :, :8].T if transpose else y[i, :, :8]
        for half in (0, 1):
            np.testing.assert_array_equal(stored[GROUP, THREAD * 2 + half], x[:, i, half])
    assert (y[:, :, 8:] == 0).all()
