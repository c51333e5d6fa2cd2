// D[64,WGMMA_N] (SUM) = A[64,k] * B[WGMMA_N,k]^T + C by one warpgroup and one group of wgmma. Threads lay the operands
// out as their descriptors say: row r, byte b of k at START + r / 8 * SBO + r % 8 * PITCH + b / 16 * STEP + b % 16, with
// SWIZZLE bytes of swizzle on the address. A row has K_BYTES of k. With HELD, A comes from registers. MUTANT breaks it on purpose.
<% include "parts/prelude.cuh" %>
<% include "ptx/tma.cuh" %>
<% include "ptx/wgmma_sync.cuh" %>
<% include "ptx/wgmma.cuh" %>
<% include "ptx/wgmma_held.cuh" %>
constexpr int PITCH = SWIZZLE ? SWIZZLE : 16, STEP = SWIZZLE ? 16 : LBO;

__device__ uint32_t place(uint32_t start, int row, int byte) {
  const uint32_t address = start + row / 8 * SBO + row % 8 * PITCH + byte / 16 * STEP;
  constexpr uint32_t kMask = SWIZZLE ? SWIZZLE / 16 - 1 : 0;
  return (address ^ ((address >> 7 & kMask) << 4)) + byte % 16;
}
__device__ uint64_t descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
  return kSwizzle << 62 | uint64_t(SBO / 16) << 32 | uint64_t(LBO / 16) << 16 | address / 16;
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma_tile(const unsigned char* a, const unsigned char* b, SUM* d) {
  IM2WINGEN_DYNAMIC_SMEM(smem);
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const uint32_t start_a = base + START_A, start_b = base + START_B;
  for (int i = threadIdx.x; i < 64 * K_BYTES; i += 128) smem[place(start_a, i / K_BYTES, i % K_BYTES) - base] = a[i];
  for (int i = threadIdx.x; i < WGMMA_N * K_BYTES; i += 128) smem[place(start_b, i / K_BYTES, i % K_BYTES) - base] = b[i];
  if (MUTANT != 1) ptx::fence_proxy_async_shared_cta();  // 1: wgmma does not see what the threads wrote
  __syncthreads();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  SUM acc[WGMMA_N / 2];
  for (int i = 0; i < WGMMA_N / 2; ++i) acc[i] = d[(row + i / 2 % 2 * 8) * WGMMA_N + i / 4 * 8 + column + i % 2];
  if (MUTANT != 2) ptx::wgmma_fence();  // 2: the accumulators are not handed over
#pragma unroll
  for (int byte = 0; byte < K_BYTES; byte += 32) {
    const uint32_t step = byte / 16 * STEP, shifted = MUTANT == 3 ? PITCH : 0;  // 3: a row too far
#if HELD
    uint32_t held[4];
    for (int i = 0; i < 4; ++i) memcpy(held + i, a + (row + i % 2 * 8) * K_BYTES + byte + i / 2 * 16 + column * 2, 4);
    ptx::WGMMA(acc, held, descriptor(start_b + step + shifted), ACCUMULATE || byte > 0);
#else
    ptx::WGMMA(acc, descriptor(start_a + step), descriptor(start_b + step + shifted), ACCUMULATE || byte > 0);
#endif
    if (MUTANT == 4 && byte == 0) acc[1] = 0;  // 4: written under way
  }
  ptx::wgmma_commit_group();
  if (MUTANT == 5 && threadIdx.x == 0) smem[START_B] ^= 1;  // 5: the operand is changed under way
  if (MUTANT != 6) ptx::wgmma_wait_group<MUTANT == 7>();    // 6, 7: not waited for
  for (int i = 0; i < WGMMA_N / 2; ++i) d[(row + i / 2 % 2 * 8) * WGMMA_N + i / 4 * 8 + column + i % 2] = acc[i];
  if (MUTANT == 7) ptx::wgmma_wait_group<0>();
}
IM2WINGEN_EMULATED_ENTRY(wgmma_tile)
