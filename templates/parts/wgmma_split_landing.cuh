// ---- an NCHW x of split operands: boxes of it land by TMA as they are, [image][channel][pixel], and are transposed when they are split ----
// What a box holds follows from where TMA's strides are multiples of 16 bytes:
//   RECTANGLES  rows of the patch, widened to 16 bytes; of a stride, those of all planes side by side, for as many patches
//               (LANDED_PATCHES), or for one if its channels land in parts
//   STRIPS      the patch has whole rows, which are neighbours in x: one run of them a channel
//   IMAGES      the patch has whole images, whose channels are neighbours: PIECES boxes, of PIECE_CHANNELS channels each
// A box begins at a multiple of 16 bytes of x, else the H200 traps: as many numbers land before those of a tile.
constexpr int LANDED_PATCHES = kTransposed && LANDED_PARTS == 1 ? Horizontal::USED : 1;
__device__ constexpr int first_column(int q) { return q * STRIDE_W - PAD_LEFT; }  // of x, that a tile reads
__device__ constexpr int landed_before(int p, int q) {
  return kLanding == RECTANGLES ? first_column(q) & 3 : kLanding == STRIPS ? (p + Vertical::shift(0)) * W & 3 : 0;
}
__device__ constexpr int most_before() {
  int most = 0;
  for (int i = 0; i < 4; ++i) {  // then they repeat
    const int before = landed_before(i < TILES_P ? i * TILE_P : 0, i < TILES_Q ? i * TILE_Q : 0);
    if (before > most) most = before;
  }
  return most;
}
constexpr int LANDED_BEFORE = most_before();
constexpr int LANDED_W = Horizontal::extent(TILE_Q);  // of a plane
constexpr int LANDED_COLUMNS = (LANDED_W - 1) * STRIDE_W + (Horizontal::USED - 1) * DILATION_W + 1;
constexpr int LANDED_PITCH = kLanding == RECTANGLES ? (LANDED_BEFORE + LANDED_COLUMNS + 3) / 4 * 4 : LANDED_W;  // numbers from row to row
constexpr int LANDED_CHANNEL = kLanding == RECTANGLES ? PATCH_H * LANDED_PITCH
                               : kLanding == STRIPS   ? (LANDED_BEFORE + PATCH_H * LANDED_W + 3) / 4 * 4
                                                      : H * W;
constexpr int LANDED_CHANNELS = BLOCK_K / LANDED_PARTS;
constexpr int PIECES = kLanding == IMAGES ? 8 : 1, PIECE_CHANNELS = LANDED_CHANNELS / PIECES;
constexpr int LANDED_IMAGE = PIECE_CHANNELS * LANDED_CHANNEL, PIECE_NUMBERS = TILE_N * LANDED_IMAGE;
constexpr int PIECE_STEP = (PIECE_NUMBERS + 31) / 32 * 32;  // TMA writes to multiples of 128 bytes
constexpr int LANDED_STAGE = PIECES * PIECE_STEP;
constexpr int LANDED_PIXELS = PATCH_H * LANDED_W;  // of an image
static_assert(!kTransposed || LANDED_PITCH <= 256, "a box of TMA");
static_assert(LANDED_PARTS == 1 || kLanding != IMAGES, "images land whole");
static_assert(!kRepeated || (kTransposed && kMapping == ROWS), "who transposes may repeat columns");
static_assert(!kTransposed || kLanding == RECTANGLES || (LANDED_W == W && PAD_LEFT == 0 && STRIDE_H == 1 && STRIDE_W == 1), "whole rows land");
static_assert(!kTransposed || kLanding != IMAGES || (PATCH_H <= H && TILES_P == 1 && PAD_TOP == 0), "whole images land");
static_assert(!kTransposed || 8 % TILE_N == 0 || TILE_N % 8 == 0, "images are taken in turns of 8");

