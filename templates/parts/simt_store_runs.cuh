// NCHW in whole sectors (32 bytes, what L2 and DRAM take at once): the outputs of a box lie in shared memory as runs that
// have no gaps in y either, and each run begins as far beyond a boundary of 32 bytes as it does in y. What is aligned
// here is aligned there too.
//   smem [filter][run][shift, elements, rest]   a run: the box's rows in an image where they are whole rows of y, else
//                                               one of them
constexpr int SECTOR = 32 / sizeof(Element);              // elements
constexpr bool kWholeRows = TILE_Q >= Q;
constexpr int RUNS = TILE_N * (kWholeRows ? 1 : TILE_P);  // of a filter
constexpr int RUN_ROW = kWholeRows ? Q : TILE_Q;          // elements of a run from one row of the box to the next
constexpr int RUN = kWholeRows ? TILE_P * Q : TILE_Q;     // elements, fewer at the edges of y
// Runs begin, and end, in y at multiples of so many elements.
constexpr int RUN_ALIGNMENT =
    common_divisor(SECTOR, common_divisor(P * Q, kWholeRows ? TILE_P * Q : common_divisor(Q, TILE_Q)));
constexpr int RUN_PITCH = (RUN + SECTOR - RUN_ALIGNMENT + UNIT - 1) / UNIT * UNIT;
constexpr int RUN_VECTOR = aligned_width(common_divisor(RUN_ALIGNMENT, common_divisor(RUN_ROW, THREAD_Q)));
// Neighbouring filters, which neighbouring threads write, lie apart by half of the banks, or by a few.
constexpr int RUNS_APART = RUN_VECTOR == UNIT ? BANKS / 2 : 4 * RUN_VECTOR;
constexpr int RUNS_PITCH = (RUNS * RUN_PITCH + BANKS - 1) / BANKS * BANKS + RUNS_APART;

// A run in y and in shared memory. What has no outputs in y has a length of 0.
struct Run {
  int n, p, k;
  int length;  // elements
  int shift;   // elements, from a boundary of 32 bytes to the run
  int slot, index;
  __device__ __forceinline__ Run(const Tile& tile, int first, int slot, int index) : slot(slot), index(index) {
    const int j = first + slot / THREADS_N;
    k = tile.k + (j / VECTOR_N * THREADS_N + slot % THREADS_N) * VECTOR_N + j % VECTOR_N;
    n = tile.n + (kWholeRows ? index : index / TILE_P);
    p = tile.p + (kWholeRows ? 0 : index % TILE_P);
    const bool inside = n < N && p < P && k < K;
    length = !inside ? 0 : kWholeRows ? least(TILE_P, P - p) * Q : least(TILE_Q, Q - tile.q);
    shift = run_shift(n, p, tile.q, k);
  }
  __device__ static __forceinline__ int run_shift(int n, int p, int q, int k) {
    return RUN_ALIGNMENT == SECTOR ? 0 : ((unsigned(n) * K + k) * (P * Q) + p * Q + q) % SECTOR;
  }
  __device__ __forceinline__ int end() const { return shift + length; }
  // The boundary of 32 bytes at or before its first element.
  __device__ __forceinline__ Element* in_y(Element* y, int q) const { return y + output_offset(n, p, q, k) - shift; }
  __device__ __forceinline__ const Element* in(const Element* smem) const {
    return smem + slot * RUNS_PITCH + index * RUN_PITCH;
  }
};

