// Shared memory to accumulators: one stage.

// Elements from FIRST on in vectors of WIDTH, as many as there are whole ones.
template <int WIDTH, int FIRST, int LENGTH>
__device__ __forceinline__ void read_vectors(Element (&to)[LENGTH], const Element* smem) {
#pragma unroll
  for (int i = FIRST; i + WIDTH <= LENGTH; i += WIDTH) {
    Vector<WIDTH> vector;
    if constexpr (kReads == Reads::free)
      vector = *reinterpret_cast<const Vector<WIDTH>*>(smem + i);
    else
      ptx::ld_volatile_shared(vector.e, smem + i);
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

// A tap's filters of the thread.
struct TapFilters {
  Element e[THREAD_N / VECTOR_N][VECTOR_N];
  __device__ __forceinline__ void read(const Element* smem) {
#pragma unroll
    for (int g = 0; g < THREAD_N / VECTOR_N; ++g) read_elements<VECTOR_N, VECTOR_N>(e[g], smem + g * VECTOR_N * THREADS_N);
  }
};

// One tap: the thread's pixels in ROWS rows from first_row on (their inputs start at `first` of the segments) times its
// filters.
template <int ROWS_AT_ONCE, int LENGTH>
__device__ __forceinline__ void multiply_tap(Element (&acc)[THREAD_M][THREAD_N], int first_row,
                                             const Element (&segment)[ROWS_AT_ONCE][LENGTH], int first,
                                             const TapFilters& filter) {
  constexpr int PIXELS = ROWS_AT_ONCE * THREAD_Q;
  constexpr int OUTER = kFiltersOuter ? THREAD_N : PIXELS, INNER = kFiltersOuter ? PIXELS : THREAD_N;
#pragma unroll
  for (int i = 0; i < OUTER; ++i) {
#pragma unroll
    for (int j = 0; j < INNER; ++j) {
      const int inner = kFragmentOrderZigzag && i % 2 == 1 ? INNER - 1 - j : j;
      const int m = kFiltersOuter ? inner : i, k = kFiltersOuter ? i : inner;
      acc[first_row * THREAD_Q + m][k] +=
          segment[m / THREAD_Q][m % THREAD_Q + first] * filter.e[k / VECTOR_N][k % VECTOR_N];
    }
  }
}

// All taps of a filter row in one channel. A phase's taps take turns, each with the thread's pixels; or (Reads::rows)
// the thread's rows take turns, each with the phase's taps, whose filters stay in registers.
__device__ __forceinline__ void multiply_filter_row(Element (&acc)[THREAD_M][THREAD_N], const Element* smem_patch,
                                                    const Element* smem_filter) {
  constexpr int SPREAD = kPixelColumns ? 0 : (S - 1) * DILATION_W / PHASES;  // of the taps of a phase, in patch columns
  constexpr int ROWS_AT_ONCE = kReads == Reads::rows ? 1 : THREAD_P;
#pragma unroll
  for (int phase = 0; phase < PHASES; ++phase) {
    TapFilters filter[BLOCK_S];
#pragma unroll
    for (int s = 0; s < BLOCK_S; ++s) {
      if (kReads == Reads::rows && s * DILATION_W % PHASES == phase) filter[s].read(smem_filter + s * BLOCK_C * BLOCK_N);
    }
#pragma unroll
    for (int row = 0; row < THREAD_P; row += ROWS_AT_ONCE) {
      Element segment[ROWS_AT_ONCE][THREAD_Q + SPREAD];
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i)
        read_elements<THREAD_Q + SPREAD, THREADS_Q == 1 ? UNIT : THREAD_Q>(
            segment[i], smem_patch + (row + i) * ROW_OF_THREAD_STEP + phase * PHASE_PITCH);
#pragma unroll
      for (int s = 0; s < BLOCK_S; ++s) {
        if (s * DILATION_W % PHASES != phase) continue;
        if (kReads != Reads::rows) filter[s].read(smem_filter + s * BLOCK_C * BLOCK_N);
        multiply_tap(acc, row, segment, s * DILATION_W / PHASES, filter[s]);
      }
    }
  }
}

// smem_patch and smem_filter point at the thread's own first element of the stage. Where filter rows are straight code,
// they are the inner loop: the inputs that they have in common are read once.
__device__ __forceinline__ void multiply(Element (&acc)[THREAD_M][THREAD_N], const Element* smem_patch,
                                         const Element* smem_filter) {
  constexpr bool kRowsInside = UNROLL_R == BLOCK_R;
  constexpr int OUTER = kRowsInside ? SLICE_C : BLOCK_R, UNROLL_OUTER = kRowsInside ? UNROLL_C : UNROLL_R;
  constexpr int INNER = kRowsInside ? BLOCK_R : SLICE_C, UNROLL_INNER = kRowsInside ? UNROLL_R : UNROLL_C;
#pragma unroll UNROLL_OUTER
  for (int i = 0; i < OUTER; ++i) {
#pragma unroll UNROLL_INNER
    for (int j = 0; j < INNER; ++j) {
      const int r = kRowsInside ? j : i, c = kRowsInside ? i : j;
      multiply_filter_row(acc, smem_patch + c * CHANNEL_PITCH + r * TAP_ROW_STEP,
                          smem_filter + (r * BLOCK_S * BLOCK_C + c) * BLOCK_N);
    }
  }
}
