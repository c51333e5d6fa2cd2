// ---- products of halves ----
// Partial sums, each of products with one block, are added up in fp32, times what the block's scale took away. Without low
// parts one is a whole block's. With them, as the tensor core truncates as it adds up, high * high has partial sums of
// PARTIAL_STEPS steps at most. The other products count 2^-11 as much, and so do their errors: a partial sum of them is a
// whole block's. Short windows are added up step by step then, small sums first: strict fp32 is as exact there.
constexpr bool kStepByStep = PARTS == 2 && kShortWindow;
constexpr int PARTIAL_STEPS = PARTS == 1 ? STEPS : kStepByStep ? 1 : 9;
constexpr bool kOneSet = THREADS > 512;  // of accumulators of partial sums: so many threads have few registers
struct Partial {
  bool high;
  int block, begin, end;  // block of the window, steps
};
struct Partials {
  int count;
  Partial at[WINDOW_BLOCKS + STEPS];
};
__device__ constexpr Partials partial_sums() {
  constexpr Chunks chunks = window_chunks();
  Partials partials = {};
  for (int pass = 0; pass < (kStepByStep ? 2 : 1); ++pass)
    for (int begin = 0; begin < STEPS;) {
      const int block = chunks.at[2 * begin].block;
      int end = begin;
      while (end < STEPS && chunks.at[2 * end].block == block) ++end;
      const int steps = end - begin, pieces = ceil_div(steps, PARTIAL_STEPS);
      if (PARTS == 2 && pass == 0) partials.at[partials.count++] = {false, block, begin, end};
      for (int i = 0; i < pieces && (pass == 1 || !kStepByStep); ++i)
        partials.at[partials.count++] = {true, block, begin + steps * i / pieces, begin + steps * (i + 1) / pieces};
      begin = end;
    }
  return partials;
}

// The scales of the blocks of the windows of a thread's two slots of a tile.
struct SlotScales {
  const Scale* of[2][WINDOW_BLOCKS];

  // `block` is the item's first one, in the CTA's count.
  __device__ __forceinline__ SlotScales(const Scale* scales, int block, const Item& item, int tile) {
    const int first_row = item.first_slot / ROW_SLOTS;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int slot = item.first_slot + tile * 64 + item.warp * 16 + half * 8 + item.lane / 4;
      const int row = kRowItems ? first_row : min(slot / ROW_SLOTS, item.segment.rows - 1);
#pragma unroll
      for (int i = 0; i < WINDOW_BLOCKS; ++i)
        of[half][i] = kRowItems ? scales + (block + i * BLOCK_STEP) % kRingBlocks
                                : scales + block % kRingBlocks + (row - first_row) + i * BLOCK_STEP;
    }
  }
};

// The products of a partial sum; `slots` as below. A commit group.
template <int PARTIAL>
__device__ __forceinline__ void multiply_partial(float (&acc)[WGMMA_N / 2], const Windows& windows, int slots,
                                                 uint32_t filters) {
  constexpr Chunks chunks = window_chunks();
  constexpr Partials partials = partial_sums();
  constexpr Partial partial = partials.at[PARTIAL];
  ptx::wgmma_fence();
#pragma unroll
  for (int step = partial.begin; step < partial.end; ++step) {
    const uint32_t x = windows.chunks_at(chunks.at[2 * step], chunks.at[2 * step + 1], slots);
    const uint32_t w = (filters | uint32_t(WGMMA_N) << 16) + step * 2 * WGMMA_N;
    if constexpr (partial.high) {
      multiply(acc, descriptor(x), descriptor(w), step > partial.begin);
    } else {
      multiply(acc, descriptor(x + PART_PLANES), descriptor(w), step > partial.begin);
      multiply(acc, descriptor(x), descriptor(w + FILTER_CHUNKS), true);
    }
  }
  ptx::wgmma_commit_group();
}

// Adds a partial sum, whose products may not have ended; the next one's may go on.
template <int PARTIAL>
__device__ __forceinline__ void add_partial(float (&sum)[WGMMA_N / 2], float (&acc)[WGMMA_N / 2], const SlotScales& scales) {
  constexpr Partials partials = partial_sums();
  constexpr Partial partial = partials.at[PARTIAL];
  float down[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    down[half] = scales.of[half][partial.block]->down * (partial.high ? 1.0f : 1.0f / LOW_UNITS);
  ptx::wgmma_wait_group<(!kOneSet && PARTIAL + 1 < partials.count ? 1 : 0)>();
  ptx::wgmma_fence_operand(acc);
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i)
    sum[i] = PARTIAL == 0 ? acc[i] * down[i / 2 % 2] : fmaf(acc[i], down[i / 2 % 2], sum[i]);
}

