// Global to shared memory: the patch, element by element (or X_VECTOR at once), and the filters, 16 bytes at once.
//
// The places of the patch (all of one channel) are the same in every channel, so where each comes from and goes to is
// worked out once for a tap group and kept in shared memory: the copy plan.
struct alignas(8) PatchCopy {
  uint32_t source;  // bytes from the chunk's first channel in image Tile::n, or kOutside: zeros
  uint32_t target;  // bytes from the channel's start in the patch
};
constexpr uint32_t kOutside = 0xFFFFFFF0;

constexpr int COPY_COLUMNS = (COLUMNS + X_VECTOR - 1) / X_VECTOR;  // of a patch row
constexpr int PLACES = kExplicit ? TILE_N * TILE_P * COLUMNS * BLOCK_R : TILE_N * ROWS * COPY_COLUMNS;
constexpr int PLACE_LANES = THREADS / CHANNEL_LANES;
constexpr bool kOneTapGroup = BLOCK_R == R && BLOCK_S == S;
// Without padding all tap groups copy the same places, each from its own distance into x: they share one plan.
constexpr bool kOnePlan = kOneTapGroup || (!kHasPadding && !kExplicit);
constexpr bool kHasPlan =  // else every entry would be used but once
    BLOCK_C < C || CHANNEL_LANES > 1 || (kOnePlan && !kOneTapGroup);

constexpr int64_t IMAGE_ELEMENTS = kExplicit ? int64_t(kInputChannelsLast ? 1 : C) * P * PADDED_W * COLUMN_PITCH
                                             : int64_t(C) * H * W;
constexpr int64_t CHANNEL_STEP = kInputChannelsLast ? 1 : IMAGE_ELEMENTS / C;  // elements from one channel to the next
constexpr int BYTES = sizeof(Element), COPY_BYTES = X_VECTOR * BYTES;
static_assert(TILE_N * IMAGE_ELEMENTS * BYTES < kOutside, "byte offsets within a box are 32-bit");
static_assert(THREADS % CHANNEL_LANES == 0, "whole groups of copying threads");
static_assert(COPY_BYTES <= 16, "a copy has 16 bytes at most");
static_assert(X_VECTOR == 1 || (!kInputChannelsLast && !kExplicit && !kPixelColumns && STRIDE_W == 1),
              "vectors of x run along w");
static_assert(W % X_VECTOR == 0 && PAD_LEFT % X_VECTOR == 0 &&
                  (TILE_Q % X_VECTOR == 0 || TILE_Q >= Q),
              "vectors of x are aligned and never straddle the image's edge");

// A place of the patch, in the order in which the source lies in memory; (r, s) is the first tap of the group.
__device__ __forceinline__ PatchCopy patch_copy(const Tile& tile, int r, int s, int place) {
  if constexpr (kExplicit) {
    const int row = place % BLOCK_R, column = place / BLOCK_R % COLUMNS;
    const int p = place / (BLOCK_R * COLUMNS) % TILE_P, n = place / (BLOCK_R * COLUMNS * TILE_P);
    const int padded_w = tile.q * STRIDE_W + column * COLUMN_STEP;
    const bool inside = tile.n + n < N && tile.p + p < P && padded_w < PADDED_W;
    const int source = n * int(IMAGE_ELEMENTS) + ((tile.p + p) * PADDED_W + padded_w) * COLUMN_PITCH +
                       (r + row) * (kInputChannelsLast ? C : 1);
    const int target = n * IMAGE_PITCH + p * PIXEL_ROW_STEP + row * TAP_ROW_STEP + column % PHASES * PHASE_PITCH +
                       column / PHASES;
    return {inside ? uint32_t(source) * BYTES : kOutside, uint32_t(target) * BYTES};
  } else {
    const int column = place % COPY_COLUMNS * X_VECTOR, row = place / COPY_COLUMNS % ROWS;
    const int n = place / (COPY_COLUMNS * ROWS);
    const int window_row = kSharedRows ? row : row / BLOCK_R * STRIDE_H + row % BLOCK_R * DILATION_H;
    const int h = tile.p * STRIDE_H - PAD_TOP + r * DILATION_H + window_row;
    const int col = tile.q * STRIDE_W - PAD_LEFT + s * DILATION_W + column * COLUMN_STEP;
    // Without padding, the rows and columns that outputs need lie in x for every tap.
    const bool rows = kHasPadding    ? unsigned(h) < unsigned(H)
                      : kSharedRows ? window_row <= (least(TILE_P, P - tile.p) - 1) * STRIDE_H + (BLOCK_R - 1) * DILATION_H
                                    : tile.p + row / BLOCK_R < P;
    const bool columns = kHasPadding || !kPixelColumns ? unsigned(col) < unsigned(W) : tile.q + column < Q;
    const bool inside = tile.n + n < N && rows && columns;
    const int source = n * int(IMAGE_ELEMENTS) + (h * W + col) * (kInputChannelsLast ? C : 1);
    const int target = n * IMAGE_PITCH + row * ROW_PITCH + column % PHASES * PHASE_PITCH + column / PHASES;
    return {inside ? uint32_t(source) * BYTES : kOutside, uint32_t(target) * BYTES};
  }
}