__device__ __forceinline__ void load_landing(const Smem& smem, const Splitting& splitting, const InputMaps& input) {
  Ring<1> ring;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
    const Origin origin = origin_of(tile);
    const int before = landed_before(origin.p, origin.q);
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll 1
      for (int part = 0; part < PLANES * LANDED_PARTS; part += LANDED_PATCHES) {
        const int i = part / LANDED_PARTS, channel = chunk * BLOCK_K + part % LANDED_PARTS * LANDED_CHANNELS;
        const int row = origin.p + plane_at(i).shift_h;
        uint64_t* const full = splitting.landed_full;
        float* const landed = splitting.landed;
        wait(splitting.landed_empty, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, PIECES * PIECE_NUMBERS * int(sizeof(float)));
        if constexpr (kLanding == RECTANGLES) {
          ptx::cp_async_bulk_tensor_4d_load(landed, &input.plane[i], full, first_column(origin.q) - before, row,
                                            channel, origin.n);
        } else if constexpr (kLanding == STRIPS) {
          ptx::cp_async_bulk_tensor_3d_load(landed, &input.plane[i], full, row * W - before, channel, origin.n);
        } else {
#pragma unroll 1
          for (int piece = 0; piece < PIECES; ++piece)
            ptx::cp_async_bulk_tensor_3d_load(landed + piece * PIECE_STEP, &input.plane[i], full,
                                              (channel + piece * PIECE_CHANNELS) * (H * W), origin.n, 0);
        }
        ring.advance();
      }
  }
}

// Bits of the largest magnitude in a warp's part of what landed, the neighbours of the patch that came with it included;
// kFinite leaves Inf out, which hides all else.
template <bool kFinite>
__device__ __forceinline__ uint32_t largest_landed(const float* landed, int thread) {
  constexpr int UNITS = PIECE_NUMBERS / 4;
  static_assert(PIECE_NUMBERS % 4 == 0, "whole units of 16 bytes land");
  float largest = 0.0f;
#pragma unroll 1
  for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll kFinite ? 1 : 4
    for (int i = thread; i < UNITS; i += SPLITTERS) {
      const float4 v = *reinterpret_cast<const float4*>(landed + piece * PIECE_STEP + i * 4);
      largest = larger<kFinite>(larger<kFinite>(larger<kFinite>(larger<kFinite>(largest, v.x), v.y), v.z), v.w);
    }
  return largest_of_warp(__float_as_uint(largest));
}

// Where pixel `at` of what landed of image `n` lies in a copy of the patch's columns, or -1.
__device__ __forceinline__ int patch_pixel(int at, int n, int copy) {
  if constexpr (!kRepeated) return at * TILE_N + n;
  const int row = at / LANDED_W, column = at % LANDED_W - copy * Horizontal::SHIFT_STEP;
  return column < 0 || column >= PATCH_W ? -1 : ((copy * PATCH_H + row) * PATCH_W + column) * TILE_N + n;
}

__device__ __forceinline__ uint32_t shrunk(uint32_t halves, float by) {
  __half2 pair;
  memcpy(&pair, &halves, sizeof pair);
  const float2 v = __half22float2(pair);
  return bits_of(__floats2half2_rn(v.x * by, v.y * by));
}
// Of a pixel's row, the units of parts before `part`.
__device__ __forceinline__ void shrink_row(unsigned char* row, int pixel, int part, float by) {
  constexpr int UNITS = LANDED_CHANNELS / HALVES_UNIT;
#pragma unroll 1
  for (int i = 0; i < 2 * part * UNITS; ++i) {
    uint4& halves = *reinterpret_cast<uint4*>(row + (i / 2 + i % 2 * 4 ^ pixel % 8) * 16);
    halves = {shrunk(halves.x, by), shrunk(halves.y, by), shrunk(halves.z, by), shrunk(halves.w, by)};
  }
}