// The sums of 64 slots, `slots` behind the windows' first ones and the filters' scales still in them: partial sum PARTIAL
// and those after it. `last` has the one before, which is added up while the tensor core goes on with `acc`; it is `acc`
// itself if kOneSet. Calls nearly_done() once no products but the last partial sum's are under way.
template <int PARTIAL, class NearlyDone>
__device__ __forceinline__ void multiply_split(float (&sum)[WGMMA_N / 2], float (&acc)[WGMMA_N / 2], float (&last)[WGMMA_N / 2],
                                               const Windows& windows, int slots, uint32_t filters,
                                               const SlotScales& scales, NearlyDone nearly_done) {
  constexpr bool ENDS = PARTIAL + 1 == partial_sums().count;
  multiply_partial<PARTIAL>(acc, windows, slots, filters);
  if constexpr (ENDS) {
    ptx::wgmma_wait_group<1>();
    nearly_done();
  }
  if constexpr (!kOneSet && PARTIAL > 0) add_partial<PARTIAL - 1>(sum, last, scales);
  if constexpr (kOneSet || ENDS) add_partial<PARTIAL>(sum, acc, scales);
  if constexpr (!ENDS) multiply_split<PARTIAL + 1>(sum, last, acc, windows, slots, filters, scales, nearly_done);
}

// Of the blocks of a thread's two windows: the largest factor, and from what magnitude on sums are right.
struct Bounds {
  float largest[2], limit[2];
};
__device__ __forceinline__ Bounds bounds_of(const SlotScales& scales) {
  Bounds bounds = {};
#pragma unroll
  for (int i = 0; i < 2 * WINDOW_BLOCKS; ++i) {
    const Scale block = *scales.of[i % 2][i / 2];
    bounds.largest[i % 2] = fmaxf(bounds.largest[i % 2], block.down);
    bounds.limit[i % 2] = fmaxf(bounds.limit[i % 2], block.limit);
  }
  return bounds;
}

// From what magnitude on sums of the thread's columns are right, in units of their blocks.
__device__ __forceinline__ float limit_of_filters(const Scale* filter_scales, int lane) {
  float limit = 0.0f;
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i)
    if (i % 4 < 2) limit = fmaxf(limit, filter_scales[column_of(lane, i)].limit);
  return limit;
}

// Takes the filters' scales away and adds the bias; both are those of the columns. What may not be right becomes Inf or NaN.
__device__ __forceinline__ void finish_split(float (&sum)[WGMMA_N / 2], const Scale* filter_scales, float filter_limit,
                                             const float* bias, const Item& item, const Bounds& bounds) {
  float zeros[4] = {};  // unless a sum is Inf or NaN; asked where ReLU could hide a false -Inf
  if constexpr (kHasRelu)
#pragma unroll
    for (int i = 0; i < WGMMA_N / 2; ++i) zeros[i % 4] = fmaf(sum[i], 0.0f, zeros[i % 4]);
  const float limit = fmaxf(fmaxf(bounds.limit[0], bounds.limit[1]), filter_limit);
  if (limit == 0.0f && zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f) {  // as they are for all but odd numbers
#pragma unroll
    for (int i = 0; i < WGMMA_N / 2; ++i) {
      const int column = column_of(item.lane, i);
      const float down = filter_scales[column].down;
      sum[i] = kHasBias ? fmaf(sum[i], down, bias[column]) : sum[i] * down;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) {
    const int column = column_of(item.lane, i);
    const Scale filter = filter_scales[column];
    const float least = fmaxf(bounds.limit[i / 2 % 2], filter.limit * bounds.largest[i / 2 % 2]), magnitude = fabsf(sum[i]);
    const float finished = kHasBias ? fmaf(sum[i], filter.down, bias[column]) : sum[i] * filter.down;
    sum[i] = magnitude >= least && magnitude <= LARGEST_OUTPUT ? finished : __uint_as_float(0x7fffffffu);
  }
}
