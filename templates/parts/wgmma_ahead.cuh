// ---- an NCHW x, brought into NHWC ahead of the tiles that read it (kAhead) ----
// Warps 2, 3 and those of a second warpgroup of producers write x as [n][pixel][CHANNELS] to a workspace, from where TMA loads
// patches as those of an NHWC x. A part is 64 channels of PART_PIXELS pixels of an image. A warp claims the next part of all
// that no warp of any CTA has claimed, has TMA bring it to shared memory as it is, turns it by ldmatrix.trans and stores
// 32 bytes of a pixel's channels at a time. Each CTA goes as far as its next tile reads. Who waits for a part waits for a warp that
// runs: a CTA that has not begun has claimed nothing.
//
// Counters behind the packed filters, which who packed them has made zero:   [0] parts that are claimed   [1 + n] parts of image n that are written
constexpr int AHEAD_WARPS = 4 * kProducers - 2;
constexpr int PIECE_PIXELS = 32, PIECE_CHANNELS = 64;  // one TMA load: rows of 64 bytes, swizzled
constexpr int PIECE_BYTES = PIECE_PIXELS * PIECE_CHANNELS * 2;
constexpr int PART_PIXELS = kPieceStages * PIECE_PIXELS;
constexpr int PARTS_CHANNELS = (CHANNELS + PIECE_CHANNELS - 1) / PIECE_CHANNELS, PARTS_PIXELS = (H * W + PART_PIXELS - 1) / PART_PIXELS;
constexpr int IMAGE_PARTS = PARTS_CHANNELS * PARTS_PIXELS;
constexpr int64_t PROGRESS_AT = int64_t(K) * (R * S) * CHANNELS * sizeof(Element);  // in the workspace of packed filters, behind them
constexpr int PIECES_AT = (SMEM_END + 1023) / 1024 * 1024;
static_assert(!kAhead || (sizeof(Element) == 2 && H * W % 8 == 0), "TMA's strides are multiples of 16 bytes");
static_assert(!kAhead || (!kTransposed && !kStoredByProducers && kClusterK == 1 && (int64_t(N) + TILE_N) * IMAGE_PARTS < 1 << 30), "idle warps bring x into NHWC, nothing else");

struct Pieces {
  unsigned char* memory;  // (AHEAD_WARPS, kPieceStages, 64 channels, 32 pixels)
  uint64_t* full;         // (AHEAD_WARPS, kPieceStages): 1 and the bytes of the piece: it has landed; its warp waits
  int* begun;             // tiles of the CTA whose patches have been asked for
};
__device__ __forceinline__ Pieces pieces_in(unsigned char* memory) {
  uint64_t* full = reinterpret_cast<uint64_t*>(memory + PIECES_AT + AHEAD_WARPS * kPieceStages * PIECE_BYTES);
  return {memory + PIECES_AT, full, reinterpret_cast<int*>(full + AHEAD_WARPS * kPieceStages)};
}
__device__ __forceinline__ void init_pieces(const Pieces& pieces) {
  for (int i = 0; i < AHEAD_WARPS * kPieceStages; ++i) ptx::mbarrier_init(pieces.full + i, 1);
  *pieces.begun = 0;
}

// Before the patches of a tile are asked for: all of its images are in NHWC.
struct AwaitImages {
  const uint32_t* progress;
  int* begun;
  int written = 0;  // images of which this is known

  __device__ __forceinline__ void operator()(const Origin& origin) {
    const int images = origin.n + TILE_N < N ? origin.n + TILE_N : N;
    for (; written < images; ++written) {
      if (written < origin.n) written = origin.n;
      while (ptx::ld_acquire_gpu(progress + 1 + written) != IMAGE_PARTS) ptx::nanosleep(64);
    }
    ptx::fence_proxy_async_global();
    ++*static_cast<volatile int*>(begun);
  }
};

// Which pixels and channels of x a part is, and one of its pieces.
struct Part {
  int n, pixel, channel;