// Of a pixel's channels, how many threads take a part each: the fewest of 1, 2 and 4 that leave the fewest of them idle; of
// two warps one, that reads ahead.
__device__ constexpr int splitting_rounds(int shares) {  // quarters of a pixel, one after the other
  return (LANDED_PIXELS * TILE_N * shares + SPLITTERS - 1) / SPLITTERS * (4 / shares);
}
__device__ constexpr int best_shares() {
  int best = 1;
  for (int shares = 2; kProducers == 2 && shares <= LANDED_CHANNELS / HALVES_UNIT; shares *= 2)
    if (splitting_rounds(shares) < splitting_rounds(best)) best = shares;
  return best;
}
constexpr int SHARES = best_shares();

// A thread takes a share of the channels of a pixel, its neighbours the pixels beside it in x's plane, which lie in other
// banks (of stride 2, half of them). The images change from pixel to pixel, so that eight lanes in a row write to rows of
// the patch that are swizzled differently.
// Parts of the channels before `part` have been split with another scale: with this one divided by `shrink`.
__device__ __forceinline__ void split_landed(unsigned char* patch, const float* landed, int part, float scale, float shrink,
                                             int thread) {
  constexpr int IMAGES_8 = TILE_N < 8 ? TILE_N : 8, UNITS = LANDED_CHANNELS / HALVES_UNIT / SHARES;
  constexpr int SHARE_CHANNELS = UNITS * HALVES_UNIT;
  constexpr int SHARE_STEP = SHARE_CHANNELS / PIECE_CHANNELS * PIECE_STEP + SHARE_CHANNELS % PIECE_CHANNELS * LANDED_CHANNEL;
  constexpr int kBatch = kProducers == 2 || UNITS == 1 ? 1 : 2;  // units whose reads are under way together; two warpgroups have few registers
#pragma unroll 1
  for (int i = thread; i < LANDED_PIXELS * TILE_N * SHARES; i += SPLITTERS) {
    const int share = SHARES == 1 ? 0 : i / (LANDED_PIXELS * TILE_N), turn = i / LANDED_PIXELS % TILE_N, at = i % LANDED_PIXELS;
    const int n = (at / (8 / IMAGES_8) + turn) % IMAGES_8 + turn / IMAGES_8 * 8;
    const float* from = landed + share * SHARE_STEP + n * LANDED_IMAGE + at * STRIDE_W +
                        at / LANDED_W * (LANDED_PITCH - LANDED_W * STRIDE_W);
    if (LANDED_PARTS > 1 && shrink < 1.0f)
#pragma unroll 1
      for (int copy = 0; copy < PATCH_COPIES; ++copy) {
        const int pixel = patch_pixel(at, n, copy);
        if (pixel >= 0) shrink_row(patch + pixel * ROW_BYTES, pixel, part, shrink);
      }
#pragma unroll
    for (int first = 0; first < UNITS; first += kBatch) {
      float v[kBatch][HALVES_UNIT];
#pragma unroll
      for (int j = 0; j < kBatch * HALVES_UNIT; ++j) {
        const int c = first * HALVES_UNIT + j;
        v[j / HALVES_UNIT][j % HALVES_UNIT] =
            from[c / PIECE_CHANNELS * PIECE_STEP + c % PIECE_CHANNELS * LANDED_CHANNEL];
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const Halves halves = split(v[j], scale);
#pragma unroll
        for (int copy = 0; copy < PATCH_COPIES; ++copy) {
          const int pixel = patch_pixel(at, n, copy);
          if (pixel < 0) continue;
          unsigned char* const row = patch + pixel * ROW_BYTES;
          const int unit = (part * SHARES + share) * UNITS + first + j;
          *reinterpret_cast<uint4*>(row + (unit ^ pixel % 8) * 16) = halves.high;
          *reinterpret_cast<uint4*>(row + (4 + unit ^ pixel % 8) * 16) = halves.low;
        }
      }
    }
  }
}
