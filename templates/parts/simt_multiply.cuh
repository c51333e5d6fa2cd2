// Shared memory to accumulators: one stage.

// Elements from FIRST on in vectors of WIDTH, as many as there are whole ones.
template <int WIDTH, int FIRST, int LENGTH>
__device__ __forceinline__ void read_vectors(Element (&to)[LENGTH], const Element* smem) {
#pragma unroll
  for (int i = FIRST; i + WIDTH <= LENGTH; i += WIDTH) {
    const Vector<WIDTH> vector = *reinterpret_cast<const Vector<WIDTH>*>(smem + i);
#pragma unroll
    for (int e = 0; e < WIDTH; ++e) to[i + e] = vector.e[e];
  }
}

// LENGTH elements into registers by the widest loads that a start aligned to ALIGNMENT elements allows.
template <int LENGTH, int ALIGNMENT>
__device__ __forceinline__ void read_elements(Element (&to)[LENGTH], const Element* smem) {
  constexpr int WIDTH = aligned_width(ALIGNMENT), WIDE = LENGTH / WIDTH * WIDTH;
  constexpr int REST = WIDE + (WIDTH > 2 ? (LENGTH - WIDE) / 2 * 2 : 0);
  read_vectors<WIDTH, 0>(to, smem);
  if constexpr (REST > WIDE) read_vectors<2, WIDE>(to, smem);
  if constexpr (REST < LENGTH) read_vectors<1, REST>(to, smem);
}

// One tap: all of the thread's pixels (their inputs start at `first` of the segments) times its filters.
template <int LENGTH>
__device__ __forceinline__ void multiply_tap(Element (&acc)[THREAD_M][THREAD_N],
                                             const Element (&segment)[THREAD_P][LENGTH], int first,
                                             const Element* smem_filter) {
  Element filter[THREAD_N / VECTOR_N][VECTOR_N];
#pragma unroll
  for (int g = 0; g < THREAD_N / VECTOR_N; ++g)
    read_elements<VECTOR_N, VECTOR_N>(filter[g], smem_filter + g * VECTOR_N * THREADS_N);
  constexpr int OUTER = kFiltersOuter ? THREAD_N : THREAD_M, INNER = kFiltersOuter ? THREAD_M : THREAD_N;
#pragma unroll
  for (int i = 0; i < OUTER; ++i) {
#pragma unroll
    for (int j = 0; j < INNER; ++j) {
      const int inner = kFragmentOrderZigzag && i % 2 == 1 ? INNER - 1 - j : j;
      const int m = kFiltersOuter ? inner : i, k = kFiltersOuter ? i : inner;
      acc[m][k] += segment[m / THREAD_Q][m % THREAD_Q + first] * filter[k / VECTOR_N][k % VECTOR_N];
    }
  }
}

// smem_patch and smem_filter point at the thread's own first element of the stage.
__device__ __forceinline__ void multiply(Element (&acc)[THREAD_M][THREAD_N], const Element* smem_patch,
                                         const Element* smem_filter) {
  constexpr int SPREAD = kPixelColumns ? 0 : (S - 1) * DILATION_W / PHASES;  // of the taps of a phase, in patch columns
#pragma unroll UNROLL_C
  for (int c = 0; c < SLICE_C; ++c) {
#pragma unroll UNROLL_R
    for (int r = 0; r < BLOCK_R; ++r) {
#pragma unroll
      for (int phase = 0; phase < PHASES; ++phase) {
        Element segment[THREAD_P][THREAD_Q + SPREAD];
#pragma unroll
        for (int i = 0; i < THREAD_P; ++i)
          read_elements<THREAD_Q + SPREAD, THREADS_Q == 1 ? UNIT : THREAD_Q>(
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
