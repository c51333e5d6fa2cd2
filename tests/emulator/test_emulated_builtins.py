"""CUDA's built-in names in the emulator against what CUDA says they do; NVRTC takes the same texts."""

import re
from pathlib import Path

import numpy as np
import pytest
from emulated import assemble, nvrtc_log, one_kernel

from im2wingen import emulator
from im2wingen.emulator import EmulatedKernel
from im2wingen.errors import EmulatorError
from im2wingen.render import Source, data_folder

ONE = (1, 1, 1)


def run(source: Source, y: np.ndarray, threads: int = 32, seed: int = 0, **launch: int) -> np.ndarray:
    """`y` after the kernel ran on it as one CTA; the text compiles for a device too."""
    nvrtc_log(source, "sm_80")
    EmulatedKernel(source).launch(ONE, threads, launch.get("smem_bytes", 0), [y], seed)
    return y


def test_thread_order_is_the_seeds() -> None:
    source = one_kernel("int* y", "y[1 + atomicAdd(&y[0], 1)] = threadIdx.x;")
    orders = [run(source, np.zeros(65, np.int32), 64, seed)[1:].tolist() for seed in (0, 1, 2, 2, 3)]
    assert orders[0] == list(range(64))
    assert orders[1] == list(range(64))[::-1]
    assert sorted(orders[2]) == list(range(64))
    assert orders[2] == orders[3]
    assert len({tuple(order) for order in orders}) == 4


