// ---- the window in chunks of 16 bytes: the order of gemm_k, which the packed filter shares ----
__device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// Elements of a chunk, as they are multiplied.
constexpr int CHUNK_ELEMENTS = kSplit ? 8 : UNIT;

// A block is BLOCK_ROWS input rows from an output row's first one on, a slot SLOT_COLUMNS columns of them from an output
// column's first one on, in CHUNK_ELEMENTS a chunk. A window is WINDOW_BLOCKS blocks of WINDOW_SLOTS slots.
constexpr int SLOT_ELEMENTS = BLOCK_ROWS * SLOT_COLUMNS * C;
constexpr int PLANES = ceil_div(SLOT_ELEMENTS, CHUNK_ELEMENTS);  // chunks of a slot
constexpr int WINDOW_BLOCKS = ceil_div(R, BLOCK_ROWS), WINDOW_SLOTS = ceil_div(S, SLOT_COLUMNS);
constexpr int BLOCK_STEP = WINDOW_BLOCKS > 1 ? BLOCK_ROWS * DILATION_H / STRIDE_H : 0;  // from one of a window to the next
constexpr int SLOT_STEP = WINDOW_SLOTS > 1 ? SLOT_COLUMNS * DILATION_W / STRIDE_W : 0;
constexpr int HALO_BLOCKS = (WINDOW_BLOCKS - 1) * BLOCK_STEP, HALO_SLOTS = (WINDOW_SLOTS - 1) * SLOT_STEP;
constexpr int ROW_SLOTS = Q + HALO_SLOTS;  // slots of a block
// A dilated window takes a row of each block, a column of each slot.
__device__ constexpr bool covers(int part, int window, int stride, int dilation) {
  if (dilation > 1 && window > 1) return part == 1 && dilation % stride == 0;
  return part == window || (part < window && part % stride == 0);
}
static_assert(covers(BLOCK_ROWS, R, STRIDE_H, DILATION_H), "blocks cover a window's rows once");
static_assert(covers(SLOT_COLUMNS, S, STRIDE_W, DILATION_W), "slots cover its columns once");
static_assert(GROUPS == 1, "a window has all channels");

// What the element at `position` of a slot is: a row and column of the slot, a channel.
struct Tap {
  int row, column, c;
};
__device__ constexpr Tap tap_at(int position) {
  if (kSlotOrder == COLUMNS)
    return {position / C % BLOCK_ROWS, position / (C * BLOCK_ROWS), position % C};
  if (kInputChannelsLast)
    return {position / (C * SLOT_COLUMNS), position / C % SLOT_COLUMNS, position % C};
  return {position / (SLOT_COLUMNS * C), position % SLOT_COLUMNS, position / SLOT_COLUMNS % C};
}

// A chunk of the window, of a block and a slot of it. Its elements along gemm_k: filter tap (r, s) and channel, or none.
struct Chunk {
  int block, plane, slot;
  bool zero;  // no tap at all: it only makes the number even
};
struct FilterTap {
  int r, s, c;
  bool exists;
};
__device__ constexpr FilterTap filter_tap(Chunk chunk, int e) {
  const int position = chunk.plane * CHUNK_ELEMENTS + e;
  const Tap tap = tap_at(position);
  const int r = chunk.block * BLOCK_ROWS + tap.row, s = chunk.slot * SLOT_COLUMNS + tap.column;
  return {r, s, tap.c, !chunk.zero && position < SLOT_ELEMENTS && r < R && s < S};
}

// Whether a product's chunks are of one block: it has a scale, or lies anywhere.
constexpr bool kEvenBlocks = kSplit || kRowItems;

// Chunks that hold a tap; a wgmma takes two of them, the first one lower in shared memory.
struct Chunks {
  int count;
  Chunk at[WINDOW_BLOCKS * (PLANES * WINDOW_SLOTS + 1)];
};
__device__ constexpr int slots_away(Chunk chunk) { return chunk.block * BLOCK_STEP * ROW_SLOTS + chunk.slot * SLOT_STEP; }
__device__ constexpr Chunks window_chunks() {
  Chunks chunks = {};
  int first = 0;  // of those whose number must be even
  for (int block = 0; block < WINDOW_BLOCKS; ++block) {
    if (kEvenBlocks) first = chunks.count;
    for (int plane = 0; plane < PLANES; ++plane)
      for (int slot = 0; slot < WINDOW_SLOTS; ++slot) {
        bool used = false;
        for (int e = 0; e < CHUNK_ELEMENTS; ++e) used = used || filter_tap({block, plane, slot, false}, e).exists;
        if (used) chunks.at[chunks.count++] = {block, plane, slot, false};
      }
    if ((kEvenBlocks || block + 1 == WINDOW_BLOCKS) && (chunks.count - first) % 2 == 1) {
      chunks.at[chunks.count] = chunks.at[first];
      chunks.at[chunks.count++].zero = true;
    }
  }
  for (int i = 0; i < chunks.count; i += 2) {
    const Chunk first = chunks.at[i], second = chunks.at[i + 1];
    if (first.plane > second.plane || (first.plane == second.plane && slots_away(first) > slots_away(second))) {
      chunks.at[i] = second;
      chunks.at[i + 1] = first;
    }
  }
  return chunks;
}
constexpr int CHUNKS = window_chunks().count;

// ---- output channels: column n of a wgmma is channel channel_of(n) of the CTA's WGMMA_N ----
// So ordered for an NHWC y, a thread's accumulators of CHANNEL_GROUP columns are CHANNEL_VECTOR neighbouring channels, of
// 16 bytes at most.
constexpr int CHANNEL_GROUP = WGMMA_N % 32 == 0 && UNIT >= 8 ? 32 : WGMMA_N % 16 == 0 ? 16 : 8;
constexpr int CHANNEL_VECTOR = CHANNEL_GROUP / 4;
constexpr int K_BLOCKS = ceil_div(K, WGMMA_N);
__device__ constexpr int channel_of(int n) {
  if (!kOutputChannelsLast) return n;
  const int group = n / CHANNEL_GROUP, part = n / 8 % (CHANNEL_GROUP / 8), lane = n / 2 % 4;
  return group * CHANNEL_GROUP + lane * CHANNEL_VECTOR + part * 2 + n % 2;
}
