// ---- planes of x: the pixels that lie a whole number of strides apart ----
__device__ constexpr int floor_div(int a, int b) { return (a - ((a % b) + b) % b) / b; }
__device__ constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }
// One axis. A tap reads, for output o, element o + shift(tap) of plane(tap). A plane's taps are every PERIOD-th, and its
// next tap lies SHIFT_STEP elements further.
template <int STRIDE, int DILATION, int PAD, int TAPS>
struct Axis {
  static constexpr int PERIOD = STRIDE / gcd(STRIDE, DILATION), SHIFT_STEP = PERIOD * DILATION / STRIDE;
  static constexpr int USED = PERIOD < TAPS ? PERIOD : TAPS;  // planes that have taps: those of taps 0 ... USED - 1
  static __device__ constexpr int shift(int tap) { return floor_div(tap * DILATION - PAD, STRIDE); }
  static __device__ constexpr int count(int first_tap) { return (TAPS - 1 - first_tap) / PERIOD + 1; }
  static __device__ constexpr int extent(int tile) { return tile + (count(0) - 1) * SHIFT_STEP; }  // of every patch
};
using Vertical = Axis<STRIDE_H, DILATION_H, PAD_TOP, R>;
using Horizontal = Axis<STRIDE_W, DILATION_W, PAD_LEFT, S>;
constexpr int PLANES = Vertical::USED * Horizontal::USED;
struct Plane {
  int first_r, first_s;    // its first tap
  int taps_h, taps_w;      // its taps
  int shift_h, shift_w;    // of the first tap: where the patch begins, from the tile
};
__device__ __forceinline__ Plane plane_at(int i) {
  const int r = i / Horizontal::USED, s = i % Horizontal::USED;
  return {r, s, Vertical::count(r), Horizontal::count(s), Vertical::shift(r), Horizontal::shift(s)};
}

// ---- sizes ----
constexpr int WARPGROUPS = kProducers + kConsumers, THREADS = 128 * WARPGROUPS;
// Registers of a thread: all have as many at the launch; then consumers take what producers give.
constexpr int LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8;
constexpr int PRODUCER_REGISTERS = kProducers == 2 || kStoredByProducers ? 40
                                   : kTransposed || kSplitOperands      ? 56
                                   : kConsumers == 2                    ? 24
                                                                        : 32;
constexpr int CONSUMER_REGISTERS = (LAUNCH_REGISTERS * WARPGROUPS - PRODUCER_REGISTERS * kProducers) / kConsumers / 8 * 8;
constexpr int BLOCK_N = kSplit == FILTERS ? 64 * kConsumers : 64;  // output channels of a tile
constexpr int CHUNKS = (CHANNELS + BLOCK_K - 1) / BLOCK_K;
constexpr int OPERAND_BYTES = kScaled ? 2 : sizeof(Element);  // of an element in shared memory
constexpr int STEP_BYTES = 32, STEP_K = STEP_BYTES / (kSplitOperands ? 2 : OPERAND_BYTES);  // along K, of one wgmma
constexpr int STEPS = BLOCK_K / STEP_K;                                         // wgmmas along a chunk
constexpr int LAST_STEPS = (CHANNELS - (CHUNKS - 1) * BLOCK_K + STEP_K - 1) / STEP_K;  // of the last chunk
constexpr int ROW_BYTES = BLOCK_K * OPERAND_BYTES;                              // of a pixel or filter
constexpr int PATCH_H = Vertical::extent(TILE_P), PATCH_W = kRepeated ? TILE_Q : Horizontal::extent(TILE_Q);
constexpr int PATCH_COPIES = kRepeated ? Horizontal::count(0) : 1;  // one a tap of a row, each with the columns that it reads
constexpr int PATCH_PITCH = PATCH_W * TILE_N * ROW_BYTES;  // bytes from one row of x to the next
constexpr int PATCH_BYTES = PATCH_COPIES * PATCH_H * PATCH_PITCH;
constexpr int PATCH_STAGE = (PATCH_BYTES + 1023) / 1024 * 1024;
constexpr int FILTER_RINGS = kStaggered && !kFilterResident ? kConsumers : 1;  // of stages
constexpr int FILTER_BYTES = (FILTER_RINGS > 1 ? 64 : BLOCK_N) * ROW_BYTES;
constexpr int FILTER_BUFFERS = kFilterResident ? R * S * CHUNKS : FILTER_RINGS * kFilterStages;
constexpr int SUBTILES = kMapping == BLOCK ? TILE_Q / 8 : TILE_P / JOINED_ROWS;
constexpr int OWN_SUBTILES = kSplit == PIXELS ? SUBTILES / kConsumers : SUBTILES;  // of a consumer
constexpr int SUBTILE_STEP = kMapping == BLOCK ? 8 * ROW_BYTES : JOINED_ROWS * PATCH_PITCH;
constexpr int GROUP_STEP = kMapping == BLOCK ? PATCH_PITCH : 8 * ROW_BYTES;  // from 8 pixels to the next 8
constexpr int GROUPS_N = WGMMA_N / 8;
constexpr int SUM_GROUPS = OWN_SUBTILES * GROUPS_N;  // of a consumer
// What one consumer stores of a tile.
constexpr int OWN_P = kSplit == PIXELS && kMapping == ROWS ? TILE_P / kConsumers : TILE_P;
constexpr int OWN_Q = kSplit == PIXELS && kMapping == BLOCK ? TILE_Q / kConsumers : TILE_Q;
// Staging of a consumer: 64 channels a pixel, in parts of 128 bytes a pixel.
constexpr int OUTPUT_UNIT = 16 / sizeof(Output);
constexpr int STORE_PARTS = sizeof(Output) / 2, PART_CHANNELS = 64 / STORE_PARTS, PART_BYTES = STORE_GROUPS * 1024;
// NCHW: (64, STAGING_PITCH) of pixels; the pad spreads channels over the banks.
constexpr int STAGING_PITCH = STORE_GROUPS * 8 + (STORE_GROUPS % 2 == 0 ? 8 : 16);
// Groups of images: (TILE_N, 64, .) of pixels; the pitches spread what the lanes of a warp write at a time over the banks.
constexpr bool kRuns = !kOutputChannelsLast && !kSplitOperands && kClusterK == 1 && kMapping == ROWS && JOINED_ROWS == 1 &&
                       (TILE_N == 2 || TILE_N == 4 || TILE_N % 8 == 0) && WGMMA_N == TILE_N * TILE_Q;
