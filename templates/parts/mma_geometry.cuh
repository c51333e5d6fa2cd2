// ---- the K axis ----
constexpr bool kColumnOrder = kOrder == COLUMN, kRunOrder = kOrder == RUN;
constexpr int TAPS = kRunOrder ? 1 : kColumnOrder ? S : R * S;
constexpr int CHUNKS = (CHANNELS + PATCH_K - 1) / PATCH_K;
constexpr int STEP_K = MMA_K, STEP_UNITS = STEP_K / UNIT;  // K of one mma; 16-byte units
constexpr int STEPS = BLOCK_K / STEP_K;  // of a slice
constexpr int TAP_UNITS = PATCH_K / UNIT, CHUNK_UNITS = TAPS * TAP_UNITS;  // units of a tap, of a chunk
constexpr int CHUNK_SLICES = (TAPS * PATCH_K + BLOCK_K - 1) / BLOCK_K;
constexpr int ITERATIONS = CHUNKS * CHUNK_SLICES;  // slices in all
constexpr bool kSliceInTap = PATCH_K % BLOCK_K == 0;  // no slice reaches into the next tap
constexpr int TAP_SLICES = kSliceInTap ? PATCH_K / BLOCK_K : 1;
constexpr int WARP_STEPS = STEPS / WARPS_K;  // of a slice, for one warp
constexpr bool kFp64 = sizeof(Element) == 8;
constexpr int FRAGS_M = WARP_M / 16, FRAGS_N = WARP_N / 8;  // of a warp's tile: one mma is 16 pixels x 8 channels

// ---- what the parameters must obey ----
static_assert(STEP_UNITS % 2 == 0 && BLOCK_K % STEP_K == 0 && PATCH_K % UNIT == 0 && CHANNELS % UNIT == 0, "K is cut in whole units");
static_assert(STEPS % WARPS_K == 0, "the warps of a tile take turns in a slice");
static_assert(kFragmentStages == 1 || (WARP_STEPS % 2 == 0 && kNumStages > 1), "two sets of fragments take turns");
static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "a warp's tile is whole fragments");
static_assert(TILE_PIXELS <= BLOCK_M, "the pixel tile must fit BLOCK_M");
static_assert(CHUNKS == 1 ? PATCH_K == CHANNELS : kSliceInTap && kOrder == ROW, "chunks are cut in row order, by taps");
static_assert(kStaging == WINDOW || kOrder == (kStaging == TAP ? ROW : COLUMN),
              "tap is in row, explicit in column order");
static_assert(!kSpreadCopies || (kStaging == WINDOW && kOrder == ROW && kInputChannelsLast && COPY_BYTES >= 4),
              "only asynchronous copies of a row-order patch are spread");
static_assert(!kSpreadCopies || (CHUNKS > 1 && kNumStages > 1 && CHUNK_SLICES > kNumStages),
              "copies are spread over the slices of the chunk before");
static_assert(!kRunOrder || (kStaging == WINDOW && kInputChannelsLast && DILATION_W == 1), "a run is contiguous in x");
static_assert(!kRunOrder || STRIDE_W * C * sizeof(Element) % 4 == 0, "a pixel of a run begins at a 4-byte word");
static_assert(kStaging == WINDOW || CHUNKS == 1, "only the window is cut in chunks");

// Zeros of the filter meet elements of x outside the window where a run is padded; zeros of the padding meet the
// filter: an Inf or a NaN there makes a NaN, and such outputs are computed again.
// Split numbers overflow where fp32 doesn't, and those of an Inf make a NaN.
constexpr bool kRepair = kHasPadding || kRunOrder || kSplit;