  __device__ __forceinline__ explicit Part(int part)
      : n(part / IMAGE_PARTS), pixel(part % PARTS_PIXELS * PART_PIXELS), channel(part / PARTS_PIXELS % PARTS_CHANNELS * PIECE_CHANNELS) {}
  __device__ __forceinline__ bool has(int piece) const { return n < N && pixel + piece * PIECE_PIXELS < H * W; }
};
__device__ __forceinline__ void load_piece(unsigned char* memory, uint64_t* full, const ptx::TensorMap& source, const Part& part, int i) {
  if (!part.has(i)) return;
  ptx::mbarrier_arrive_expect_tx(full + i, PIECE_BYTES);
  ptx::cp_async_bulk_tensor_3d_load(memory + i * PIECE_BYTES, &source, full + i, part.pixel + i * PIECE_PIXELS, part.channel, part.n);
}

// A piece to [pixel][CHANNELS]. A lane gets 8 channels of a pixel; its neighbour the next 8, so that they write whole sectors.
__device__ __forceinline__ void turn_piece(Element* to, const unsigned char* piece, int pixels, int channels, int lane) {
  // as one of ldmatrix's rows: matrix `pair`, that has channels 2 * pair and + 1 of each lane's 8
  const int pair = lane / 8, row = lane % 8;
  const int from = (row / 2 % 2 * 8 + pair * 2 + row % 2) * 64 + (row / 4 ^ pair) * 16;
  const int unit = lane % 2, pixel = lane % 4 / 2 * 8 + lane / 4;
  constexpr int BATCH = kLeanProducers ? 1 : 4;
#pragma unroll
  for (int first = 0; first < 8; first += BATCH) {  // of 16 pixels and 16 channels; the pixels change last
    const int half = first / 4;
    uint32_t words[BATCH][4];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) ptx::ldmatrix_x4_trans(words[i], piece + (from ^ half * 32) + (first + i) % 4 * 1024);
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int channel = ((first + i) % 4 * 2 + unit) * 8;
      if (half * 16 + pixel < pixels && (CHANNELS % PIECE_CHANNELS == 0 || channel < channels))
        ptx::st_global_v4(to + (half * 16 + pixel) * CHANNELS + channel, words[i]);
    }
  }
}

__device__ __forceinline__ void go_ahead(const Pieces& pieces, const ptx::TensorMap& source, Element* ahead, uint32_t* progress,
                                         int warp, int lane) {
  unsigned char* const memory = pieces.memory + warp * kPieceStages * PIECE_BYTES;
  uint64_t* const full = pieces.full + warp * kPieceStages;
  uint32_t parities = 0;  // a bit a piece
  // Of this part pieces are under way, or have landed; and one to come, so that nobody waits for the counter.
  int part = lane == 0 ? atomicAdd(progress, 1u) : 0, next = lane == 0 ? atomicAdd(progress, 1u) : 0, tiles = 0;
  part = __shfl_sync(0xffffffffu, part, 0);
  next = __shfl_sync(0xffffffffu, next, 0);
  if (lane == 0)
    for (int i = 0; i < kPieceStages; ++i) load_piece(memory, full, source, Part(part), i);
#pragma unroll 1
  for (int tile = first_tile(); tile < TILE_COUNT; tile += tile_step(), ++tiles) {
    const bool last = tile + tile_step() >= TILE_COUNT;
    const int images = origin_of(last ? tile : tile + tile_step()).n + TILE_N;  // that are needed next
    while (part < N * IMAGE_PARTS && (last || part < images * IMAGE_PARTS)) {
      const int claimed = lane == 0 ? atomicAdd(progress, 1u) : 0;
      const Part own(part), later(next);
      Element* const to = ahead + (int64_t(own.n) * (H * W) + own.pixel) * CHANNELS + own.channel;
#pragma unroll 1
      for (int i = 0; i < kPieceStages; ++i) {
        if (own.has(i)) {
          wait(full + i, parities >> i & 1);
          parities ^= 1 << i;
          turn_piece(to + i * PIECE_PIXELS * CHANNELS, memory + i * PIECE_BYTES, H * W - own.pixel - i * PIECE_PIXELS,
                     CHANNELS - own.channel, lane);
        }
        __syncwarp();  // all lanes have read the piece
        if (lane == 0) load_piece(memory, full, source, later, i);
      }
      ptx::fence_proxy_async_global();  // TMA reads what the thread wrote
      __syncwarp();                     // all lanes have written
      if (lane == 0) ptx::red_release_gpu_add(progress + 1 + own.n, 1);
      part = next;
      next = __shfl_sync(0xffffffffu, claimed, 0);
    }
    while (*static_cast<volatile int*>(pieces.begun) <= tiles) ptx::nanosleep(100);
  }
}