constexpr int RUN_WORDS = (STORE_GROUPS / GROUPS_N * TILE_Q * sizeof(Output) + 3) / 4;
constexpr int CHANNEL_PITCH = (RUN_WORDS / 2 * 2 + 1) * 4 / sizeof(Output), IMAGE_PITCH = 64 * CHANNEL_PITCH + OUTPUT_UNIT;
// By bulk copies: (64, BULK_PITCH) of the pixels of whole rows; an odd number of 16 bytes spreads channels over the banks.
constexpr int BULK_PITCH = ((OWN_P * Q + 2 * OUTPUT_UNIT - 2) / OUTPUT_UNIT | 1) * OUTPUT_UNIT;
constexpr int STAGING_BYTES = kSplitOperands        ? 0  // y leaves from registers
                              : kOutputChannelsLast ? STORE_PARTS * PART_BYTES
                              : kBulkStored         ? 64 * BULK_PITCH * sizeof(Output)
                              : kRuns               ? TILE_N * IMAGE_PITCH * sizeof(Output)
                                                    : 64 * STAGING_PITCH * sizeof(Output);
// Shared memory: buffers, then staging. Where a CTA has one tile, what comes after the products may lie over the buffers.
constexpr int BUFFER_BYTES = FILTER_BUFFERS * FILTER_BYTES + kPatchStages * PATCH_STAGE;
constexpr int SUM_BYTES = SUM_GROUPS * 128 * 16;  // of a consumer's partial sums
constexpr int STAGING_AT = kClusterK > 1 ? kConsumers * SUM_BYTES : kStagingOverBuffers ? 0 : BUFFER_BYTES;
constexpr int STAGING_PARTS = kConsumers * (kStoredByProducers ? SUM_GROUPS / STORE_GROUPS : 1);
constexpr int STAGING_END = STAGING_AT + STAGING_PARTS * STAGING_BYTES;
constexpr int BARRIERS_AT = STAGING_END > BUFFER_BYTES ? STAGING_END : BUFFER_BYTES;
constexpr int STAGING_BARRIERS = kStoredByProducers ? STAGING_PARTS : 0;
constexpr int SMEM_END = BARRIERS_AT + 16 * (kPatchStages + FILTER_RINGS * kFilterStages + STAGING_BARRIERS) + 8 * kConsumers;
constexpr int TILES_N = (N + TILE_N - 1) / TILE_N, TILES_P = (P + TILE_P - 1) / TILE_P;
constexpr int TILES_Q = (Q + TILE_Q - 1) / TILE_Q, TILES_K = (K + BLOCK_N - 1) / BLOCK_N;
constexpr int TILE_COUNT = TILES_N * TILES_P * TILES_Q * TILES_K;
// Zeros of the padding meet the filter: an Inf or a NaN there makes a NaN. Integers have neither; split operands have a
// repair of their own. Scaled ones make NaNs where an Inf meets what is too small for a half.
constexpr bool kRepair = (kHasPadding || kScaled) && kProduct != S8 && !kSplitOperands;