// COUNT of the thread's filters from `first` on.
template <int COUNT>
__device__ __forceinline__ void write_runs(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                           const Tile& tile, int first, Element* smem) {
  if (!has_outputs() || fragment.idle) return;
#pragma unroll
  for (int i = 0; i < THREAD_P; ++i) {
    const int image = fragment.image(i), row = fragment.row(i);
    const int run = kWholeRows ? image : image * TILE_P + row, p = kWholeRows ? 0 : row;
    Element* const runs = smem + run * RUN_PITCH + (kWholeRows ? row * RUN_ROW : 0) + fragment.q;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
      const int k = tile.k + fragment.filter_of(first + j);
      Element* const to = runs + (j * THREADS_N + fragment.k / VECTOR_N) * RUNS_PITCH +
                          Run::run_shift(tile.n + image, tile.p + p, tile.q, k);
#pragma unroll
      for (int column = 0; column < THREAD_Q; column += RUN_VECTOR) {
        if (TILE_Q - THREAD_Q + column >= Q && fragment.q + column >= Q) continue;
        Vector<RUN_VECTOR> outputs;
#pragma unroll
        for (int v = 0; v < RUN_VECTOR; ++v) outputs.e[v] = acc[i * THREAD_Q + column + v][first + j];
        *reinterpret_cast<Vector<RUN_VECTOR>*>(to + column) = outputs;
      }
    }
  }
}

// Lanes of a run, 16 bytes each: those that leave the fewest idle.
__device__ constexpr int run_lanes() {
  constexpr int VECTORS = RUN_PITCH / UNIT;
  int best = 32;
  for (int lanes = 16; lanes >= 8; lanes /= 2)
    if ((VECTORS + lanes - 1) / lanes * lanes < (VECTORS + best - 1) / best * best) best = lanes;
  return best;
}

// The thread stores one of 2 * WHOLE elements, WIDTH at once, that a run may have before its first and after its last
// boundary of WHOLE elements.
template <int WHOLE, int WIDTH>
__device__ __forceinline__ void store_end(const Run& run, int lane, int q, const Element* smem, Element* y) {
  const int begin = (run.shift + WHOLE - 1) / WHOLE * WHOLE, end = run.end() / WHOLE * WHOLE;
  const bool first = lane < WHOLE / WIDTH;
  const int at = lane * WIDTH + (first ? run.shift / WHOLE * WHOLE : (begin < end ? end : begin) - WHOLE);
  if (at < run.shift || at >= run.end() || (first && at >= begin)) return;
  *reinterpret_cast<Vector<WIDTH>*>(run.in_y(y, q) + at) = *reinterpret_cast<const Vector<WIDTH>*>(run.in(smem) + at);
}

// The CTA's threads store the runs, PASS_N of a thread's filters at once: what is whole 16 bytes, then their ends.
__device__ __forceinline__ void store_sectors(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                              const Tile& tile, Element* smem, Element* y) {
  constexpr int LANES = run_lanes(), END_LANES = 2 * UNIT, ITEMS = PASS_N * THREADS_N * RUNS;
#pragma unroll
  for (int first = 0; first < THREAD_N; first += PASS_N) {
    __syncthreads();  // the stages, the slices' sums, or the runs of the pass before are read
    write_runs<PASS_N>(acc, fragment, tile, first, smem);
    __syncthreads();  // the runs are written
#pragma unroll 2
    for (int i = threadIdx.x / LANES; i < ITEMS; i += THREADS / LANES) {
      const Run run(tile, first, i / RUNS, i % RUNS);
      Element* const to = run.in_y(y, tile.q);
      const Element* const from = run.in(smem);
#pragma unroll
      for (int step = 0; step < RUN_PITCH; step += LANES * UNIT) {
        const int at = step + threadIdx.x % LANES * UNIT;
        if (RUN_ALIGNMENT % UNIT == 0 ? at + UNIT <= run.shift || at >= run.end()
                                      : at < run.shift || at + UNIT > run.end())
          continue;
        *reinterpret_cast<Unit*>(to + at) = *reinterpret_cast<const Unit*>(from + at);
      }
    }
    if constexpr (RUN_ALIGNMENT % UNIT != 0) {
#pragma unroll 1
      for (int i = threadIdx.x / END_LANES; i < ITEMS; i += THREADS / END_LANES)
        store_end<UNIT, 1>(Run(tile, first, i / RUNS, i % RUNS), threadIdx.x % END_LANES, tile.q, smem, y);
    }
  }
}
