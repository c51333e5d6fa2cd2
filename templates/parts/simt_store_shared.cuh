// NCHW by way of shared memory, so that neighbouring threads write neighbours; STORE_N of a thread's filters at once.
constexpr int PASS_N = STORE_N > 0 ? STORE_N : THREAD_N;
static_assert(THREAD_N % PASS_N == 0, "whole passes over a thread's filters");
static_assert(kStore == Store::registers || !kOutputChannelsLast, "rows of y run along q");

constexpr int BANKS = 128 / sizeof(Element);
// Elements that are written, and stored, at once.
constexpr int WRITE_WIDTH = aligned_width(THREAD_Q), STORE_WIDTH = least(aligned_width(Q), aligned_width(TILE_Q));
// Elements from filter to filter: beside whole turns of the banks, so many that the lanes that write at once meet
// different banks.
constexpr int LANES_APART = THREAD_Q / WRITE_WIDTH % 2 == 1 ? least(LANES_M, BANKS / WRITE_WIDTH / PAIR) : 1;
constexpr int FILTERS_APART =
    WRITE_WIDTH * LANES_APART < STORE_WIDTH ? STORE_WIDTH : WRITE_WIDTH * LANES_APART;
constexpr int PIXELS_PITCH = (BLOCK_M + BANKS - 1) / BANKS * BANKS + FILTERS_APART;

// A thread's outputs of one filter and row, in vectors.
__device__ __forceinline__ void write_row(Element* smem, const Element (&acc)[THREAD_M][THREAD_N], int row, int j) {
#pragma unroll
  for (int column = 0; column < THREAD_Q; column += WRITE_WIDTH) {
    Vector<WRITE_WIDTH> outputs;
#pragma unroll
    for (int v = 0; v < WRITE_WIDTH; ++v) outputs.e[v] = acc[row * THREAD_Q + column + v][j];
    *reinterpret_cast<Vector<WRITE_WIDTH>*>(smem + column) = outputs;
  }
}

// The whole CTA together: a warp writes whole rows of the box.
//   smem [filter][pixel]
__device__ __forceinline__ void store_through_shared(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, Element* smem, Element* y) {
  constexpr int WIDTH = STORE_WIDTH, PITCH = PIXELS_PITCH, PIXELS = BLOCK_M / WIDTH;
  constexpr int SLOTS = PASS_N * THREADS_N;
  // A thread's filters of a pass are a constant apart: one address serves them all.
  constexpr int FILTER_LANES = common_divisor(THREADS / 32, THREADS_N);
  constexpr int PIXEL_LANES = THREADS / FILTER_LANES;
#pragma unroll
  for (int first = 0; first < THREAD_N; first += PASS_N) {
    __syncthreads();  // the stages, or the outputs of the pass before, are read
#pragma unroll
    for (int j = 0; j < PASS_N; ++j) {
      if (!has_outputs() || fragment.idle) break;
      const int slot = j * THREADS_N + fragment.k / VECTOR_N;
#pragma unroll
      for (int i = 0; i < THREAD_P; ++i) {
        const int pixel = (fragment.image(i) * TILE_P + fragment.row(i)) * TILE_Q + fragment.q;
        write_row(smem + slot * PITCH + pixel, acc, i, first + j);
      }
    }
    __syncthreads();  // the pass is written
    const int filter_lane = threadIdx.x / PIXEL_LANES, first_k = tile.k + filter_lane * VECTOR_N;
#pragma unroll 1  // straight code would hold every pixel's address at once, beside the accumulators
    for (int i = 0; i < (PIXELS + PIXEL_LANES - 1) / PIXEL_LANES; ++i) {
      const int pixel = (threadIdx.x % PIXEL_LANES + i * PIXEL_LANES) * WIDTH;
      const int n = tile.n + pixel / (TILE_P * TILE_Q), p = tile.p + pixel / TILE_Q % TILE_P;
      const int q = tile.q + pixel % TILE_Q;
      if (pixel >= BLOCK_M || n >= N || p >= P || q >= Q) continue;
      Element* const to = y + output_offset(n, p, q, first_k);
      const Element* const from = smem + filter_lane * PITCH + pixel;
#pragma unroll
      for (int slot = 0; slot < SLOTS; slot += FILTER_LANES) {
        const int j = first + slot / THREADS_N;
        const int k = (j / VECTOR_N * THREADS_N + slot % THREADS_N) * VECTOR_N + j % VECTOR_N;
        if (K % BLOCK_N != 0 && first_k + k >= K) continue;
        *reinterpret_cast<Vector<WIDTH>*>(to + output_offset(0, 0, 0, k)) =
            *reinterpret_cast<const Vector<WIDTH>*>(from + slot * PITCH);
      }
    }
  }
}
