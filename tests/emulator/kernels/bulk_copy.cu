// Bytes of x in bulk into shared memory, half of them with a hint, and from there to y. MUTANT breaks it on purpose.
<% include "parts/prelude.cuh" %>
<% include "ptx/mbarrier.cuh" %>
<% include "ptx/bulk_copy.cuh" %>
<% include "ptx/cache_policy.cuh" %>
constexpr int HALF = 256;

extern "C" __global__ void bulk_copy(const unsigned char* x, unsigned char* y) {
  IM2WINGEN_DYNAMIC_SMEM(smem);  // 1024: barrier; the bytes
  uint64_t* landed = reinterpret_cast<uint64_t*>(smem);
  unsigned char* bytes = smem + 1024;
  const uint64_t policy = ptx::createpolicy_evict_last();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(landed, 1);
    ptx::fence_mbarrier_init();
    ptx::cp_async_bulk_prefetch_l2_hint(x, 2 * HALF, policy);
    if (MUTANT == 4) bytes[0] = 7;  // 4: loads over what a thread wrote without a fence
    ptx::mbarrier_arrive_expect_tx(landed, 2 * HALF + (MUTANT == 2 ? -16 : MUTANT == 3 ? 16 : 0));  // 2, 3: wrong bytes
    ptx::cp_async_bulk_load(bytes, x, HALF, landed);
    ptx::cp_async_bulk_load_hint(bytes + (MUTANT == 5 ? HALF - 16 : HALF), x + HALF, HALF, landed, policy);  // 5: overlap
  }
  __syncthreads();
  if (MUTANT != 1)  // 1: no wait
    while (!ptx::mbarrier_try_wait_parity(landed, 0)) {}
  y += threadIdx.x * 16;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(bytes + threadIdx.x * 16);
  ptx::st_global_v4_hint(y, {words[0], words[1], words[2], words[3]}, ptx::createpolicy_evict_first());
  if (threadIdx.x % 2 == 0) ptx::st_global_hint(y, ~words[0], ptx::createpolicy_evict_first());
  if (MUTANT == 1)
    while (!ptx::mbarrier_try_wait_parity(landed, 0)) {}
}
IM2WINGEN_EMULATED_ENTRY(bulk_copy)
