// Accumulators to y. A vector of outputs lies along q (NCHW) or along k (NHWC), as wide as the rows' alignment allows.
// The same number, of which the compiler can't know that it is: blockIdx.y is 0.
__device__ __forceinline__ float copy_of(float v) { return __uint_as_float(__float_as_uint(v) ^ blockIdx.y); }
__device__ __forceinline__ double copy_of(double v) {
  return __longlong_as_double(__double_as_longlong(v) ^ blockIdx.y);
}

// Does nothing, which the compiler can't know either. For the sake of these vectors it gives the accumulators of
// neighbouring pixels neighbouring registers: the banks (even and odd registers) alternate while multiply-adds go from
// pixel to pixel. Shifted by one, an accumulator and the input under tap 0 lie in different banks.
__device__ __forceinline__ void place_accumulators(const Element (&acc)[THREAD_M][THREAD_N], Element* smem) {
  constexpr int SHIFT = kAccumulators == Accumulators::shifted ? 1 : 0, WHOLE = THREAD_M / UNIT * UNIT;
  if (blockIdx.y == 0) return;
#pragma unroll
  for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
    for (int m = 0; m < WHOLE; m += UNIT) {
      Unit unit;
#pragma unroll
      for (int e = 0; e < UNIT; ++e) unit.e[e] = acc[(m + e + SHIFT) % WHOLE][j];
      reinterpret_cast<Unit*>(smem)[threadIdx.x + j * THREAD_M + m] = unit;
    }
  }
}

// Whether the thread has outputs: those of the first slice have.
__device__ __forceinline__ bool has_outputs() { return SLICES == 1 || threadIdx.x < SLICE_THREADS; }

// The first slice adds the others' accumulators to its own.
//   smem [slice - 1][accumulator][thread]
__device__ __forceinline__ void sum_slices(Element (&acc)[THREAD_M][THREAD_N], Element* smem) {
  const int slice = threadIdx.x / SLICE_THREADS;
  Element* const mine = smem + threadIdx.x % SLICE_THREADS;
  __syncthreads();  // the stages are read
#pragma unroll
  for (int other = 1; other < SLICES; ++other) {
#pragma unroll
    for (int i = 0; i < THREAD_M * THREAD_N; ++i) {
      if (slice == other)
        mine[((other - 1) * THREAD_M * THREAD_N + i) * SLICE_THREADS] = acc[i / THREAD_N][i % THREAD_N];
    }
  }
  __syncthreads();  // the sums of the other slices are written
  if (slice > 0) return;
#pragma unroll
  for (int other = 1; other < SLICES; ++other) {
#pragma unroll
    for (int i = 0; i < THREAD_M * THREAD_N; ++i)
      acc[i / THREAD_N][i % THREAD_N] += mine[((other - 1) * THREAD_M * THREAD_N + i) * SLICE_THREADS];
  }
}

// Bias and activation; tells whether an output is NaN.
__device__ __forceinline__ bool finish(Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment, const Tile& tile,
                                       const Element* bias) {
  bool saw_nan = false;
  if (!has_outputs()) return saw_nan;
#pragma unroll
  for (int j = 0; j < THREAD_N; ++j) {
    const Element b = epilogue_bias(bias, tile.k + fragment.filter_of(j));
#pragma unroll
    for (int m = 0; m < THREAD_M; ++m) {
      acc[m][j] = epilogue(kAccumulators == Accumulators::copied ? copy_of(acc[m][j]) : acc[m][j], b);
      if (kHasPadding) saw_nan |= acc[m][j] != acc[m][j];
    }
  }
  return saw_nan;
}

__device__ __forceinline__ void store_from_registers(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, Element* y) {
  constexpr int WIDTH_Q = kOutputChannelsLast ? 1 : least(aligned_width(Q), aligned_width(THREAD_Q));
  constexpr int WIDTH_K = kOutputChannelsLast ? least(aligned_width(K), VECTOR_N) : 1;
  constexpr int WIDTH = WIDTH_Q * WIDTH_K;
  if (!has_outputs() || fragment.idle) return;
#pragma unroll
  for (int i = 0; i < THREAD_P; ++i) {
    const int n = tile.n + fragment.image(i), p = tile.p + fragment.row(i), q = tile.q + fragment.q;
    if (n >= N || p >= P) continue;
    Element* const row = y + output_offset(n, p, q, tile.k + fragment.k);
#pragma unroll
    for (int j = 0; j < THREAD_N; j += WIDTH_K) {
      const int k = fragment.filter_of(j) - fragment.k;
      if (tile.k + fragment.k + k >= K) continue;
#pragma unroll
      for (int column = 0; column < THREAD_Q; column += WIDTH_Q) {
        if (q + column >= Q) continue;
        Vector<WIDTH> outputs;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v)
          outputs.e[v] = acc[i * THREAD_Q + column + v % WIDTH_Q][j + v / WIDTH_Q];
        *reinterpret_cast<Vector<WIDTH>*>(row + output_offset(0, 0, column, k)) = outputs;
      }
    }
  }
}

// Every output of the box that is NaN, again: padding may have caused it. Called by all threads after a __syncthreads.
__device__ __noinline__ void repair_tile(const Tile& tile, const Element* x, const Element* w, const Element* bias,
                                         Element* y) {
  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += THREADS) {
    const int pixel = i / BLOCK_N, k = tile.k + i % BLOCK_N;
    const int n = tile.n + pixel / (TILE_P * TILE_Q), p = tile.p + pixel / TILE_Q % TILE_P;
    const int q = tile.q + pixel % TILE_Q;
    if (n >= N || p >= P || q >= Q || k >= K) continue;
    const Element seen = y[output_offset(n, p, q, k)];
    if (seen != seen) repair_output(x, w, bias, y, n, p, q, k);
  }
}