def test_a_warp_may_run_ahead_of_the_others() -> None:
    body = """
  for (int i = 0; i < 4; ++i) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) y[1 + atomicAdd(y, 1)] = threadIdx.x / 32;
  }"""
    y = run(one_kernel("int* y", body), np.zeros(9, np.int32), 64)
    assert y[1:].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_coordinates() -> None:
    body = """
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] += block * 1000 + thread;"""
    y = np.zeros(2 * 3 * 4 * 40, np.int32)
    EmulatedKernel(one_kernel("int* y", body)).launch((2, 3, 4), (5, 4, 2), 0, [y])
    np.testing.assert_array_equal(y.reshape(24, 40), np.arange(24)[:, None] * 1000 + np.arange(40))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_shuffles(seed: int) -> None:
    body = """
  const int lane = threadIdx.x % 32;
  int* row = y + threadIdx.x * 6;
  row[0] = __shfl_sync(0xffffffffu, lane, 5);
  row[1] = __shfl_xor_sync(0xffffffffu, lane, 3);
  row[2] = __shfl_up_sync(0xffffffffu, lane, 2, 8);
  row[3] = __shfl_down_sync(0xffffffffu, lane, 3, 16);
  row[4] = int(__ballot_sync(0xffffffffu, lane % 3 == 0));
  row[5] = int(__shfl_sync(0xffffffffu, double(lane), lane + 1, 4));"""
    y = run(one_kernel("int* y", body), np.zeros(64 * 6, np.int32), 64, seed).reshape(2, 32, 6)
    lane = np.arange(32)
    ballot = sum(1 << i for i in range(0, 32, 3))
    for warp in y:
        np.testing.assert_array_equal(warp[:, 0], 5)
        np.testing.assert_array_equal(warp[:, 1], lane ^ 3)
        np.testing.assert_array_equal(warp[:, 2], np.where(lane % 8 >= 2, lane - 2, lane))
        np.testing.assert_array_equal(warp[:, 3], np.where(lane % 16 < 13, lane + 3, lane))
        np.testing.assert_array_equal(warp[:, 4].astype(np.uint32), ballot)
        np.testing.assert_array_equal(warp[:, 5], lane // 4 * 4 + (lane + 1) % 4)


def test_halves_of_a_warp_meet_apart() -> None:
    body = """
  const unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  for (int i = 0; i < (threadIdx.x < 16 ? 5 : 2); ++i) y[threadIdx.x] = __reduce_add_sync(mask, y[threadIdx.x]);
  y[threadIdx.x] = __any_sync(0xffffffffu, y[threadIdx.x] == 256) + 2 * __all_sync(0xffffffffu, y[threadIdx.x] > 0);"""
    assert (run(one_kernel("int* y", body), np.ones(32, np.int32)) == 3).all()


def test_barriers_that_reduce() -> None:
    body = """
  y[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0);
  y[threadIdx.x] += 100 * __syncthreads_or(threadIdx.x == 7) + 1000 * __syncthreads_and(threadIdx.x < 99);
  y[threadIdx.x] += 10000 * __syncthreads_or(0) + 100000 * __syncthreads_and(threadIdx.x != 7);"""
    for seed in (0, 1, 2):
        assert (run(one_kernel("int* y", body), np.zeros(96, np.int32), 96, seed) == 32 + 100 + 1000).all()


def test_shared_memory_begins_as_nan_in_every_cta() -> None:
    body = """
  IM2WINGEN_DYNAMIC_SMEM(smem);
  __shared__ float fixed[2];
  float* dynamic = reinterpret_cast<float*>(smem);
  y[blockIdx.x * 2] = fixed[threadIdx.x + 1];
  y[blockIdx.x * 2 + 1] = dynamic[threadIdx.x];
  fixed[1] = dynamic[0] = 3.0f;"""
    y = np.zeros(4, np.float32)
    source = one_kernel("float* y", body)
    nvrtc_log(source, "sm_90a")
    EmulatedKernel(source).launch((2, 1, 1), 1, 8, [y])
    assert np.isnan(y).all()


def test_static_shared_memory_of_device_functions_and_templates() -> None:
    before = """
template <int I> __device__ float* scratch() { __shared__ __align__(16) float memory[32]; return memory; }"""
    body = """
  scratch<0>()[threadIdx.x] = threadIdx.x;
  scratch<1>()[threadIdx.x] = threadIdx.x * 10.0f;
  __syncthreads();
  y[threadIdx.x] = scratch<0>()[31 - threadIdx.x] + scratch<1>()[31 - threadIdx.x];"""
    y = run(one_kernel("float* y", body, before=before), np.zeros(32, np.float32))
    np.testing.assert_array_equal(y, np.arange(31, -1, -1) * 11.0)


def test_atomics() -> None:
    body = """
  atomicAdd(&y[0], 1.5);
  atomicAdd(reinterpret_cast<float*>(&y[1]), 2.0f);
  atomicMax(reinterpret_cast<int*>(&y[2]), int(threadIdx.x) - 5);
  atomicMax(reinterpret_cast<unsigned long long*>(&y[3]), 1ull << threadIdx.x);
  atomicMin(reinterpret_cast<unsigned*>(&y[4]), threadIdx.x);
  atomicAdd(reinterpret_cast<uint64_t*>(&y[5]), uint64_t(3));
  int* last = reinterpret_cast<int*>(&y[7]);
  if (threadIdx.x == 0) {
    y[6] = atomicCAS(last, 0, 9);
    y[6] += atomicExch(last, 4);
  }"""
    y = run(one_kernel("double* y", body), np.zeros(8, np.float64))
    assert y[0] == 48
    assert y[1:2].view(np.float32)[0] == 64
    assert y[2:3].view(np.int32)[0] == 26
    assert y[3:4].view(np.uint64)[0] == 1 << 31
    assert y[4:5].view(np.uint32)[0] == 0
    assert y[5:6].view(np.uint64)[0] == 96
    assert y[6] == 9
    assert y[7:8].view(np.int32)[0] == 4


def test_conversions_round_as_the_formats_say() -> None:
    body = """
  const float v = y[threadIdx.x];
  y[32 + threadIdx.x] = __half2float(__float2half_rn(v));
  y[64 + threadIdx.x] = __bfloat162float(__float2bfloat16_rn(v));
  y[96 + threadIdx.x] = __uint_as_float(ptx::cvt_rna_tf32(__float_as_uint(v)));
  const float2 pair = __half22float2(__floats2half2_rn(v, -v));
  y[128 + threadIdx.x] = pair.x + pair.y;"""
    y = np.zeros(160, np.float32)
    y[:32] = np.random.default_rng(0).standard_normal(32, dtype=np.float32) * 100
    y[:4] = [np.inf, -np.inf, np.nan, 1 + 2**-11]  # the last: half way between two tf32 values
    x = y[:32].copy()
    run(one_kernel("float* y", body, includes=("ptx/cvt.cuh",)), y)
    np.testing.assert_array_equal(y[32:64], x.astype(np.float16).astype(np.float32))
    bits = x.view(np.uint32).astype(np.uint64)
    bf16 = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(y[64:96], np.where(np.isnan(x), np.nan, bf16))
    tf32 = ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(y[96:128], np.where(np.isnan(x), np.nan, tf32))
    assert y[99] == 1 + 2**-10
    np.testing.assert_array_equal(y[131:160], 0)


def test_arithmetic() -> None:
    body = """
  y[0] = min(3, -2); y[1] = max(3u, 7u); y[2] = min(2.5f, __uint_as_float(0x7fffffffu)); y[3] = max(1.0, 2.0);
  y[4] = __umulhi(0x80000000u, 6u); y[5] = double(__umul64hi(1ull << 63, 10ull)); y[6] = __popc(0xffu); y[7] = __clz(1);
  y[8] = rsqrtf(4.0f); y[9] = fmaf(2.0f, 3.0f, 4.0f); y[10] = __fmaf_rn(2.0f, 3.0f, 4.0f); y[11] = fma(2.0, 3.0, 4.0);
  y[12] = logf(1.0f); y[13] = cosf(0.0f); y[14] = sqrtf(9.0f); y[15] = __float2int_rn(2.5f); y[16] = fmaxf(-1.0f, 2.0f);
  y[17] = __half2float(__hfma(__float2half_rn(2.0f), __float2half_rn(3.0f), __float2half_rn(0.5f)));
  const float4 loaded = *reinterpret_cast<const float4*>(y); y[18] = __ldg(&y[9]); y[19] = loaded.x == loaded.x;
  const int4 i4 = make_int4(1, 2, 3, 4); const uint4 u4 = make_uint4(5, 6, 7, 8); y[20] = i4.w + u4.x;"""
    y = run(one_kernel("double* y", body), np.zeros(21, np.float64), 1)
    expected = [-2, 7, 2.5, 2, 3, 5, 8, 31, 0.5, 10, 10, 10, 0, 1, 3, 2, 2, 6.5, 10, 1, 9]
    np.testing.assert_array_equal(y, expected)


def test_one_array_given_twice_is_one_memory() -> None:
    y = np.arange(4, dtype=np.float32)
    EmulatedKernel(one_kernel("const float* x, float* y", "y[1] = 9.0f; y[2] = x[1];")).launch(ONE, 1, 0, [y, y])
    assert y.tolist() == [0, 9, 9, 3]


def test_array_that_is_not_contiguous() -> None:
    base = np.zeros((4, 8), np.float32)
    EmulatedKernel(one_kernel("float* y", "y[threadIdx.x] = threadIdx.x;")).launch(ONE, 8, 0, [base[:, ::4]])
    np.testing.assert_array_equal(base[:, ::4], np.arange(8).reshape(4, 2))
    assert base.sum() == 28


def test_every_ptx_wrapper_has_a_counterpart() -> None:
    def names(texts: list[str]) -> set[str]:
        pattern = r"^[\w ]*\b(?:void|bool|uint32_t) (\w+)\("
        return {name for text in texts for name in re.findall(pattern, text, re.M)}

    folder = data_folder("templates") / "ptx"
    includes = "".join(f'<% include "ptx/{path.name}" %>\n' for path in sorted(folder.glob("*.cuh")))
    wrappers = names([assemble("all", includes, WGMMA_N=8, ITEM_SLOTS=16).text]) - {
        "smem_address"
    }  # an operand's form, no instruction
    assert {"ldmatrix_x4", "mbarrier_try_wait_parity", "wgmma_m64k8_f32_tf32"} <= wrappers
    headers = sorted((Path(emulator.__file__).parent / "include").glob("ptx_*.h"))
    assert wrappers <= names([path.read_text() for path in headers])


def test_addresses_of_shared_memory() -> None:
    body = """
  IM2WINGEN_DYNAMIC_SMEM(smem);
  __shared__ __align__(128) float fixed[4];
  const size_t dynamic = __cvta_generic_to_shared(smem + 48);
  y[0] = dynamic % 1024 == 48 && __cvta_generic_to_shared(fixed) % 128 == 0;
  y[1] = __cvta_shared_to_generic(dynamic) == smem + 48;
  y[3] = __cvta_shared_to_generic(__cvta_generic_to_shared(fixed + 1)) == fixed + 1;
  y[2] = __cvta_generic_to_shared(smem + 96) == dynamic + 48;"""
    assert run(one_kernel("int* y", body), np.zeros(4, np.int32), 1, smem_bytes=96).all()
    with pytest.raises(EmulatorError, match="of what is not in shared memory: byte 0 of argument 0"):
        EmulatedKernel(one_kernel("int* y", "__cvta_generic_to_shared(y);")).launch(ONE, 1, 0, [np.zeros(1, np.int32)])


def test_bits_of_two_words() -> None:
    body = """
  const unsigned low = 0x76543210, high = 0xfedcba98;
  y[0] = __funnelshift_r(low, high, 0);
  y[1] = __funnelshift_r(low, high, 16);
  y[2] = __funnelshift_r(low, high, 36);  // modulo 32
  y[3] = __byte_perm(low, high, 0x3210);
  y[4] = __byte_perm(low, high, 0x7654);
  y[5] = __byte_perm(low, high, 0x5410);
  y[6] = __byte_perm(low, high, 0x0472);"""
    y = run(one_kernel("unsigned* y", body), np.zeros(7, np.uint32), 1)
    assert y.tolist() == [0x76543210, 0xBA987654, 0x87654321, 0x76543210, 0xFEDCBA98, 0xBA983210, 0x1098FE54]
