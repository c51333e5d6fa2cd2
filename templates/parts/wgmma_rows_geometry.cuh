// ---- sizes ----
constexpr int kCopyingWarps = kBulkStored ? 4 : 0;
constexpr int THREADS = 128 * kConsumers + 32 * (kTransformers + 1 + kCopyingWarps);
constexpr int OTHER_REGISTERS = 80;  // of a transformer's or loader's thread, where consumers ask for more
constexpr int STEPS = CHUNKS / 2;  // wgmmas of a tile of 64 slots
constexpr bool kShortWindow = STEPS <= 6;
constexpr int ROW_ITEMS = ceil_div(Q, ITEM_SLOTS);  // of an output row, with kRowItems
constexpr int MIRRORED_BLOCKS = kRowItems ? 0 : HALO_BLOCKS + (ITEM_SLOTS - 1 + HALO_SLOTS + ROW_SLOTS - 1) / ROW_SLOTS;
constexpr int PLANE_SLOTS = (kRingBlocks + MIRRORED_BLOCKS) * ROW_SLOTS;  // from one plane to the next
constexpr int PART_PLANES = PLANES * PLANE_SLOTS;  // chunks of the ring's high parts; as many low ones follow
constexpr int RING_BYTES = PARTS * PART_PLANES * 16;
constexpr int INPUT_ROW_BYTES = W * (kInputChannelsLast ? C : 1) * sizeof(Element);
constexpr int RAW_PARTS = kInputChannelsLast ? 1 : C;  // runs of neighbouring input rows
// A run begins up to 15 bytes into its buffer, and is read up to 4 bytes beyond its end.
constexpr int RAW_PART_BYTES = (15 + BLOCK_ROWS * INPUT_ROW_BYTES + 4 + 15) / 16 * 16;
constexpr int RAW_BYTES = RAW_PARTS * RAW_PART_BYTES;  // of a buffer
constexpr int kTeams = kTransformers / kTeamWarps, RAW_BUFFERS = kTeams * kRawStages;
constexpr int FILTER_CHUNKS = CHUNKS * WGMMA_N;  // of one part
constexpr int FILTER_BYTES = PARTS * FILTER_CHUNKS * 16 + (kSplit ? WGMMA_N * 8 : 0);
constexpr int SECTOR = 32 / sizeof(Element);  // what L2 writes at once
// Items that lie in staging: one of each consumer, and two times what leaves together by bulk copies; of split elements that
// consumers store fewer, for blocks need the room more, and the longer products take, the seldomer a consumer has one there.
// Runs of pixels begin with a sector anew where the segment changes, which it does so often among them and what the first
// shares with the one before.
constexpr int MOST_STAGED = kConsumers + (kBulkStored ? 2 * kCopiedItems : 0);
// Rounds of barriers of staged items: who waits for an item of two rounds ago may be a round behind another consumer.
constexpr int kStagedItems = kStaged ? MOST_STAGED + 2 * kConsumers : 0;
constexpr int STAGED_ITEMS = kBulkStored || PARTS == 1 || kConsumers < 3 ? MOST_STAGED : kShortWindow ? kConsumers - 1 : 2;
constexpr bool kLongSegments = kRowOrder == STRIPS && P * Q >= MOST_STAGED * ITEM_SLOTS;  // but for a strip's two ends
constexpr int SEGMENT_CHANGES = kLongSegments && MOST_STAGED > 1 ? 1 : MOST_STAGED - 1;
constexpr int STAGED_PIXELS = STAGED_ITEMS * ITEM_SLOTS + 2 * SECTOR * (SEGMENT_CHANGES + 1);
// Every other one of 8 channels lies in other banks. Bulk copies are slow where what they read does not begin with a sector
// of shared memory: there rings begin with one.
constexpr int STAGING_PITCH = STAGED_PIXELS + UNIT;
constexpr int PAIR_PITCH = kBulkStored ? 2 * STAGED_PIXELS + SECTOR : 2 * STAGING_PITCH;
constexpr int ITEM_BYTES = ITEM_SLOTS * WGMMA_N * sizeof(Element);  // of y
constexpr int STAGING_BYTES = kOutputMap ? kConsumers * ITEM_BYTES : kStaged ? WGMMA_N / 2 * PAIR_PITCH * sizeof(Element) : 0;
__device__ constexpr int ring_of(int channel) {  // elements of staging before it
  if constexpr (!kBulkStored) return channel * STAGING_PITCH;
  return channel / 2 * PAIR_PITCH + channel % 2 * STAGED_PIXELS;
}
// The fewest pixels of an item that is followed by another one of its segment.
constexpr int LEAST_PIXELS = !kRowItems ? ITEM_SLOTS - HALO_SLOTS * (ITEM_SLOTS / ROW_SLOTS + 1)
                             : Q % ITEM_SLOTS == 0 ? ITEM_SLOTS : Q % ITEM_SLOTS;