__device__ __forceinline__ void write_plan(PatchCopy* smem_plan, const Tile& tile, int r, int s) {
  __syncthreads();  // the last copies by the old plan are issued
#pragma unroll 1
  for (int place = threadIdx.x; place < PLACES; place += THREADS) smem_plan[place] = patch_copy(tile, r, s, place);
  __syncthreads();  // the plan is complete
}

// Channels c .. c + BLOCK_C of the patch; channels from C on are zeros.
__device__ __forceinline__ void load_patch(Element* smem_patch, const PatchCopy* smem_plan, const Tile& tile,
                                           const Element* source, int r, int s, int c) {
  const int thread = threadIdx.x;
  const int channel_lane = kInputChannelsLast ? thread % CHANNEL_LANES : thread / PLACE_LANES;
  const int place_lane = kInputChannelsLast ? thread / CHANNEL_LANES : thread % PLACE_LANES;
  const char* const from =
      reinterpret_cast<const char*>(source + tile.n * IMAGE_ELEMENTS + (c + channel_lane) * CHANNEL_STEP) +
      (kOnePlan && !kOneTapGroup ? (r * DILATION_H * W + s * DILATION_W) * (kInputChannelsLast ? C : 1) * BYTES : 0);
  char* const to = reinterpret_cast<char*>(smem_patch + channel_lane * CHANNEL_PITCH);
#pragma unroll
  for (int i = 0; i < (PLACES + PLACE_LANES - 1) / PLACE_LANES; ++i) {
    const int place = place_lane + i * PLACE_LANES;
    if (PLACES % PLACE_LANES != 0 && place >= PLACES) break;
    const PatchCopy copy = kHasPlan ? smem_plan[place] : patch_copy(tile, r, s, place);
#pragma unroll
    for (int j = 0; j < BLOCK_C; j += CHANNEL_LANES) {
      if (BLOCK_C % CHANNEL_LANES != 0 && channel_lane + j >= BLOCK_C) break;
      const bool inside = copy.source != kOutside && (C % BLOCK_C == 0 || c + channel_lane + j < C);
      char* const smem = to + j * CHANNEL_PITCH * BYTES + copy.target;
      const char* const gmem = from + copy.source + j * CHANNEL_STEP * BYTES;
      if constexpr (COPY_BYTES == 16)
        ptx::cp_async_cg_16(smem, gmem, inside);
      else if constexpr (COPY_BYTES == 8)
        ptx::cp_async_ca_8(smem, gmem, inside);
      else
        ptx::cp_async_ca_4(smem, gmem, inside);
    }
  }
}

// The group's taps from (r, s) on, for channels c .. c + BLOCK_C and the CTA's filters; what is beyond C or K is zero.
// A thread keeps its filters; it steps through channels and taps by constants, so one address serves all its copies.
constexpr int UNIT_LANES = BLOCK_N / UNIT, ROW_LANES = UNIT_LANES < THREADS ? THREADS / UNIT_LANES : 1;
__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

__device__ __forceinline__ void load_filter(Element* smem_filter, const Tile& tile, const Element* packed, int r, int s,
                                            int c) {
  constexpr int C_LANES = common_divisor(ROW_LANES, BLOCK_C), TAP_LANES = ROW_LANES / C_LANES;
  static_assert(UNIT_LANES <= THREADS, "one thread for every 16 bytes of a row of filters");
  const int filter = threadIdx.x % UNIT_LANES * UNIT, row = threadIdx.x / UNIT_LANES;
  const int channel = row % C_LANES, tap = row / C_LANES;
  if (THREADS % UNIT_LANES != 0 && row >= ROW_LANES) return;
  const bool filter_inside = FILTERS % BLOCK_N == 0 || tile.k + filter < FILTERS;
  Element* const to = smem_filter + (tap * BLOCK_C + channel) * BLOCK_N + filter;
  // The taps of a group are whole filter rows, or one tap: they follow one another in `packed` too.
  const Element* const from = packed + (int64_t(r * S + s + tap) * C + c + channel) * FILTERS + tile.k + filter;
#pragma unroll
  for (int i = 0; i < TAPS; i += TAP_LANES) {
    if (TAPS % TAP_LANES != 0 && tap + i >= TAPS) break;
#pragma unroll
    for (int j = 0; j < BLOCK_C; j += C_LANES) {
      const bool inside = filter_inside && (C % BLOCK_C == 0 || c + channel + j < C);
      ptx::cp_async_cg_16(to + (i * BLOCK_C + j) * BLOCK_N, from + (int64_t(i) * C + j) * FILTERS, inside);
    }
  }
}
