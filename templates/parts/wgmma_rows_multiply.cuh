// ---- products: windows straight from the ring, where neighbouring ones overlap ----
__device__ __forceinline__ void multiply(float (&acc)[WGMMA_N / 2], uint64_t a, uint64_t b, bool accumulate) {
  if constexpr (sizeof(Element) == 4 && !kSplit)
    ptx::wgmma_m64k8_f32_tf32(acc, a, b, accumulate);
  else if constexpr (kBf16)
    ptx::wgmma_m64k16_f32_bf16(acc, a, b, accumulate);
  else
    ptx::wgmma_m64k16_f32_f16(acc, a, b, accumulate);
}

// A matrix without swizzle: rows of 16 bytes lie one after the other, 8 rows in 128 bytes and the next 8 behind them; the
// second 16 bytes of each row lie elsewhere. `low` is the address and, 16 bits up, the distance to there, in 16 bytes.
__device__ __forceinline__ uint64_t descriptor(uint32_t low) { return uint64_t(128 >> 4) << 32 | low; }

__device__ __forceinline__ uint32_t smem_units(const void* smem) {
  // from one lane: the compiler then knows that all lanes agree, and keeps descriptors in uniform registers
  return __shfl_sync(0xffffffffu, static_cast<uint32_t>(__cvta_generic_to_shared(smem)) >> 4, 0);
}

__device__ constexpr int units_away(Chunk chunk) { return chunk.plane * PLANE_SLOTS + slots_away(chunk); }

// Where the windows of an item's slots begin, in each of their blocks: the first slot's place in plane 0, in 16 bytes.
struct Windows {
  uint32_t of[WINDOW_BLOCKS];

  // `block` is the item's first one, in the CTA's count.
  __device__ __forceinline__ Windows(uint32_t ring, int block, int first_slot) {
#pragma unroll
    for (int i = 0; i < (kRowItems ? WINDOW_BLOCKS : 1); ++i)
      of[i] = ring + (block + i * BLOCK_STEP) % kRingBlocks * ROW_SLOTS + first_slot % ROW_SLOTS;
  }
  // The lower half of the descriptor of two chunks, a tile further for each 64 of `slots`.
  __device__ __forceinline__ uint32_t chunks_at(Chunk first, Chunk second, int slots) const {
    const int block = kRowItems ? first.block : 0, in_block = kRowItems ? block * BLOCK_STEP * ROW_SLOTS : 0;
    return of[block] + uint32_t(slots + units_away(first) - in_block | (units_away(second) - units_away(first)) << 16);
  }
};

using Accumulators = float[ITEM_TILES][WGMMA_N / 2];

// Whether consumers wait for each other's products, so that some multiply while others store. The last steps of an item
// are a commit group of their own: when only they are left, the next consumer may begin.
constexpr bool kTurns = kMultiplying < kConsumers;
constexpr int LAST_STEPS = STEPS >= 8 ? 4 : (STEPS + 1) / 2;

// The column of a thread's i-th sum of a tile.
__device__ __forceinline__ int column_of(int lane, int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }

// The bias of a thread's columns, asked for long before the first sums are there. Few registers are left beside split
// products: theirs is in shared memory.
constexpr bool kHeldBias = kHasBias && !kSplit;
using Biases = Element[WGMMA_N / 4];
__device__ __forceinline__ void read_bias(Biases& biases, const Element* bias, int first_channel, int lane) {
#pragma unroll
  for (int i = 0; i < WGMMA_N / 4; ++i)
    biases[i] = from_float<Element>(epilogue_bias(bias, first_channel + channel_of(column_of(lane, i / 2 * 4 + i % 2))));
}
__device__ __forceinline__ void add_bias(float (&sum)[WGMMA_N / 2], const Biases& biases) {
  if constexpr (!kHeldBias) return;
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) sum[i] += to_float(biases[i / 4 * 2 + i % 2]);
}

// The products of ITEM_SLOTS slots. A tile is a commit group.
__device__ __forceinline__ void multiply_item(Accumulators& acc, const Windows& windows, uint32_t filters) {
  constexpr Chunks chunks = window_chunks();
  ptx::wgmma_fence();
#pragma unroll
  for (int tile = 0; tile < ITEM_TILES; ++tile) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if (kTurns && tile + 1 == ITEM_TILES && step == STEPS - LAST_STEPS) ptx::wgmma_commit_group();
      multiply(acc[tile], descriptor(windows.chunks_at(chunks.at[2 * step], chunks.at[2 * step + 1], tile * 64)),
               descriptor((filters | uint32_t(WGMMA_N) << 16) + step * 2 * WGMMA_N), step > 0);
    }
    ptx::wgmma_commit_group();
  }
}

// What a consumer's warp knows of the ring: blocks that it has seen full, and blocks that it has given back. Numbers count
// the blocks of the CTA.
struct Blocks {
  const Smem& smem;
  int lane, full = 0, empty = 0;
  Ring<kRingBlocks> next_full = {}, next_empty = {};

  __device__ __forceinline__ void acquire_below(int end) {
#pragma unroll 1
    for (; full < end; ++full) {
      wait(smem.block_full + next_full.stage, next_full.parity);
      next_full.advance();
    }
  }
  // Blocks that the warp did not need are waited for too, one by one: a round must not pass unseen, and the ring may turn
  // meanwhile.
  __device__ __forceinline__ void release_below(int end) {
#pragma unroll 1
    for (; empty < end; ++empty) {
      acquire_below(empty + 1);
      __syncwarp();  // or a lane that is behind misses that the block was full
      if (kSplit || lane == 0) ptx::mbarrier_arrive(smem.block_empty + next_empty.stage);  // every lane has read a scale
      next_empty.advance();
    }
  }
};