// The N of wgmma that holds so many pixels.
__device__ constexpr int wgmma_columns(int pixels) {
  const int step = kProduct == S8 && pixels > 32 ? 16 : 8;
  return (pixels + step - 1) / step * step;
}

// ---- what the parameters must obey ----
static_assert(CHANNELS % UNIT == 0 && (!kOutputChannelsLast || kSplitOperands || K % OUTPUT_UNIT == 0), "TMA's strides are multiples of 16 bytes");
static_assert(ROW_BYTES == 128 || ROW_BYTES == 64, "a row of a patch is one swizzle span");
static_assert(WGMMA_N == wgmma_columns(WGMMA_N) && WGMMA_N <= 256, "the N of wgmma");
static_assert(kMapping == BLOCK ? TILE_N == 1 && TILE_Q % 8 == 0 && WGMMA_N == 8 * TILE_P && JOINED_ROWS == 1
                                : TILE_P % JOINED_ROWS == 0 &&
                                      WGMMA_N == wgmma_columns(((JOINED_ROWS - 1) * PATCH_W + TILE_Q) * TILE_N),
              "a subtile is WGMMA_N pixels");
static_assert(kSplit != PIXELS || SUBTILES % kConsumers == 0, "each consumer has as many subtiles");
static_assert((kPatchStages > 1 || PLANES * CHUNKS == 1) && (kFilterStages > 1 || kFilterResident),
              "a buffer is given back once the products of the next one are under way");
static_assert(!kTransposed || !kInputChannelsLast, "an NHWC x needs no transposition");
static_assert(sizeof(Element) > 1 || kInputChannelsLast, "8-bit elements are neither transposed nor turned");
static_assert(kProducers == 1 || ((kTransposed || kSplitOperands) && kConsumers > 1), "a second warpgroup of producers has nothing to do");
static_assert(kSplit != TILES || kFilterResident, "consumers at different tiles do not share filter stages");
static_assert(kSplit != TILES || kOrdered || kPatchStages % (kConsumers * PLANES * CHUNKS) == 0,
              "a patch stage serves one consumer, or turns tell the rounds apart");
static_assert(!kPromoted || kProduct == E4M3 || kProduct == E5M2, "the sums of other types need no promotion");
static_assert(!kOrdered || (kSplit == TILES && kConsumers > 1), "turns are for consumers of different tiles");
static_assert(!kFilterResident || TILES_K == 1 || (!kTileOrderZigzag && !kSplitOperands), "resident filters are those of one tile: the grid is a multiple of TILES_K");
static_assert(!kStoredByProducers || (!kOutputChannelsLast && !kTransposed && !kRepair && !kStagingOverBuffers && kClusterK == 1),
              "idle warps copy an NCHW y, nothing else");
static_assert(!kStagingOverBuffers || kSplit != TILES, "the consumers are done with the buffers together");
static_assert(kRuns ? SUM_GROUPS % STORE_GROUPS == 0 && STORE_GROUPS % GROUPS_N == 0
              : kClusterK > 1 || STORE_GROUPS == GROUPS_N || (GROUPS_N % STORE_GROUPS == 0 && STORE_GROUPS * 8 % TILE_N == 0 && WGMMA_N == (kMapping == BLOCK ? 8 * TILE_P : TILE_Q * TILE_N)),
              "a part of a subtile that is stored alone is whole pixels");
