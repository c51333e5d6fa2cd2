// ---- products of split elements ----
// The tensor core truncates as it adds up. A partial sum is of PARTIAL_STEPS steps at most, all of one block; times what
// its block's scale took away, it is added to the sum in fp32. high * high has accumulators of its own, for the other
// products are 2^11 times as large as they are to count.
// Short windows are added up step by step: strict fp32 is as exact there.
constexpr int PARTIAL_STEPS = STEPS <= 6 ? 1 : 4;
struct Partial {
  int block, begin, end;  // block of the window, steps
};
struct Partials {
  int count;
  Partial at[STEPS];
};
__device__ constexpr Partials partial_sums() {
  constexpr Chunks chunks = window_chunks();
  Partials partials = {};
  for (int begin = 0; begin < STEPS;) {
    const int block = chunks.at[2 * begin].block;
    int end = begin;
    while (end < STEPS && chunks.at[2 * end].block == block) ++end;
    const int pieces = ceil_div(end - begin, PARTIAL_STEPS);
    for (int i = 0; i < pieces; ++i)
      partials.at[partials.count++] = {block, begin + (end - begin) * i / pieces, begin + (end - begin) * (i + 1) / pieces};
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

// Whether a partial sum's products may begin in other registers while the last one's are added up.
constexpr bool kOtherRegisters =
    WGMMA_N <= 48 || 5 * WGMMA_N / 2 + 44 <= CONSUMER_REGISTERS || partial_sums().count == 1;

// The sums of 64 slots, `slots` behind the windows' first ones and the filters' scales still in them, from a partial sum on.
template <int PARTIAL>
__device__ __forceinline__ void multiply_split(float (&sum)[WGMMA_N / 2], float (&high)[WGMMA_N / 2],
                                               float (&mixed)[WGMMA_N / 2], const Windows& windows, int slots, uint32_t filters,
                                               const SlotScales& scales) {
  constexpr Chunks chunks = window_chunks();
  constexpr Partials partials = partial_sums();
  constexpr Partial partial = partials.at[PARTIAL];
  // false, which the compiler must not know if the registers are to stay the same
  const bool goes_on = !kOtherRegisters && windows.of[0] == 0;
  ptx::wgmma_fence();
#pragma unroll
  for (int step = partial.begin; step < partial.end; ++step) {
    const uint32_t x = windows.chunks_at(chunks.at[2 * step], chunks.at[2 * step + 1], slots);
    const uint32_t w = (filters | uint32_t(WGMMA_N) << 16) + step * 2 * WGMMA_N;
    multiply(mixed, descriptor(x + PART_PLANES), descriptor(w), step > partial.begin || goes_on);
    multiply(high, descriptor(x), descriptor(w), step > partial.begin || goes_on);
    multiply(mixed, descriptor(x), descriptor(w + FILTER_CHUNKS), true);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_fence_operand(high);
  ptx::wgmma_fence_operand(mixed);
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) {
    const float both = fmaf(mixed[i], 1.0f / LOW_UNITS, high[i]), down = scales.of[i / 2 % 2][partial.block]->down;
    sum[i] = PARTIAL == 0 ? both * down : fmaf(both, down, sum[i]);
  }
  if constexpr (PARTIAL + 1 < partials.count) multiply_split<PARTIAL + 1>(sum, high, mixed, windows, slots, filters, scales);
}

// Whether blocks are given back before the sums are finished; ptxas then holds the last partial sum longer.
constexpr bool kEarlyRelease = WGMMA_N <= 64 || !kOutputChannelsLast;

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

// Takes the filters' scales away and adds the bias; both are those of the columns. What may not be right becomes NaN.
__device__ __forceinline__ void finish_split(float (&sum)[WGMMA_N / 2], const Scale* filter_scales, const float* bias,
                                             const Item& item, const Bounds& bounds) {
  const auto column_of = [&](int i) { return i / 4 * 8 + item.lane % 4 * 2 + i % 2; };
  float limit = fmaxf(bounds.limit[0], bounds.limit[1]), zeros[4] = {};  // the latter unless a sum is Inf or NaN
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) {
    if (i % 4 < 2) limit = fmaxf(limit, filter_scales[column_of(i)].limit);
    zeros[i % 4] = fmaf(sum[i], 0.0f, zeros[i % 4]);
  }
  if (limit == 0.0f && zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f) {  // as they are for all but odd numbers
#pragma unroll
    for (int i = 0; i < WGMMA_N / 2; ++i) {
      const float down = filter_scales[column_of(i)].down;
      sum[i] = kHasBias ? fmaf(sum[i], down, bias[column_of(i)]) : sum[i] * down;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) {
    const int column = column_of(i);
    const Scale filter = filter_scales[column];
    const float least = fmaxf(bounds.limit[i / 2 % 2], filter.limit * bounds.largest[i / 2 % 2]), magnitude = fabsf(sum[i]);
    const float finished = kHasBias ? fmaf(sum[i], filter.down, bias[column]) : sum[i] * filter.down;
    sum[i] = magnitude >= least && magnitude <= LARGEST_OUTPUT ? finished : __uint_as_float(0x7fffffffu);
  }
}
