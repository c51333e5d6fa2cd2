"""The PTX wrappers of sm_90a compiled by NVRTC: they are the instructions that they are named after."""

import pytest

from im2wingen.nvrtc import compile_cubin
from im2wingen.render import Source, _environment
from im2wingen.sass import disassemble, instruction_counts

TEXT = """
<% for name in ["mbarrier", "named_barrier", "setmaxnreg", "stmatrix", "tma", "wgmma_sync", "wgmma"] %>
<% if loop.first %><% include "parts/prelude.cuh" %>

constexpr int WGMMA_N = ${ WGMMA_N };
<% endif %>
<% include "ptx/" ~ name ~ ".cuh" %>
<% endfor %>
struct Maps {
  ptx::TensorMap x, y;
};
extern "C" __global__ void __launch_bounds__(256, 1) test_kernel(const __grid_constant__ Maps maps, float* out) {
  IM2WINGEN_DYNAMIC_SMEM(smem);
  uint64_t* barrier = reinterpret_cast<uint64_t*>(smem + 200 * 1024);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&maps.x);
    ptx::mbarrier_init(barrier, 2);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::setmaxnreg_dec<40>();
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(barrier, 3 * 8192);
      ptx::cp_async_bulk_tensor_3d_load(smem, &maps.x, barrier, 0, -1, 2);
      ptx::cp_async_bulk_tensor_4d_load(smem + 8192, &maps.x, barrier, 0, -1, 2, 3);
      ptx::cp_async_bulk_tensor_5d_load(smem + 16384, &maps.x, barrier, 0, -1, 2, 3, 4);
      ptx::mbarrier_arrive(barrier);
    }
    ptx::barrier_arrive(1, 256);
    return;
  }
  ptx::setmaxnreg_inc<232>();
  ptx::barrier_sync(1, 256);
  while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {}
  const uint64_t a = uint64_t(1) << 62 | uint64_t(64) << 32 | __cvta_generic_to_shared(smem) >> 4, b = a + 512;
  ${ sum } d[WGMMA_N / 2];
  ptx::wgmma_fence();
  ptx::wgmma_${ instruction }(d, a, b, false);
  ptx::wgmma_${ instruction }(d, a + 2, b + 2, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_fence_operand(d);
  for (int i = 0; i < WGMMA_N / 2; ++i) out[i * 128 + threadIdx.x - 128] = d[i];
  const uint32_t r4[4] = {uint32_t(d[0]), uint32_t(d[1]), uint32_t(d[2]), 1}, r2[2] = {uint32_t(d[3]), 2};
  ptx::stmatrix_x4(smem + threadIdx.x * 16, r4);
  ptx::stmatrix_x2(smem + 4096 + threadIdx.x * 16, r2);
  ptx::stmatrix_x4_trans(smem + 8192 + threadIdx.x * 16, r4);
  ptx::stmatrix_x2_trans(smem + 12288 + threadIdx.x * 16, r2);
  ptx::fence_proxy_async_shared_cta();
  ptx::barrier_sync(2, 128);
  if (threadIdx.x == 128) {
    ptx::cp_async_bulk_tensor_3d_store(&maps.y, smem, 1, 2, 3);
    ptx::cp_async_bulk_tensor_4d_store(&maps.y, smem, 1, 2, 3, 4);
    ptx::cp_async_bulk_tensor_5d_store(&maps.y, smem, 1, 2, 3, 4, 5);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
    ptx::cp_async_bulk_wait_group<0>();
  }
}
"""
SASS_TYPE = {
    "m64k16_f32_f16": "HGMMA x16.F32", "m64k16_f32_bf16": "HGMMA x16.F32.BF16", "m64k8_f32_tf32": "HGMMA x8.F32.TF32",
    "m64k32_s32_s8": "IGMMA x32.S8.S8", "m64k32_f32_e4m3": "QGMMA x32.F32.E4M3.E4M3",
    "m64k32_f32_e5m2": "QGMMA x32.F32.E5M2.E5M2",
}  # fmt: skip
COLUMNS = {"HGMMA": (8, 40, 96, 176, 216, 256), "IGMMA": (8, 24, 176), "QGMMA": (40, 176)}


@pytest.mark.parametrize(
    ("instruction", "n"), [(name, n) for name, sass in SASS_TYPE.items() for n in COLUMNS[sass.partition(" ")[0]]]
)
def test_instructions_of_sm_90a(n: int, instruction: str) -> None:
    """HGMMA, IGMMA or QGMMA multiplies, UTMALDG and UTMASTG are TMA, SYNCS mbarriers, STSM stmatrix."""
    sums = "int32_t" if "s32" in instruction else "float"
    text = _environment().from_string(TEXT).render(WGMMA_N=str(n), instruction=instruction, sum=sums)
    cubin = compile_cubin(Source("test_kernel", text), "sm_90a")
    counts = instruction_counts(cubin)
    sass, _, types = SASS_TYPE[instruction].partition(" ")
    wanted = {sass: 2, "UTMALDG": 3, "UTMASTG": 3, "STSM": 4, "USETMAXREG": 2}
    assert {name: counts.get(name) for name in wanted} == wanted
    assert counts["SYNCS"] >= 4  # init, two arrivals, a wait
    assert f"{sass}.64x{n}{types}" in disassemble(cubin)
    assert cubin.spill_bytes == 0


COPIES = """<% include "parts/prelude.cuh" %>
<% include "ptx/mbarrier.cuh" %>
<% include "ptx/bulk_copy.cuh" %>
<% include "ptx/st.cuh" %>
<% include "ptx/cache_policy.cuh" %>
extern "C" __global__ void test_kernel(const unsigned char* x, unsigned char* y) {
  IM2WINGEN_DYNAMIC_SMEM(smem);
  uint64_t* barrier = reinterpret_cast<uint64_t*>(smem + 1024);
  const uint64_t first = ptx::createpolicy_evict_first(), last = ptx::createpolicy_evict_last();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_prefetch_l2_hint(x, 4096, last);
    ptx::cp_async_bulk_load(smem, x, 512, barrier);
    ptx::cp_async_bulk_load_hint(smem + 512, x + 512, 512, barrier, last);
  }
  while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {}
  const uint32_t words[4] = {smem[0], smem[1], smem[2], smem[3]};
  ptx::st_global_v4(y, words);
  ptx::st_global_v4_hint(y + 16, words, first);
  ptx::st_global_hint(y + 32, words[0], first);
  if (threadIdx.x == 0) ptx::cp_async_bulk_store_hint(y + 512, smem, 512, first);
}
"""


def test_bulk_copies_and_hints() -> None:
    """UBLKCP copies, UBLKPF brings to L2; the policies are constants."""
    cubin = compile_cubin(Source("test_kernel", _environment().from_string(COPIES).render()), "sm_90a")
    counts = instruction_counts(cubin)
    assert (counts["UBLKCP"], counts["UBLKPF"], counts["STG"]) == (3, 1, 3)
    listing = disassemble(cubin)
    assert listing.count("STG.E.128 ") == 2
    assert listing.count("STG.E ") == 1
    copies = [line for line in listing.splitlines() if "UBLK" in line]
    assert sorted("desc[" in line for line in copies) == [False, True, True, True]
    assert "0x120 ;" in listing  # evict first, from bit 52 on
    assert "0x140 ;" in listing  # evict last