static_assert(kClusterK > 1 || JOINED_ROWS == 1 || STORE_GROUPS == GROUPS_N, "joined rows are staged together");
static_assert(!kScaled || (sizeof(Element) == 4 && kProduct == F16 && kClusterK == 1 && !kTransposed && !kStoredByProducers), "halves of tf32 that TMA brings, and consumers of whole tiles");
static_assert(!kScaled || TILE_N <= 2 || TILE_N == 4 || TILE_N % 8 == 0, "a lane has pixels of two images of 8");
static_assert(kClusterK == 1 || (!kFilterResident && !kTransposed), "a cluster's CTAs stream what they multiply");
static_assert(kClusterK == 1 || STORE_GROUPS == (SUM_GROUPS + kClusterK - 1) / kClusterK, "a CTA of a cluster stores its share");
static_assert(kClusterK <= CHUNKS * R * S, "each CTA of a cluster has a tap");
static_assert(PATCH_W <= 256 && PATCH_H <= 256 && TILE_N <= 256, "a box of TMA");

// ---- shared memory ----
struct Smem {
  unsigned char* patches;  // (kPatchStages, PATCH_H, PATCH_W, TILE_N, BLOCK_K); the last pixels of a run may lie beyond one
  unsigned char* filters;  // (FILTER_BUFFERS, BLOCK_N or of one consumer 64, BLOCK_K)
  unsigned char* sums;     // of a cluster: (kConsumers, SUM_GROUPS, 128, 4) of Sum, over the buffers
  unsigned char* staging;  // (kConsumers, STORE_PARTS, STORE_GROUPS * 8, PART_CHANNELS); NCHW: (.., 64, STAGING_PITCH)
  uint64_t *patch_full, *patch_empty, *filter_full, *filter_empty, *staging_full, *staging_empty;
  int* saw_nan;  // (kConsumers, 2): whether an accumulator of the tile is NaN; tiles take turns
};
__device__ __forceinline__ Smem shared_memory(unsigned char* memory) {
  Smem smem;
  smem.patches = memory;
  smem.filters = smem.patches + kPatchStages * PATCH_STAGE;
  smem.sums = memory;
  smem.staging = memory + STAGING_AT;
  smem.patch_full = reinterpret_cast<uint64_t*>(memory + BARRIERS_AT);
  smem.patch_empty = smem.patch_full + kPatchStages;
  smem.filter_full = smem.patch_empty + kPatchStages;
  smem.filter_empty = smem.filter_full + FILTER_RINGS * kFilterStages;
  smem.staging_full = smem.filter_empty + FILTER_RINGS * kFilterStages;
  smem.staging_empty = smem.staging_full + STAGING_BARRIERS;
  smem.saw_nan = reinterpret_cast<int*>(smem.staging_empty + STAGING_BARRIERS);
  return smem;
}

// ---- tiles, and the CTA's share of one ----
__device__ __forceinline__ int first_tile() { return blockIdx.x / kClusterK; }
__device__ __forceinline__ int tile_step() { return gridDim.x / kClusterK; }

// Taps of all chunks, counted in the order in which they are multiplied.
struct Share {
  int begin, end;

  __device__ __forceinline__ bool holds(int tap, int count = 1) const {  // one of them
    return kClusterK == 1 || (tap < end && tap + count > begin);
  }
  __device__ __forceinline__ int first_chunk() const { return begin / (R * S); }
  __device__ __forceinline__ int last_chunk() const { return (end - 1) / (R * S); }
};
__device__ __forceinline__ Share own_share() {
  if constexpr (kClusterK == 1) return {0, CHUNKS * R * S};
  const int rank = ptx::cluster_ctarank();
  return {CHUNKS * R * S * rank / kClusterK, CHUNKS * R * S * (rank + 1) / kClusterK};
}

// The place of a tile: its first image, output row and column, output channel.
struct Origin {
  int n, p, q, k;
};
__device__ __forceinline__ Origin origin_of(int tile) {
  int k = tile % TILES_K;
  tile /= TILES_K;
  if (kTileOrderZigzag && tile % 2 == 1) k = TILES_K - 1 - k;
  const int q = tile % TILES_Q, p = tile / TILES_Q % TILES_P, n = tile / (TILES_Q * TILES_P);
  return {n * TILE_N, p * TILE_P, q * TILE_Q, k * BLOCK_N};
}
// What a consumer stores of it.
__device__ __forceinline__ Origin consumer_origin(int tile, int index) {
  Origin origin = origin_of(tile);
  if (kSplit == FILTERS) origin.k += index * 64;
  if (kSplit == PIXELS && kMapping == ROWS) origin.p += index * OWN_P;
  if (kSplit == PIXELS && kMapping == BLOCK) origin.q += index * OWN_Q;
  return origin;
}