constexpr bool kSharedSectors = LEAST_PIXELS >= SECTOR;  // then a sector's pixels are of two items at most
constexpr int BIAS_BYTES = kHasBias && kSplit ? WGMMA_N * 4 : 0;
constexpr int SCALE_BYTES = kSplit ? (kRingBlocks + MIRRORED_BLOCKS + 2 * kTransformers) * 8 : 0;  // and ranges
constexpr int STAGING_ALIGNMENT = kOutputMap ? 1024 : kBulkStored ? 32 : 16;  // of swizzled boxes, of sectors
constexpr int STAGING_GAP = STAGING_ALIGNMENT - 1 & -(RING_BYTES + RAW_BUFFERS * RAW_BYTES + FILTER_BYTES);
constexpr int64_t INPUT_BYTES = int64_t(N) * H * W * C * sizeof(Element);
constexpr int64_t INPUT_UNITS_END = INPUT_BYTES / 16 * 16;  // bulk copies end here

// How y is stored by TMA; where it is not, its address stands in.
template <bool IS_MAP>
struct OutputMapOf {
  using Type = const Element*;
};
template <>
struct OutputMapOf<true> {
  using Type = ptx::TensorMap;
};
using OutputMap = OutputMapOf<kOutputMap>::Type;

// ---- what the parameters must obey ----
static_assert(WGMMA_N % 8 == 0 && WGMMA_N <= 256, "the N of wgmma");
static_assert(kRingBlocks > MIRRORED_BLOCKS && kRingBlocks > HALO_BLOCKS, "an item and the windows of its slots fit the ring");
static_assert(CONSUMER_REGISTERS == 0 || (kTransformers + 1 + kCopyingWarps) % 4 == 0, "whole warpgroups ask for registers and give them back");
static_assert(kConsumers % kMultiplying == 0, "a wait tells a turn from the next, not from the one after");
static_assert(kTransformers % kTeamWarps == 0, "a team is some of the transformers");
static_assert(kTeams <= kRingBlocks, "a wait tells a round of the ring from the next, not from the one after");
static_assert(kRowOrder == UNITS || UNIT_ROWS == 1, "strips have no units");
static_assert(kRowOrder == UNITS || !kBursts, "bursts follow the units");
static_assert(!kStaged || !kOutputChannelsLast, "an NHWC y is stored as threads hold it");
static_assert(kStaged || kOutputChannelsLast || sizeof(Element) == 4, "threads hold single elements of an NCHW y");
static_assert(kStaged || !kBulkStored, "bulk copies leave staging");
static_assert(!kChannelRows || (WGMMA_N == 64 && kRowItems && !kSplit && ITEM_SLOTS % 16 == 0), "64 channels are rows, of a row's pixels");
static_assert(!kChannelRows || (kOutputChannelsLast ? kOutputMap : kBulkStored), "what has channels as rows is stored by bulk copies or TMA");
static_assert(!kOutputMap || (kChannelRows && K * sizeof(Element) % 16 == 0), "TMA stores an NHWC y");
static_assert(kChannelRows || ITEM_SLOTS == 64 * ITEM_TILES, "an item is whole tiles");
static_assert(!kSplit || sizeof(Element) == 4, "an fp32 is split");
static_assert(kPackKernel || !kSplit, "halves of a filter are packed by a kernel of its own");

