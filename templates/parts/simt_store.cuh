// Accumulators to y. A vector of outputs lies along q (NCHW) or along k (NHWC), as wide as the rows' alignment allows.
__device__ constexpr int aligned_width(int extent) { return extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1; }
__device__ constexpr int least(int a, int b) { return a < b ? a : b; }

template <int WIDTH>
struct alignas(4 * WIDTH) Outputs {
  float v[WIDTH];
};

// Bias and activation; tells whether an output is NaN.
__device__ __forceinline__ bool finish(float (&acc)[THREAD_M][THREAD_N], const Fragment& fragment, const Tile& tile,
                                       const float* bias) {
  bool saw_nan = false;
#pragma unroll
  for (int j = 0; j < THREAD_N; ++j) {
    const float b = epilogue_bias(bias, tile.k + fragment.filter_of(j));
#pragma unroll
    for (int m = 0; m < THREAD_M; ++m) {
      acc[m][j] = epilogue(acc[m][j], b);
      if (kHasPadding) saw_nan |= acc[m][j] != acc[m][j];
    }
  }
  return saw_nan;
}

__device__ __forceinline__ void store_from_registers(const float (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, float* y) {
  constexpr int WIDTH_Q = kOutputChannelsLast ? 1 : least(aligned_width(Q), aligned_width(THREAD_Q));
  constexpr int WIDTH_K = kOutputChannelsLast ? least(aligned_width(K), VECTOR_N) : 1;
  constexpr int WIDTH = WIDTH_Q * WIDTH_K;
#pragma unroll
  for (int i = 0; i < THREAD_P; ++i) {
    const int n = tile.n + fragment.image(i), p = tile.p + fragment.row(i), q = tile.q + fragment.q;
    if (n >= N || p >= P) continue;
    float* const row = y + output_offset(n, p, q, tile.k + fragment.k);
#pragma unroll
    for (int j = 0; j < THREAD_N; j += WIDTH_K) {
      const int k = fragment.filter_of(j) - fragment.k;
      if (tile.k + fragment.k + k >= K) continue;
#pragma unroll
      for (int column = 0; column < THREAD_Q; column += WIDTH_Q) {
        if (q + column >= Q) continue;
        Outputs<WIDTH> outputs;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v)
          outputs.v[v] = acc[i * THREAD_Q + column + v % WIDTH_Q][j + v / WIDTH_Q];
        *reinterpret_cast<Outputs<WIDTH>*>(row + output_offset(0, 0, column, k)) = outputs;
      }
    }
  }
}

// NCHW by way of shared memory, so that a warp writes whole rows: STORE_N of each thread's filters at a time.
//   smem [filter][pixel]
__device__ __forceinline__ void store_through_shared(const float (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, float* smem, float* y) {
  constexpr int PITCH = (BLOCK_M + 31) / 32 * 32 + 16;  // neighbouring filters half of the banks apart
  constexpr int WIDTH = least(aligned_width(Q), aligned_width(TILE_Q)), PIXELS = BLOCK_M / WIDTH;
  constexpr int WRITE_WIDTH = aligned_width(THREAD_Q);
  constexpr int PIXEL_LANES = PIXELS % THREADS == 0 ? THREADS : PIXELS % 32 == 0 && THREADS % PIXELS == 0 ? PIXELS : 32;
  constexpr int FILTER_LANES = THREADS / PIXEL_LANES;
  constexpr int PASS_N = STORE_N > 0 ? STORE_N : THREAD_N;
  static_assert(THREAD_N % PASS_N == 0, "whole passes over a thread's filters");
  static_assert(STORE_N == 0 || !kOutputChannelsLast, "rows of y run along q");
#pragma unroll
  for (int first = 0; first < THREAD_N; first += PASS_N) {
    __syncthreads();  // the stages, or the outputs of the pass before, are read
#pragma unroll
    for (int j = 0; j < PASS_N; ++j) {
      const int slot = j * THREADS_N + fragment.k / VECTOR_N;
#pragma unroll
      for (int i = 0; i < THREAD_P; ++i) {
        float* const to = smem + slot * PITCH + (fragment.image(i) * TILE_P + fragment.row(i)) * TILE_Q + fragment.q;
#pragma unroll
        for (int column = 0; column < THREAD_Q; column += WRITE_WIDTH) {
          Outputs<WRITE_WIDTH> outputs;
#pragma unroll
          for (int v = 0; v < WRITE_WIDTH; ++v) outputs.v[v] = acc[i * THREAD_Q + column + v][first + j];
          *reinterpret_cast<Outputs<WRITE_WIDTH>*>(to + column) = outputs;
        }
      }
    }
    __syncthreads();  // the pass is written
#pragma unroll 1  // straight code would hold every pixel's address at once, beside the accumulators
    for (int i = 0; i < (PIXELS + PIXEL_LANES - 1) / PIXEL_LANES; ++i) {
      const int pixel = (threadIdx.x % PIXEL_LANES + i * PIXEL_LANES) * WIDTH;
      const int n = tile.n + pixel / (TILE_P * TILE_Q), p = tile.p + pixel / TILE_Q % TILE_P;
      const int q = tile.q + pixel % TILE_Q;
      if (pixel >= BLOCK_M || n >= N || p >= P || q >= Q) continue;
      float* const to = y + output_offset(n, p, q, 0);
#pragma unroll 4
      for (int slot = threadIdx.x / PIXEL_LANES; slot < PASS_N * THREADS_N; slot += FILTER_LANES) {
        const int j = first + slot / THREADS_N;
        const int k = tile.k + (j / VECTOR_N * THREADS_N + slot % THREADS_N) * VECTOR_N + j % VECTOR_N;
        if (k >= K) continue;
        *reinterpret_cast<Outputs<WIDTH>*>(to + output_offset(0, 0, 0, k)) =
            *reinterpret_cast<const Outputs<WIDTH>*>(smem + slot * PITCH + pixel);
      }
    }
  }
}

// Every output of the box that is NaN, again: padding may have caused it. Called by all threads after a __syncthreads.
__device__ __noinline__ void repair_tile(const Tile& tile, const float* x, const float* w, const float* bias,
                                         float* y) {
  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += THREADS) {
    const int pixel = i / BLOCK_N, k = tile.k + i % BLOCK_N;
    const int n = tile.n + pixel / (TILE_P * TILE_Q), p = tile.p + pixel / TILE_Q % TILE_P;
    const int q = tile.q + pixel % TILE_Q;
    if (n >= N || p >= P || q >= Q || k >= K) continue;
    const float seen = y[output_offset(n, p, q, k)];
    if (seen != seen) repair_output(x, w, bias, y, n, p, q, k);
  }
}
