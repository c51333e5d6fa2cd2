// Y[n,m] (fp16) = sum over k of A[m,k] * B[n,k], fp16 in, tiles of 128 m by WGMMA_N n; each CTA takes the tiles of its
// column one after the other. Warpgroup 0 loads by TMA into a ring of stages, 1 and 2 multiply 64 m each, transpose their
// results in shared memory and store them by TMA. MUTANT breaks it on purpose.
//
//   full[s]   1 arrival and the bytes of A and B   stage s is loaded       the multiplying warpgroups wait
//   empty[s]  8 arrivals, one a warp               stage s has been read   the loading thread waits
//   named barrier 1 + w, 128 threads               of multiplying warpgroup w alone
<% include "parts/prelude.cuh" %>
<% include "ptx/mbarrier.cuh" %>
<% include "ptx/named_barrier.cuh" %>
<% include "ptx/setmaxnreg.cuh" %>
<% include "ptx/stmatrix.cuh" %>
<% include "ptx/tma.cuh" %>
<% include "ptx/wgmma_sync.cuh" %>
<% include "ptx/wgmma.cuh" %>
constexpr int kNumStages = 3, ROW_BYTES = 128, K_STEP = ROW_BYTES / 2, TILE_M = 128;
constexpr int A_BYTES = TILE_M * ROW_BYTES, B_BYTES = WGMMA_N * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
static_assert(B_BYTES % 1024 == 0, "the pattern of the swizzle begins anew in every tile");

struct Maps {
  ptx::TensorMap a, b, y;
};
struct Ring {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++stage == kNumStages) stage = 0, phase ^= 1;
  }
};

__device__ uint64_t descriptor(const unsigned char* smem) {
  const uint64_t address = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  return uint64_t(1) << 62 | uint64_t(8 * ROW_BYTES / 16) << 32 | uint64_t(1) << 16 | address / 16;
}

__device__ uint32_t packed(float low, float high) {
  return uint32_t(__half_as_ushort(__float2half_rn(low))) | uint32_t(__half_as_ushort(__float2half_rn(high))) << 16;
}

// acc of one warp to (WGMMA_N, 64 m) in 128-byte rows with swizzle.
__device__ void stage_result(unsigned char* smem, const float (&acc)[WGMMA_N / 2], int warp, int lane) {
#pragma unroll
  for (int group = 0; group < WGMMA_N / 8; group += 2) {
    const int row = (group + lane / 16) * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
    const int i = group * 4;
    unsigned char* place = smem + row * ROW_BYTES + (chunk ^ row % 8) * 16;
    if (group + 1 < WGMMA_N / 8) {
      const uint32_t r[4] = {packed(acc[i], acc[i + 1]), packed(acc[i + 2], acc[i + 3]), packed(acc[i + 4], acc[i + 5]),
                             packed(acc[i + 6], acc[i + 7])};
      ptx::stmatrix_x4_trans(place, r);
    } else {
      const uint32_t r[2] = {packed(acc[i], acc[i + 1]), packed(acc[i + 2], acc[i + 3])};
      ptx::stmatrix_x2_trans(lane < 16 ? place : smem, r);
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    wgmma_gemm(const __grid_constant__ Maps maps, int tiles_n, int steps) {
  IM2WINGEN_DYNAMIC_SMEM(smem);  // kNumStages * STAGE_BYTES, 2 * B_BYTES for the results, the barriers
  unsigned char* results = smem + kNumStages * STAGE_BYTES;
  uint64_t *full = reinterpret_cast<uint64_t*>(results + 2 * B_BYTES), *empty = full + kNumStages;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kNumStages; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], 8);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int m0 = blockIdx.x * TILE_M;
  Ring ring;
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x != 0) return;
    for (int tile = 0; tile < tiles_n; ++tile)
      for (int step = 0; step < steps; ++step, ring.advance()) {
        unsigned char* stage = smem + ring.stage * STAGE_BYTES;
        if (MUTANT != 1)  // 1: loads into a stage that may still be read
          while (!ptx::mbarrier_try_wait_parity(&empty[ring.stage], ring.phase ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(&full[ring.stage], MUTANT == 2 ? A_BYTES : STAGE_BYTES);  // 2: B is forgotten
        ptx::cp_async_bulk_tensor_3d_load(stage, &maps.a, &full[ring.stage], step * K_STEP, m0, 0);
        ptx::cp_async_bulk_tensor_3d_load(stage + A_BYTES, &maps.b, &full[ring.stage], step * K_STEP, tile * WGMMA_N, 0);
      }
    return;
  }
  ptx::setmaxnreg_inc<240>();
  const int half = warpgroup - 1;
  unsigned char* result = results + half * B_BYTES;
  for (int tile = 0; tile < tiles_n; ++tile) {
    float acc[WGMMA_N / 2];
    for (int step = 0; step < steps; ++step, ring.advance()) {
      const unsigned char* stage = smem + ring.stage * STAGE_BYTES;
      while (!ptx::mbarrier_try_wait_parity(&full[ring.stage], ring.phase ^ (MUTANT == 3))) {}  // 3: the wrong parity
      if (MUTANT != 4) ptx::wgmma_fence();                                                      // 4: no fence
      const uint64_t a = descriptor(stage + (half * 64 + (MUTANT == 5)) * ROW_BYTES);  // 5: a row too far
      const uint64_t b = descriptor(stage + A_BYTES);
#pragma unroll
      for (int i = 0; i < ROW_BYTES / 32; ++i) ptx::wgmma_m64k16_f32_f16(acc, a + i * 2, b + i * 2, step + i > 0);
      ptx::wgmma_commit_group();
      if (MUTANT == 6 && lane == 0) ptx::mbarrier_arrive(&empty[ring.stage]);  // 6: before it has been read
      ptx::wgmma_wait_group<MUTANT == 7>();                                    // 7: does not wait for this group
      if (MUTANT != 6 && lane == 0) ptx::mbarrier_arrive(&empty[ring.stage]);
    }
    ptx::wgmma_fence_operand(acc);
    if (MUTANT != 8 && warp == 0 && lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // 8: overwrites what is stored
    ptx::barrier_sync(1 + half, 128);
    stage_result(result, acc, warp, lane);
    if (MUTANT != 9) ptx::fence_proxy_async_shared_cta();    // 9: TMA does not see the results
    if (MUTANT != 10) ptx::barrier_sync(1 + half, 128);      // 10: other warps have not written theirs
    if (warp == 0 && lane == 0) {
      ptx::cp_async_bulk_tensor_3d_store(&maps.y, result, m0 + half * 64, tile * WGMMA_N, 0);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (MUTANT == 7) ptx::wgmma_wait_group<0>();
  if (warp == 0 && lane == 0) ptx::cp_async_bulk_wait_group_read<0>();
}
IM2WINGEN_EMULATED_ENTRY(wgmma_gemm)
