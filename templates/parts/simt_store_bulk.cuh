// NCHW by bulk copies: the box is laid into shared memory as runs that have no gaps in y either, and the threads go on
// to the next box while the runs leave.
//   smem [filter][run][element]     a run: the box's rows in an image where they are whole rows of y, else one of them
constexpr bool kWholeRows = TILE_Q >= Q;
constexpr int RUNS = TILE_N * (kWholeRows ? 1 : TILE_P);  // of a filter
constexpr int RUN = kWholeRows ? TILE_P * Q : TILE_Q;     // elements, fewer at the edges of y
// A copy begins and ends at 16-byte boundaries. Runs that don't are laid as far from a boundary as they lie in y, and
// what is before the first boundary and behind the last one is stored element by element.
constexpr bool kRunsAligned = P * Q % UNIT == 0 && RUN % UNIT == 0 && (kWholeRows || Q % UNIT == 0);
constexpr int RUN_PITCH = kRunsAligned ? RUN : (RUN + 2 * UNIT - 2) / UNIT * UNIT;
constexpr int BULK_PITCH = outputs_pitch(RUNS * RUN_PITCH);
static_assert(kStore != Store::bulk || BULK_PITCH % UNIT == 0, "runs of 16 bytes");

// Elements from a 16-byte boundary to where the run of filter k that holds row p of image n begins in y.
__device__ __forceinline__ int run_shift(int n, int p, int q, int k) {
  return kRunsAligned ? 0 : ((unsigned(n * K + k) * P + p) * Q + q) % UNIT;
}

__device__ __forceinline__ void write_runs(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                           const Tile& tile, Element* smem) {
  constexpr int WIDTH = !kRunsAligned ? 1 : least(aligned_width(THREAD_Q), kWholeRows ? aligned_width(Q) : UNIT);
  if (!has_outputs() || fragment.idle) return;
#pragma unroll
  for (int i = 0; i < THREAD_P; ++i) {
    const int image = fragment.image(i), row = fragment.row(i);
    const int run = kWholeRows ? image : image * TILE_P + row;
    Element* const to = smem + run * RUN_PITCH + (kWholeRows ? row * Q : 0) + fragment.q;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      const int slot = j * THREADS_N + fragment.k / VECTOR_N;
      Element* const run_to = to + slot * BULK_PITCH + run_shift(tile.n + image, tile.p + (kWholeRows ? 0 : row), tile.q,
                                                                 tile.k + fragment.filter_of(j));
#pragma unroll
      for (int column = 0; column < THREAD_Q; column += WIDTH) {
        if (TILE_Q > Q && fragment.q + column >= Q) continue;
        Vector<WIDTH> outputs;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) outputs.e[v] = acc[i * THREAD_Q + column + v][j];
        *reinterpret_cast<Vector<WIDTH>*>(run_to + column) = outputs;
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
  const int shift = run_shift(n, p, tile.q, k), head = least((UNIT - shift) % UNIT, length);
  const int body = (length - head) / UNIT * UNIT;
  const Element* const from = smem + slot * BULK_PITCH + run * RUN_PITCH + shift;
  Element* const to = y + output_offset(n, p, tile.q, k);
  if (body > 0) ptx::cp_async_bulk_store(to + head, from + head, body * sizeof(Element));
  if (kRunsAligned) return;
#pragma unroll
  for (int i = 0; i < UNIT - 1; ++i) {
    if (i < head) to[i] = from[i];
    if (head + body + i < length) to[head + body + i] = from[head + body + i];
  }
}

// What lay in shared memory has been read by this thread's copies.
__device__ __forceinline__ void store_by_bulk_copies(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, Element* smem, Element* y) {
  constexpr int WARPS = THREADS / 32;
  __syncthreads();  // the stages, the slices' sums, or the outputs of the box before are read
  write_runs(acc, fragment, tile, smem);
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();  // the runs are written
#pragma unroll 1
  for (int i = threadIdx.x % 32 * WARPS + threadIdx.x / 32; i < BLOCK_N * RUNS; i += THREADS)
    copy_run(tile, i / RUNS, i % RUNS, smem, y);
  ptx::cp_async_bulk_commit_group();
}
