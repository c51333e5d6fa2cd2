// C[M,N] = A[M,K] * B[K,N] in fp32: tiles of 64x64x16 in shared memory, 4x4 outputs a thread. MUTANT breaks it on purpose.
<% include "parts/prelude.cuh" %>
constexpr int TILE = 64, TILE_K = 16, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ float smem_a[TILE_K][TILE];  // (TILE_K, TILE)
  __shared__ float smem_b[TILE_K][TILE];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += TILE_K) {
    for (int i = threadIdx.x; i < TILE_K * TILE; i += THREADS) {
      const int row = i / TILE_K, column = i % TILE_K;
      smem_a[column][row] = m0 + row < m && k0 + column < k ? a[(m0 + row) * k + k0 + column] : 0.0f;
    }
    for (int i = threadIdx.x; i < TILE_K * TILE; i += THREADS) {
      const int row = i / TILE, column = i % TILE;
      const bool inside = n0 + column < n || MUTANT == 3;  // 3: reads past the matrix what nobody uses
      smem_b[row][column] = inside && k0 + row < k ? b[(k0 + row) * n + n0 + column] : 0.0f;
    }
    if (MUTANT != 1) __syncthreads();  // 1: reads before the others have written
#pragma unroll
    for (int kk = 0; kk < TILE_K + (MUTANT == 4); ++kk)  // 4: a row past the tile
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] += smem_a[kk][ty * 4 + i] * smem_b[kk][tx * 4 + j];
    if (MUTANT != 2) __syncthreads();  // 2: overwrites what the others still read
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = m0 + ty * 4 + i, column = n0 + tx * 4 + j;
      if (row < m && column < n) c[row * n + column] = acc[i][j];
    }
}
IM2WINGEN_EMULATED_ENTRY(sgemm)
