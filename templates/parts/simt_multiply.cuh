// Shared memory to accumulators: one stage.

// LENGTH floats into registers by the widest loads that a start aligned to ALIGNMENT floats allows.
template <int LENGTH, int ALIGNMENT>
__device__ __forceinline__ void read_floats(float (&to)[LENGTH], const float* smem) {
  constexpr int QUADS = ALIGNMENT % 4 == 0 ? LENGTH / 4 : 0;
  constexpr int PAIRS = ALIGNMENT % 2 == 0 ? (LENGTH - 4 * QUADS) / 2 : 0;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const float4 v = reinterpret_cast<const float4*>(smem)[i];
    to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
  }
#pragma unroll
  for (int i = 2 * QUADS; i < 2 * QUADS + PAIRS; ++i) {
    const float2 v = reinterpret_cast<const float2*>(smem)[i];
    to[2 * i] = v.x, to[2 * i + 1] = v.y;
  }
#pragma unroll
  for (int i = 4 * QUADS + 2 * PAIRS; i < LENGTH; ++i) to[i] = smem[i];
}

// One tap: all of the thread's pixels (their inputs start at `first` of the segments) times its filters.
template <int LENGTH>
__device__ __forceinline__ void multiply_tap(float (&acc)[THREAD_M][THREAD_N], const float (&segment)[THREAD_P][LENGTH],
                                             int first, const float* smem_filter) {
  float filter[THREAD_N / VECTOR_N][VECTOR_N];
#pragma unroll
  for (int g = 0; g < THREAD_N / VECTOR_N; ++g)
    read_floats<VECTOR_N, VECTOR_N>(filter[g], smem_filter + g * VECTOR_N * THREADS_N);
#pragma unroll
  for (int m = 0; m < THREAD_M; ++m) {
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      const int k = kFragmentOrderZigzag && m % 2 == 1 ? THREAD_N - 1 - j : j;
      acc[m][k] += segment[m / THREAD_Q][m % THREAD_Q + first] * filter[k / VECTOR_N][k % VECTOR_N];
    }
  }
}

// smem_patch and smem_filter point at the thread's own first element of the stage.
__device__ __forceinline__ void multiply(float (&acc)[THREAD_M][THREAD_N], const float* smem_patch,
                                         const float* smem_filter) {
  constexpr int SPREAD = kPixelColumns ? 0 : (S - 1) * DILATION_W / PHASES;  // of the taps of a phase, in patch columns
#pragma unroll UNROLL_C
  for (int c = 0; c < BLOCK_C; ++c) {
#pragma unroll UNROLL_R
    for (int r = 0; r < BLOCK_R; ++r) {
#pragma unroll
      for (int phase = 0; phase < PHASES; ++phase) {
        float segment[THREAD_P][THREAD_Q + SPREAD];
#pragma unroll
        for (int i = 0; i < THREAD_P; ++i)
          read_floats<THREAD_Q + SPREAD, THREADS_Q == 1 ? 4 : THREAD_Q>(
              segment[i], smem_patch + r * TAP_ROW_STEP + i * ROW_OF_THREAD_STEP + phase * PHASE_PITCH);
#pragma unroll
        for (int s = 0; s < BLOCK_S; ++s) {
          if (s * DILATION_W % PHASES != phase) continue;
          multiply_tap(acc, segment, s * DILATION_W / PHASES, smem_filter + (r * BLOCK_S + s) * BLOCK_C * BLOCK_N);
        }
      }
    }
    smem_patch += CHANNEL_PITCH;
    smem_filter += BLOCK_N;
  }
}
