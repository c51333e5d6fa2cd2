// ---- products of split elements ----
// The tensor core truncates as it adds up, so partial sums, each of products with one block, are added up in fp32, times
// what the block's scale took away. high * high has partial sums of PARTIAL_STEPS steps at most. The other products count
// 2^-11 as much, and so do their errors: a partial sum of them is a whole block's.
// Short windows are added up step by step, small sums first: strict fp32 is as exact there.
constexpr bool kShortWindow = STEPS <= 6;
constexpr bool kOne = false;      // XP
constexpr bool kRolled = true;    // XP
constexpr bool kTwoSets = true;   // XP
constexpr bool kEarlyTurn = true; // XP
constexpr bool kBlockwise = true; // XP
constexpr int PARTIAL_STEPS = kShortWindow ? 1 : 9;
enum Kind { CROSS, HIGH, ALL };
struct Partial {
  int kind, block, begin, steps;  // block of the window
};
struct Partials {
  int count;
  Partial at[WINDOW_BLOCKS + STEPS];
};
__device__ constexpr Partials partial_sums() {
  constexpr Chunks chunks = window_chunks();
  Partials partials = {};
  if (!kSplit) return partials;
  for (int pass = 0; pass < (kShortWindow && !kOne && !kRolled ? 2 : 1); ++pass)
    for (int begin = 0; begin < STEPS;) {
      const int block = chunks.at[2 * begin].block;
      int end = begin;
      while (end < STEPS && chunks.at[2 * end].block == block) ++end;
      const int steps = end - begin, pieces = ceil_div(steps, PARTIAL_STEPS);
      if (pass == 0 && !kOne) partials.at[partials.count++] = {CROSS, block, begin, steps};
      for (int i = 0; i < pieces && (pass == 1 || !kShortWindow || kOne || kRolled); ++i) {
        const int from = steps * i / pieces;
        partials.at[partials.count++] = {kOne ? ALL : HIGH, block, begin + from, steps * (i + 1) / pieces - from};
      }
      begin = end;
    }
  return partials;
}
constexpr int PARTIALS = partial_sums().count;
// How many partial sums from the first on are as long as it: whole pairs of its kind.
__device__ constexpr int looped_partials() {
  constexpr Partials partials = partial_sums();
  int count = 0;
  while (count < PARTIALS && partials.at[count].steps == partials.at[0].steps && partials.at[count].kind == partials.at[0].kind)
    ++count;
  return count / 2 * 2;
}
constexpr int LOOPED = kRolled && kTwoSets && looped_partials() > 2 ? looped_partials() : 0;
// Of each step, the lower half of x's descriptor, from its block's first slot on.
struct StepWords {
  uint32_t of[STEPS];
};
__device__ constexpr StepWords step_words() {
  constexpr Chunks chunks = window_chunks();
  StepWords words = {};
  for (int i = 0; i < STEPS; ++i) {
    const Chunk first = chunks.at[2 * i], second = chunks.at[2 * i + 1];
    const int in_block = kRowItems ? first.block * BLOCK_STEP * ROW_SLOTS : 0;
    words.of[i] = uint32_t(units_away(first) - in_block) | uint32_t(units_away(second) - units_away(first)) << 16;
  }
  return words;
}
__constant__ constexpr Partials kPartialTable = partial_sums();
__constant__ constexpr StepWords kStepWords = step_words();

// The scales of the blocks of the windows of a thread's two slots of a tile.
struct SlotScales {
  const Scale* scales;
  int place[2];  // of the first of a slot

  // `block` is the item's first one, in the CTA's count.
  __device__ __forceinline__ SlotScales(const Scale* scales, int block, const Item& item, int tile) : scales(scales) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int slot = item.first_slot + tile * 64 + item.warp * 16 + half * 8 + item.lane / 4;
      const int row = kRowItems ? 0 : min(slot / ROW_SLOTS, item.segment.rows - 1) - item.first_slot / ROW_SLOTS;
      place[half] = block % kScales + row;
    }
  }
  __device__ __forceinline__ const Scale& of(int half, int block) const {
    const int at = place[half] + block * BLOCK_STEP;
    return scales[kRowItems && at >= kScales ? at - kScales : at];
  }
};

