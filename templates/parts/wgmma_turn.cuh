// ---- an NCHW x, turned in shared memory (kTransposed) ----
// TMA brings pieces of x as they are, (BLOCK_K channels, PIECE_LINES, LINE_PITCH pixels), through a ring. All of the producers'
// warps but one read 8 pixels of 32 channels at a time by ldmatrix.trans, which leaves each lane pairs of channels of one
// pixel, and write them to the patch, swizzled as TMA would. Warp 0 asks for the next piece, too.
//
// A line is a row of the patch. Where rows of x are no multiple of 16 bytes (kWholeRows), it is several whole rows of x. TMA
// begins at multiples of 16 bytes (an H200 traps elsewhere): up to MAX_SKEW pixels in front of a line come with it.
//
// Barriers            arrivals                          says                             who waits
//   piece_full[i]     1 and the bytes of the piece      piece i has landed               those who turn
//   piece_empty[i]    their warps                       piece i may be overwritten       warp 0
constexpr int TURNERS = 4 * kProducers - 1;  // warps
constexpr int LINE_PIXELS = kWholeRows ? LINE_ROWS * W : PATCH_W;
// All lines begin at multiples of so many pixels.
constexpr int LINE_STEP = gcd(8, kWholeRows ? gcd(TILES_P > 1 ? TILE_P * W : 0, PATCH_H > LINE_ROWS ? LINE_ROWS * W : 0)
                                            : gcd(TILES_Q > 1 ? TILE_Q : 0, PAD_LEFT));
constexpr int MAX_SKEW = 8 - LINE_STEP;
constexpr int LINE_GROUPS = (MAX_SKEW + LINE_PIXELS + 7) / 8, LINE_PITCH = (LINE_GROUPS | 1) * 8;
constexpr int PATCH_LINES = kWholeRows ? (PATCH_H + LINE_ROWS - 1) / LINE_ROWS : PATCH_H;
constexpr int PIECES = (PATCH_LINES + PIECE_LINES - 1) / PIECE_LINES;  // of a patch
constexpr int PIECE_BYTES = BLOCK_K * PIECE_LINES * LINE_PITCH * sizeof(Element), PIECE_STAGE = (PIECE_BYTES + 127) / 128 * 128;
constexpr int PIECES_AT = (SMEM_END + 127) / 128 * 128;
static_assert(!kTransposed || (sizeof(Element) == 2 && STRIDE_H == 1 && STRIDE_W == 1 && TILE_N == 1), "a piece is of neighbours in one image, of 16 bits");
static_assert(!kTransposed || (!kWholeRows && W % 8 == 0) || (kWholeRows && H * W % 8 == 0 && PATCH_W == W && !kHasPadding), "TMA's strides are multiples of 16 bytes");
static_assert(!kTransposed || (LINE_PITCH <= 256 && PIECE_LINES % 2 == 1), "a box of TMA; channels an odd number of 16 bytes apart lie in different banks");

// A CTA's patches, in the order in which they are multiplied.
struct Patches {
  int tile = blockIdx.x, chunk = 0;

  __device__ __forceinline__ void advance() {
    if (++chunk < CHUNKS) return;
    chunk = 0;
    tile += gridDim.x;
  }
};

struct Pieces {
  unsigned char* memory;
  uint64_t *full, *empty;
};
__device__ __forceinline__ Pieces pieces_in(unsigned char* memory) {
  uint64_t* barriers = reinterpret_cast<uint64_t*>(memory + PIECES_AT + kPieceStages * PIECE_STAGE);
  return {memory + PIECES_AT, barriers, barriers + kPieceStages};
}
__device__ __forceinline__ void init_pieces(const Pieces& pieces) {
  for (int i = 0; i < kPieceStages; ++i) {
    ptx::mbarrier_init(pieces.full + i, 1);
    ptx::mbarrier_init(pieces.empty + i, TURNERS);
  }
}

// Where the first line of a patch's piece begins in x: its row, and its pixel of that row (kWholeRows: of the image), of
// which `skew` lie in front.
struct LineStart {
  int row, column, skew;
};
__device__ __forceinline__ LineStart line_start(const Origin& origin, int piece) {
  const int line = piece * PIECE_LINES, row = origin.p - PAD_TOP + (kWholeRows ? line * LINE_ROWS : line);
  const int column = kWholeRows ? row * W : origin.q - PAD_LEFT, skew = MAX_SKEW == 0 ? 0 : column & 7;
  return {row, column - skew, skew};
}

