// ---- lines, tiles and shared memory ----
constexpr int ROW_BYTES = 128;                      // of a line, and of the filters in shared memory
constexpr int LINE = ROW_BYTES / sizeof(Element), BLOCK_K = LINE;
constexpr int STEP_K = 32 / sizeof(Element), STEPS = BLOCK_K / STEP_K;  // of a wgmma
constexpr int CHUNKS = (C + BLOCK_K - 1) / BLOCK_K;
constexpr bool kFlat = STRIDE_H == 1 && STRIDE_W == 1;  // an image is one row
constexpr int ROWS = kFlat ? 1 : P, ROW_PIXELS = kFlat ? P * Q : Q;
constexpr int LINE_PIXELS = LINE / STRIDE_W, ROW_LINES = (ROW_PIXELS + LINE_PIXELS - 1) / LINE_PIXELS;
constexpr int LINES = N * ROWS * ROW_LINES;
constexpr int SUBTILE_LINES = 64 / LINE_PIXELS, CONSUMER_LINES = SUBTILES * SUBTILE_LINES;
constexpr int TILE_LINES = kConsumers * CONSUMER_LINES;
constexpr int BLOCKS_K = (K + BLOCK_N - 1) / BLOCK_N;               // of output channels
constexpr int TILE_BLOCKS = kFilterResident ? BLOCKS_K : 1, TILES_K = BLOCKS_K / TILE_BLOCKS;
constexpr int TILE_COUNT = (LINES + TILE_LINES - 1) / TILE_LINES * TILES_K;
constexpr int BOX_BYTES = BLOCK_K * ROW_BYTES, INPUT_BYTES = TILE_LINES * BOX_BYTES, FILTER_BYTES = BLOCK_N * ROW_BYTES;
constexpr int STAGE_BYTES = INPUT_BYTES + (kFilterResident ? 0 : FILTER_BYTES);
constexpr int THREADS = 128 * (kConsumers + 1);
constexpr int PRODUCER_REGISTERS = kConsumers == 2 ? 24 : 32;
constexpr int CONSUMER_REGISTERS = kConsumers == 2 ? 240 : 160;
static_assert(R == 1 && S == 1 && GROUPS == 1 && !kHasPadding && !kInputChannelsLast, "a pointwise convolution of an NCHW x");
static_assert(STRIDE_W <= 2, "lines of 16 pixels or more");
static_assert(kRowsMerged == 1 || (!kFlat && H % kRowsMerged == 0 && STRIDE_H % kRowsMerged == 0), "a line begins where merged rows do");
static_assert(BLOCK_N % 8 == 0 && BLOCK_N <= 256, "the N of wgmma");
static_assert(kConsumers <= 3 && TILE_LINES < 32, "a lane loads a line");
static_assert(TILE_BLOCKS == 1 || kStages >= CHUNKS, "the lines of a tile are there together");

struct Smem {
  unsigned char* stages;   // (kStages; TILE_LINES, BLOCK_K, 128 bytes), each followed by its filters unless they are resident
  unsigned char* filters;  // (BLOCKS_K, CHUNKS, BLOCK_N, 128 bytes) of resident ones
  uint64_t *full, *empty, *filters_full;
};
__device__ __forceinline__ Smem shared_memory(unsigned char* memory) {
  Smem smem;
  smem.stages = memory;
  smem.filters = memory + kStages * STAGE_BYTES;
  smem.full = reinterpret_cast<uint64_t*>(smem.filters + (kFilterResident ? BLOCKS_K * CHUNKS * FILTER_BYTES : 0));
  smem.empty = smem.full + kStages;
  smem.filters_full = smem.empty + kStages;
  return smem;
}
__device__ __forceinline__ void init_barriers(const Smem& smem) {
  for (int i = 0; i < kStages; ++i) {
    ptx::mbarrier_init(smem.full + i, 1);
    ptx::mbarrier_init(smem.empty + i, 4 * kConsumers);
  }
  ptx::mbarrier_init(smem.filters_full, 1);
}

// The place of a line: its image, output row and first output pixel in it. Lines beyond the last are of images beyond the last.
struct Line {
  int n, row, pixel;
};
__device__ __forceinline__ Line line_at(int index) {
  return {index / (ROWS * ROW_LINES), index / ROW_LINES % ROWS, index % ROW_LINES * LINE_PIXELS};
}