// What a tile's products need: `slots` behind the windows' first ones.
struct Operands {
  const Windows& windows;
  uint32_t x, filters;  // x: of slot `slots` of the item in block place 0 (kRowItems) or of the item's first block
  const SlotScales& scales;
  Blocks& blocks;
  __device__ __forceinline__ int place_of(int of_window) const {
    const int at = block % kRingBlocks + of_window * BLOCK_STEP;
    return at < kRingBlocks ? at : at - kRingBlocks;
  }
  int block, unneeded;  // the item's first block, in the CTA's count; below which one none is needed after it

  // Products with a block of the window have ended, and those with blocks before it.
  __device__ __forceinline__ void release(int of_window) const {
    __syncwarp();
    blocks.release_acquired_below(min(block + of_window * BLOCK_STEP + 1, unneeded));
  }
};

template <int KIND, int COUNT>
__device__ __forceinline__ void multiply_partial(float (&acc)[WGMMA_N / 2], const Operands& operands, const Partial& partial) {
  const uint32_t x = operands.x + (kRowItems ? operands.place_of(partial.block) * ROW_SLOTS : 0);
  const uint32_t w = (operands.filters | uint32_t(WGMMA_N) << 16) + partial.begin * 2 * WGMMA_N;
  ptx::wgmma_fence();
  if constexpr (KIND != HIGH) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const uint32_t step = x + kStepWords.of[partial.begin + i];
      multiply(acc, descriptor(step + PART_PLANES), descriptor(w + i * 2 * WGMMA_N), i > 0);
      multiply(acc, descriptor(step), descriptor(w + i * 2 * WGMMA_N + FILTER_CHUNKS), true);
    }
  }
  if constexpr (KIND != CROSS) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      multiply(acc, descriptor(x + kStepWords.of[partial.begin + i]), descriptor(w + i * 2 * WGMMA_N), KIND == ALL || i > 0);
  }
  ptx::wgmma_commit_group();
}

template <int KIND, int PENDING>
__device__ __forceinline__ void add_partial(float (&sum)[WGMMA_N / 2], float (&acc)[WGMMA_N / 2], const Operands& operands,
                                            int block) {
  float down[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    down[half] = operands.scales.of(half, block).down * (KIND != CROSS ? 1.0f : 1.0f / LOW_UNITS);
  ptx::wgmma_wait_group<PENDING>();
  ptx::wgmma_fence_operand(acc);
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) sum[i] = fmaf(acc[i], down[i / 2 % 2], sum[i]);
  if constexpr (kRolled) ptx::wgmma_fence_operand(sum);
}

template <int P>
__device__ __forceinline__ void multiply_from(float (&sum)[WGMMA_N / 2], float (&acc)[WGMMA_N / 2], float (&last)[WGMMA_N / 2],
                                              const Operands& operands, const Smem& smem, bool ends, int index, int lane) {
  constexpr Partial partial = partial_sums().at[P];
  multiply_partial<partial.kind, partial.steps>(acc, operands, partial);
  if constexpr (!kTwoSets) {
    if (P + 1 == PARTIALS && kEarlyTurn && kTurns && ends) end_turn(smem, index, lane);
    add_partial<partial.kind, 0>(sum, acc, operands, partial.block);
    if constexpr (P + 1 < PARTIALS) {
      if constexpr (kBlockwise && partial.block < partial_sums().at[P + 1].block) operands.release(partial.block);
      multiply_from<P + 1>(sum, acc, last, operands, smem, ends, index, lane);
    }
    return;
  }
  if constexpr (P + 1 == PARTIALS && kEarlyTurn && kTurns) {
    ptx::wgmma_wait_group<(PARTIALS > LOOPED + 1)>();
    if (ends) end_turn(smem, index, lane);
  }
  if constexpr (P > LOOPED) {
    constexpr Partial before = partial_sums().at[P - 1];
    add_partial<before.kind, 1>(sum, last, operands, before.block);
    if constexpr (kBlockwise && before.block < partial.block) operands.release(before.block);
  }
  if constexpr (P + 1 < PARTIALS)
    multiply_from<P + 1>(sum, last, acc, operands, smem, ends, index, lane);
  else
    add_partial<partial.kind, 0>(sum, acc, operands, partial.block);
}