// The pieces of a CTA's patches in order, as one thread asks for them.
struct PieceLoader {
  Patches at;
  int piece = 0;
  Ring<kPieceStages> ring;

  __device__ __forceinline__ void load_next(const Pieces& pieces, const InputMaps& input) {
    if (at.tile >= TILE_COUNT) return;
    const Origin origin = origin_of(at.tile);
    const LineStart start = line_start(origin, piece);
    wait(pieces.empty + ring.stage, ring.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(pieces.full + ring.stage, PIECE_BYTES);
    ptx::cp_async_bulk_tensor_4d_load(pieces.memory + ring.stage * PIECE_STAGE, &input.plane[0], pieces.full + ring.stage,
                                      start.column, kWholeRows ? 0 : start.row, at.chunk * BLOCK_K, origin.n);
    ring.advance();
    if (++piece == PIECES) {
      piece = 0;
      at.advance();
    }
  }
};

// A piece's share of the patch in stage `stage`, by so many warps. Each turns 8 pixels of BLOCK_K channels at a time, TURNED of
// them under way together.
__device__ __forceinline__ void turn_piece(unsigned char* patches, int stage, const unsigned char* piece, int index, int skew, int warp,
                                           int lane) {
  constexpr int HALVES = BLOCK_K >= 64 ? 2 : 1, CHANNEL_BYTES = PIECE_LINES * LINE_PITCH * 2, GROUPS = PIECE_LINES * LINE_GROUPS;
  constexpr int TURNED = (kProducers == 1 ? 4 : 2) / HALVES;
  const int first_place = index * PIECE_LINES * LINE_PIXELS;
  const unsigned char* const from = piece + lane * CHANNEL_BYTES;
#pragma unroll 1
  for (int first = warp; first < GROUPS; first += TURNED * TURNERS) {
    uint32_t pairs[TURNED][HALVES][4];  // [..][half][j]: channels half * 32 + j * 8 + lane % 4 * 2 and + 1 of pixel lane / 4
#pragma unroll
    for (int t = 0; t < TURNED; ++t) {
      const int i = first + t * TURNERS, line = i / LINE_GROUPS, group = i % LINE_GROUPS;
#pragma unroll
      for (int half = 0; half < HALVES; ++half)
        if (i < GROUPS)
          ptx::ldmatrix_x4_trans(pairs[t][half], from + half * 32 * CHANNEL_BYTES + (line * LINE_PITCH + group * 8) * 2);
    }
#pragma unroll
    for (int t = 0; t < TURNED; ++t) {
      const int i = first + t * TURNERS, line = i / LINE_GROUPS, pixel = i % LINE_GROUPS * 8 + lane / 4 - skew;
      const int place = first_place + line * LINE_PIXELS + pixel;  // of the patch
      if (i >= GROUPS || pixel < 0 || pixel >= LINE_PIXELS || place >= PATCH_H * PATCH_W) continue;
      const int row = place * ROW_BYTES, turn = row >> 7 & ROW_BYTES / 16 - 1;
      const int to = stage * PATCH_STAGE + row + turn * 16 + lane % 4 * 4;
#pragma unroll
      for (int half = 0; half < HALVES; ++half)
#pragma unroll
        for (int j = 0; j < 4; ++j) *reinterpret_cast<uint32_t*>(patches + (to ^ (half * 4 + j) * 16)) = pairs[t][half][j];
    }
  }
}

__device__ __forceinline__ void turn_patches(const Smem& smem, const Pieces& pieces, const InputMaps& input, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  PieceLoader loader;
  if (thread == 0)
    for (int i = 0; i < kPieceStages - 1; ++i) loader.load_next(pieces, input);
  Ring<kPatchStages> ring;
  Ring<kPieceStages> piece;
#pragma unroll 1
  for (Patches at; at.tile < TILE_COUNT; at.advance()) {
    const Origin origin = origin_of(at.tile);
    wait(smem.patch_empty + ring.stage, ring.parity ^ 1);
#pragma unroll 1
    for (int i = 0; i < PIECES; ++i) {
      if (thread == 0) loader.load_next(pieces, input);
      __syncwarp();
      wait(pieces.full + piece.stage, piece.parity);
      turn_piece(smem.patches, ring.stage, pieces.memory + piece.stage * PIECE_STAGE, i, line_start(origin, i).skew, warp, lane);
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(pieces.empty + piece.stage);
      piece.advance();
    }
    ptx::fence_proxy_async_shared_cta();  // the products read what the thread wrote
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(smem.patch_full + ring.stage);
    ring.advance();
  }
}
