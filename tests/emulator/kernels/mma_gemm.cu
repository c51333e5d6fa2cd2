// C[M,N] (fp32) = A[M,K] * B[N,K]^T on tensor cores: cp.async into a ring of stages, ldmatrix, mma.sync. ELEMENT is the
// storage type, MMA the instruction; a row of a stage is 64 bytes of k and 16 of padding. MUTANT breaks it on purpose.
<% include "parts/prelude.cuh" %>
<% include "ptx/cp_async.cuh" %>
<% include "ptx/cvt.cuh" %>
<% include "ptx/ldmatrix.cuh" %>
<% include "ptx/mma.cuh" %>
constexpr int TILE_M = 64, TILE_N = 64, WARP_M = 32, WARP_N = 32, STAGES = 3, THREADS = 128;
constexpr int ROW_BYTES = 64, PITCH = 80, STEP_BYTES = 32;  // a step is the depth of one mma
constexpr int TILE_K = ROW_BYTES / sizeof(ELEMENT);
constexpr int STAGE_BYTES = (TILE_M + TILE_N) * PITCH;

__device__ __forceinline__ void load_tile(unsigned char* smem, const ELEMENT* gmem, int k, int shift) {
  for (int i = threadIdx.x; i < TILE_M * (ROW_BYTES / 16); i += THREADS) {
    const int row = i / (ROW_BYTES / 16), unit = i % (ROW_BYTES / 16);
    ptx::cp_async_cg_16(smem + (row + shift) * PITCH + unit * 16, reinterpret_cast<const uint4*>(gmem + row * k) + unit, true);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_gemm(const ELEMENT* __restrict__ a, const ELEMENT* __restrict__ b, float* __restrict__ c, int n, int k) {
  IM2WINGEN_DYNAMIC_SMEM(smem);  // STAGES * STAGE_BYTES: A's tile, then B's
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / 2 * WARP_M, warp_n = warp % 2 * WARP_N, m0 = blockIdx.y * TILE_M, n0 = blockIdx.x * TILE_N;
  const int tiles = k / TILE_K;
  const auto load = [&](int stage, int tile) {
    unsigned char* base = smem + stage * STAGE_BYTES;
    const int past = MUTANT == 5;  // 5: one row past the matrix
    load_tile(base, a + m0 * k + tile * TILE_K, k, 0);
    load_tile(base + TILE_M * PITCH, b + (n0 + past) * k + tile * TILE_K, k, MUTANT == 4);  // 4: one row past the tile
  };
  float acc[WARP_M / 16][WARP_N / 8][4] = {};
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) load(s, s);
    ptx::cp_async_commit_group();
  }
  for (int t = 0; t < tiles; ++t) {
    ptx::cp_async_wait_group<MUTANT == 1 ? STAGES - 1 : STAGES - 2>();  // 1: too lax
    if (MUTANT != 2) __syncthreads();                                   // 2: the others' copies are not waited for
    const int next = t + STAGES - 1;
    if (next < tiles) load((MUTANT == 3 ? t : next) % STAGES, next);  // 3: into the stage that is read below
    ptx::cp_async_commit_group();
    const unsigned char* smem_a = smem + t % STAGES * STAGE_BYTES + (warp_m + lane % 16) * PITCH + lane / 16 * 16;
    const unsigned char* smem_b = smem_a + (TILE_M + warp_n - warp_m) * PITCH;
#pragma unroll
    for (int step = 0; step < ROW_BYTES; step += STEP_BYTES) {
      uint32_t fa[WARP_M / 16][4], fb[WARP_N / 16][4];
      for (int i = 0; i < WARP_M / 16; ++i) ptx::ldmatrix_x4(fa[i], smem_a + i * 16 * PITCH + step);
      for (int j = 0; j < WARP_N / 16; ++j) ptx::ldmatrix_x4(fb[j], smem_b + j * 16 * PITCH + step);
      for (int i = 0; i < WARP_M / 16; ++i)
        for (int j = 0; j < WARP_N / 8; ++j) {
          const uint32_t pair[2] = {fb[j / 2][j % 2], fb[j / 2][j % 2 + 2]};
          ptx::MMA(acc[i][j], fa[i], pair);
        }
    }
  }
  ptx::cp_async_wait_group<0>();
  for (int i = 0; i < WARP_M / 16; ++i)
    for (int j = 0; j < WARP_N / 8; ++j) {
      float* row = c + (m0 + warp_m + i * 16 + lane / 4) * n + n0 + warp_n + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(row) = make_float2(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<float2*>(row + 8 * n) = make_float2(acc[i][j][2], acc[i][j][3]);
    }
}
IM2WINGEN_EMULATED_ENTRY(mma_gemm)