// The sums of 64 slots, `slots` behind the windows' first ones and the filters' scales still in them.
__device__ __forceinline__ void multiply_split(float (&sum)[WGMMA_N / 2], float (&even)[WGMMA_N / 2], float (&odd)[WGMMA_N / 2],
                                               const Windows& windows, const Smem& smem, int slots, int first_slot,
                                               const SlotScales& scales, Blocks& blocks, int block, int unneeded, bool ends,
                                               int index, int lane) {
  const Operands operands = {windows, kRowItems ? smem_units(smem.ring) + first_slot % ROW_SLOTS + slots : windows.of[0] + slots,
                             smem_units(smem.filters), scales, blocks, block, ends ? unneeded : 0};
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) sum[i] = 0.0f;
  constexpr Partials partials = partial_sums();
  if constexpr (kTwoSets || !kOne) {
    if constexpr (LOOPED > 0) {
      constexpr Partial first = partials.at[0];
#pragma unroll 1
      for (int i = 0; i < LOOPED; i += 2) {
        multiply_partial<first.kind, first.steps>(even, operands, kPartialTable.at[i]);
        multiply_partial<first.kind, first.steps>(odd, operands, kPartialTable.at[i + 1]);
        add_partial<first.kind, 1>(sum, even, operands, kPartialTable.at[i].block);
        if (LOOPED == PARTIALS && kEarlyTurn && kTurns && ends && i + 2 == LOOPED) end_turn(smem, index, lane);
        add_partial<first.kind, 0>(sum, odd, operands, kPartialTable.at[i + 1].block);
      }
      if constexpr (LOOPED < PARTIALS) multiply_from<LOOPED>(sum, even, odd, operands, smem, ends, index, lane);
    } else {
      multiply_from<0>(sum, even, odd, operands, smem, ends, index, lane);
    }
  } else {
    constexpr Partial last = partials.at[PARTIALS > 0 ? PARTIALS - 1 : 0];
    constexpr bool kLast = last.steps < partials.at[0].steps;
#pragma unroll 1
    for (int i = 0; i < PARTIALS - kLast; ++i) {
      multiply_partial<ALL, partials.at[0].steps>(even, operands, kPartialTable.at[i]);
      if (kEarlyTurn && kTurns && ends && !kLast && i + 1 == PARTIALS) end_turn(smem, index, lane);
      add_partial<ALL, 0>(sum, even, operands, kPartialTable.at[i].block);
      if (kBlockwise && i + 1 < PARTIALS && kPartialTable.at[i].block < kPartialTable.at[i + 1].block)
        operands.release(kPartialTable.at[i].block);
    }
    if constexpr (kLast) {
      multiply_partial<ALL, last.steps>(even, operands, last);
      if (kEarlyTurn && kTurns && ends) end_turn(smem, index, lane);
      add_partial<ALL, 0>(sum, even, operands, last.block);
    }
  }
}

// Of the blocks of a thread's two windows: the largest factor, and from what magnitude on sums are right.
struct Bounds {
  float largest[2], limit[2];
};
__device__ __forceinline__ Bounds bounds_of(const SlotScales& scales) {
  Bounds bounds = {};
#pragma unroll
  for (int i = 0; i < 2 * WINDOW_BLOCKS; ++i) {
    const Scale block = scales.of(i % 2, i / 2);
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