// ---- shared memory ----
// The pitch, in 16-byte units, of rows of so many: an odd one, so that ldmatrix finds a unit of eight consecutive rows in
// different banks; for fp64 two beyond a multiple of four, so that two units of four rows, which half a warp loads, are.
__device__ constexpr int spread(int units) {
  return kFp64 ? units + (6 - units % 4) % 4 : units | 1;
}
constexpr int B_PITCH = spread(BLOCK_K / UNIT) * UNIT;
constexpr int B_STAGE = BLOCK_N * B_PITCH;
// The patch: [image][row][phase][column] pixels. Column w of the patch lies at phase w % STRIDE_W, place w / STRIDE_W,
// so that neighbouring output pixels read neighbouring places for any stride. In column order a row is an output row.
constexpr int PATCH_H = kColumnOrder ? TILE_P : (TILE_P - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int PATCH_W = (TILE_Q - 1) * STRIDE_W + (S - 1) * DILATION_W + 1;
constexpr int PHASE_COLUMNS = (PATCH_W + STRIDE_W - 1) / STRIDE_W;
constexpr int ROW_STEP = kColumnOrder ? 1 : STRIDE_H;  // patch rows from one output row to the next
// The least pitch from `least` on that brings the next row to the bank after the last of `pixels` pixels, if any.
__device__ constexpr int bank_pitch(int least, int step, int pixels) {
  for (int pitch = least; kPadRows && pitch < least + 8; ++pitch)
    if ((pitch * step - pixels) % 8 == 0) return pitch;
  return least;
}
constexpr int PATCH_ROW = bank_pitch(STRIDE_W * PHASE_COLUMNS, ROW_STEP, TILE_Q);  // places from one row to the next
constexpr int PATCH_IMAGE = bank_pitch(PATCH_H * PATCH_ROW, 1, TILE_P * TILE_Q);   // places from one image to the next
constexpr int A_PITCH = kStaging == WINDOW ? spread(TAP_UNITS) * UNIT : B_PITCH;
// Run order: the patch is [image][row][element], rows of x as they lie in memory, whole words each.
constexpr int WORD = kFp64 ? 1 : 4 / sizeof(Element);
constexpr int RUN_ROW = (PATCH_W * C + WORD - 1) / WORD * WORD;
constexpr int A_STAGE = kStaging != WINDOW ? BLOCK_M * A_PITCH
                        : kRunOrder        ? (TILE_N * PATCH_H * RUN_ROW + UNIT - 1) / UNIT * UNIT
                                           : TILE_N * PATCH_IMAGE * A_PITCH;
// A patch buffer is free again when its chunk's slices are over. It is written again with a slice that is copied
// kNumStages - 1 slices ahead: so many slices must lie between.
constexpr int kWantedPatches = 1 + (kNumStages - 1 + CHUNK_SLICES - 1) / CHUNK_SLICES;
constexpr int A_BUFFERS = kStaging != WINDOW ? kNumStages : kWantedPatches < CHUNKS ? kWantedPatches : CHUNKS;
constexpr int A_ELEMENTS = A_BUFFERS * A_STAGE, B_ELEMENTS = kNumStages * B_STAGE;
constexpr int OUT_PITCH = (kOutputChannelsLast ? BLOCK_N : BLOCK_M) + UNIT;  // of the output tile, in y's order
constexpr int RUN_WORDS = kRunOrder ? ITERATIONS * BLOCK_K / WORD : 0;  // of the K axis
static_assert(A_ELEMENTS + B_ELEMENTS < (1 << 20), "offsets into shared memory are small");
static_assert(int64_t(BLOCK_N) * TAPS * CHANNELS < int64_t(1) << 31, "offsets within the CTA's filters are 32-bit");

struct Smem {
  Element* zero;  // one unit of zeros: A beyond the last tap
  int* runs;      // run order: where in the patch each word of the K axis lies, from a pixel's place
  Element* a;     // (A_BUFFERS, A_STAGE)
  Element* b;     // (kNumStages, BLOCK_N, B_PITCH)
};

// A slice of BLOCK_K elements of the K axis, and its places in the rings of buffers.
struct Slice {
  int chunk = 0, index = 0;    // index: within the chunk
  int b_slot = 0, a_slot = 0;  // of the stages of B; of the patch buffers, or of the stages of A

  __device__ __forceinline__ void advance() {
    b_slot = b_slot + 1 == kNumStages ? 0 : b_slot + 1;
    if (++index == CHUNK_SLICES) {
      index = 0;
      ++chunk;
      if (kStaging == WINDOW) a_slot = next_a_slot();
    }
    if (kStaging != WINDOW) a_slot = b_slot;
  }
  __device__ __forceinline__ int next_a_slot() const { return a_slot + 1 == A_BUFFERS ? 0 : a_slot + 1; }  // of a chunk
  // Where kSliceInTap: the tap, and the first channel within the chunk.
  __device__ __forceinline__ int tap() const { return index / TAP_SLICES; }
  __device__ __forceinline__ int channel() const { return index % TAP_SLICES * BLOCK_K; }
};

// The first output pixel of the CTA's tile, and its first output channel.
struct Origin {
  int n, p, q, k;
};
