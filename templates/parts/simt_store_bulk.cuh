// NCHW by bulk copies: the box is laid into shared memory as runs that have no gaps in y either, and the threads go on
// to the next box while the runs leave.
//   smem [filter][run][element]     a run: the box's rows in an image where they are whole rows of y, else one of them
constexpr bool kWholeRows = TILE_Q >= Q;
constexpr int RUNS = TILE_N * (kWholeRows ? 1 : TILE_P);  // of a filter
constexpr int RUN = kWholeRows ? TILE_P * Q : TILE_Q;     // elements, fewer at the edges of y
constexpr int BULK_PITCH = outputs_pitch(RUNS * RUN);
static_assert(kStore != Store::bulk || (P * Q % UNIT == 0 && RUN % UNIT == 0 && (kWholeRows || Q % UNIT == 0)),
              "runs begin and end at 16-byte boundaries");

__device__ __forceinline__ void write_runs(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                           Element* smem) {
  constexpr int WIDTH = least(aligned_width(THREAD_Q), aligned_width(Q));
  if (!has_outputs() || fragment.idle) return;
#pragma unroll
  for (int i = 0; i < THREAD_P; ++i) {
    const int pixel = (fragment.image(i) * TILE_P + fragment.row(i)) * (kWholeRows ? Q : TILE_Q) + fragment.q;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      Element* const to = smem + (j * THREADS_N + fragment.k / VECTOR_N) * BULK_PITCH + pixel;
#pragma unroll
      for (int column = 0; column < THREAD_Q; column += WIDTH) {
        if (TILE_Q > Q && fragment.q + column >= Q) continue;
        Vector<WIDTH> outputs;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) outputs.e[v] = acc[i * THREAD_Q + column + v][j];
        *reinterpret_cast<Vector<WIDTH>*>(to + column) = outputs;
      }
    }
  }
}

__device__ __forceinline__ void copy_run(const Tile& tile, int slot, int run, const Element* smem, Element* y) {
  const int j = slot / THREADS_N;
  const int k = tile.k + (j / VECTOR_N * THREADS_N + slot % THREADS_N) * VECTOR_N + j % VECTOR_N;
  const int n = tile.n + (kWholeRows ? run : run / TILE_P), p = tile.p + (kWholeRows ? 0 : run % TILE_P);
  if (n >= N || p >= P || k >= K) return;
  const int length = kWholeRows ? least(TILE_P, P - p) * Q : least(TILE_Q, Q - tile.q);
  ptx::cp_async_bulk_store(y + output_offset(n, p, tile.q, k), smem + slot * BULK_PITCH + run * RUN,
                           length * sizeof(Element));
}

// The thread's earlier copies have read shared memory.
__device__ __forceinline__ void store_by_bulk_copies(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, Element* smem, Element* y) {
  constexpr int WARPS = THREADS / 32;
  __syncthreads();  // the stages, the slices' sums, or the outputs of the box before are read
  write_runs(acc, fragment, smem);
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();  // the runs are written
#pragma unroll 1
  for (int i = threadIdx.x % 32 * WARPS + threadIdx.x / 32; i < BLOCK_N * RUNS; i += THREADS)
    copy_run(tile, i / RUNS, i % RUNS, smem, y);
  ptx::cp_async_bulk_commit_group();
}