// ---- shared memory ----
struct Smem {
  unsigned char* ring;     // (PARTS, PLANES, kRingBlocks + MIRRORED_BLOCKS, ROW_SLOTS), 16 bytes each
  unsigned char* raw;      // (kTeams, kRawStages, RAW_PARTS): rows of x as they lie in global memory
  unsigned char* filters;  // (PARTS, CHUNKS, WGMMA_N), 16 bytes each; then the columns' scales
  Element* staging;        // (WGMMA_N / 2, PAIR_PITCH): rings of pixels of two channels each, if kStaged; (kConsumers, ITEM_SLOTS,
                           // WGMMA_N), of 128 bytes of channels at a time, if kOutputMap
  float* bias;             // (WGMMA_N), of the columns, if kSplit
  Scale* scales;           // (kRingBlocks + MIRRORED_BLOCKS) of split blocks
  Range* ranges;           // (2, kTransformers): what each warp of a team has seen, of a block and the next
  uint64_t *block_full, *block_empty, *raw_full, *raw_empty, *multiplied, *filters_full, *staged, *stored;
};
__device__ __forceinline__ Smem shared_memory(unsigned char* memory) {
  Smem smem;
  smem.ring = memory;
  smem.raw = smem.ring + RING_BYTES;
  smem.filters = smem.raw + RAW_BUFFERS * RAW_BYTES;
  smem.staging = reinterpret_cast<Element*>(smem.filters + FILTER_BYTES + STAGING_GAP);
  smem.bias = reinterpret_cast<float*>(smem.filters + FILTER_BYTES + STAGING_GAP + STAGING_BYTES);
  smem.scales = reinterpret_cast<Scale*>(smem.filters + FILTER_BYTES + STAGING_GAP + STAGING_BYTES + BIAS_BYTES);
  smem.ranges = reinterpret_cast<Range*>(smem.scales + kRingBlocks + MIRRORED_BLOCKS);
  smem.block_full = reinterpret_cast<uint64_t*>(smem.filters + FILTER_BYTES + STAGING_GAP + STAGING_BYTES + BIAS_BYTES + SCALE_BYTES);
  smem.block_empty = smem.block_full + kRingBlocks;
  smem.raw_full = smem.block_empty + kRingBlocks;
  smem.raw_empty = smem.raw_full + RAW_BUFFERS;
  smem.multiplied = smem.raw_empty + RAW_BUFFERS;
  smem.filters_full = smem.multiplied + kConsumers;
  smem.staged = smem.filters_full + 1;
  smem.stored = smem.staged + kStagedItems;
  return smem;
}
__device__ __forceinline__ void init_barriers(const Smem& smem) {
  for (int i = 0; i < kRingBlocks; ++i) {
    ptx::mbarrier_init(smem.block_full + i, kTeamWarps);
    ptx::mbarrier_init(smem.block_empty + i, 4 * kConsumers * (kSplit ? 32 : 1));
  }
  for (int i = 0; i < RAW_BUFFERS; ++i) {
    ptx::mbarrier_init(smem.raw_full + i, 1);
    ptx::mbarrier_init(smem.raw_empty + i, 32 * kTeamWarps);
  }
  for (int i = 0; i < kConsumers; ++i) ptx::mbarrier_init(smem.multiplied + i, 4);
  ptx::mbarrier_init(smem.filters_full, kPackKernel ? 1 : 4 * kConsumers * (kChannelRows ? 32 : 1));
  for (int i = 0; i < kStagedItems; ++i) {
    ptx::mbarrier_init(smem.staged + i, 128);
    ptx::mbarrier_init(smem.stored + i, kBulkStored ? kCopyingWarps : 128);
  }
}

<% include "parts/ring.cuh" %>

// ---- work ----
// Neighbouring output rows of an image, from row p on. Block p + i of the image is what row p + i begins with.
struct Segment {
  int n, p, rows;

  __device__ __forceinline__ int blocks() const { return rows + HALO_BLOCKS; }
};
// The segments of the CTA in order; every role walks them. CTAs of the same output channels share the rows.
struct Walk {
  static constexpr int OUTPUT_ROWS = N * P, UNITS_OF_IMAGE = (P + UNIT_ROWS - 1) / UNIT_ROWS;
  static constexpr int UNIT_COUNT = kRowOrder == UNITS ? N * UNITS_OF_IMAGE : 1;
  int next, end, step;

  __device__ __forceinline__ Walk() {
    const int index = blockIdx.x / K_BLOCKS, count = gridDim.x / K_BLOCKS;
    if constexpr (kRowOrder == UNITS) {
      next = index;
      end = UNIT_COUNT;
      step = count;
    } else {
      next = index * (OUTPUT_ROWS / count) + min(index, OUTPUT_ROWS % count);
      end = next + OUTPUT_ROWS / count + (index < OUTPUT_ROWS % count);
      step = 0;
    }
  }
  __device__ __forceinline__ bool take(Segment& segment) {
    if (next >= end) return false;
    if constexpr (kRowOrder == UNITS) {
      segment.n = next / UNITS_OF_IMAGE;
      segment.p = next % UNITS_OF_IMAGE * UNIT_ROWS;
      segment.rows = min(UNIT_ROWS, P - segment.p);
      next += step;
    } else {
      segment.n = next / P;
      segment.p = next % P;
      segment.rows = min(P - segment.p, end - next);
      next += segment.rows;
    }
    return true;
  }
};
