// What follows from simt's parameters: who computes what, and how a stage of shared memory is laid out.
constexpr bool kExplicit = kStaging == Staging::explicit_window;
constexpr int BLOCK_S = kStaging == Staging::tap ? 1 : S;
constexpr int TAPS = BLOCK_R * BLOCK_S;
// Columns: of one tap, a pixel has its own column; else the box shares a run of columns, split into phases.
constexpr bool kPixelColumns = BLOCK_S == 1;
constexpr int COLUMNS = kPixelColumns ? TILE_Q : (TILE_Q - 1) * STRIDE_W + (S - 1) * DILATION_W + 1;
constexpr int COLUMN_STEP = kPixelColumns ? STRIDE_W : 1;  // input columns from one patch column to the next
constexpr int PHASES = kPixelColumns ? 1 : STRIDE_W;
// Rows: shared by the rows of the box (the input's own rows), or BLOCK_R for each (im2win's rows), whichever are fewer.
constexpr int SHARED_ROWS = (TILE_P - 1) * STRIDE_H + (BLOCK_R - 1) * DILATION_H + 1;
constexpr bool kSharedRows = !kExplicit && SHARED_ROWS <= TILE_P * BLOCK_R;
constexpr int ROWS = kSharedRows ? SHARED_ROWS : TILE_P * BLOCK_R;
constexpr int PIXEL_ROW_STEP = (kSharedRows ? STRIDE_H : BLOCK_R) * ROW_PITCH;  // elements from p to p + 1
constexpr int TAP_ROW_STEP = (kSharedRows ? DILATION_H : 1) * ROW_PITCH;        // elements from r to r + 1
constexpr int IMAGE_PITCH = ROWS * ROW_PITCH;
constexpr int PATCH_ELEMENTS = BLOCK_C * CHANNEL_PITCH;
constexpr int STAGE_ELEMENTS = PATCH_ELEMENTS + TAPS * BLOCK_C * BLOCK_N;

constexpr int BLOCK_M = TILE_N * TILE_P * TILE_Q, THREAD_M = THREAD_P * THREAD_Q;
// A thread's THREAD_P rows are neighbours in one image, or else the same row of images TILE_N / THREAD_P apart.
constexpr bool kRowsOfOneImage = TILE_P % THREAD_P == 0;
constexpr int THREADS_Q = TILE_Q / THREAD_Q;
constexpr int THREADS_M = BLOCK_M / THREAD_M;
constexpr int THREADS_N = BLOCK_N / THREAD_N;
constexpr int LANES_N = 32 / LANES_M;
constexpr int WARPS_M = (THREADS_M + LANES_M - 1) / LANES_M;  // the last one may have lanes that compute for nobody
constexpr int SLICE_THREADS = 32 * WARPS_M * (THREADS_N / LANES_N), THREADS = SLICE_THREADS * SLICES;
constexpr int SLICE_C = BLOCK_C / SLICES;
// The widest vector, of 16 bytes at most, that an extent is whole vectors of.
__device__ constexpr int aligned_width(int extent) {
  return extent % UNIT == 0 ? UNIT : extent % (UNIT / 2) == 0 ? UNIT / 2 : 1;
}
constexpr int VECTOR_N = aligned_width(THREAD_N);
constexpr int ROW_OF_THREAD_STEP =  // elements of the patch from one of a thread's rows to the next
    kRowsOfOneImage ? PIXEL_ROW_STEP : TILE_N / THREAD_P * IMAGE_PITCH;

constexpr int kTilesP = (P + TILE_P - 1) / TILE_P, kTilesQ = (Q + TILE_Q - 1) / TILE_Q;
constexpr int kTilesN = (K + BLOCK_N - 1) / BLOCK_N;  // of gemm_n
constexpr int kCtas = (N + TILE_N - 1) / TILE_N * kTilesP * kTilesQ * kTilesN;  // persistent ones counted once a box

__device__ constexpr int least(int a, int b) { return a < b ? a : b; }

template <int WIDTH>
struct alignas(WIDTH * sizeof(Element)) Vector {
  Element e[WIDTH];
};

static_assert(TILE_Q % THREAD_Q == 0, "whole threads along the columns");
static_assert(kRowsOfOneImage || TILE_N % THREAD_P == 0, "whole threads along the rows or the images");
static_assert(BLOCK_N % THREAD_N == 0 && BLOCK_N % UNIT == 0, "whole threads and 16-byte copies along the filters");
static_assert(32 % LANES_M == 0 && THREADS_N % LANES_N == 0, "whole warps");
static_assert(THREADS <= 1024, "a CTA has 1 to 32 warps");
static_assert(BLOCK_C % SLICES == 0, "whole channels for every slice");
static_assert(R % BLOCK_R == 0 && (kStaging != Staging::tap || BLOCK_R == 1), "whole tap groups");
static_assert(PHASE_PITCH % UNIT == 0 && ROW_PITCH % UNIT == 0 && CHANNEL_PITCH % UNIT == 0,
              "patch rows are 16-byte aligned");
static_assert(PHASE_PITCH * PHASES <= ROW_PITCH && TILE_N * IMAGE_PITCH <= CHANNEL_PITCH, "the patch overlaps itself");
static_assert(PHASE_PITCH >= (COLUMNS + PHASES - 1) / PHASES, "a phase holds its columns");
static_assert(!kExplicit || COLUMN_PITCH >= R * (kInputChannelsLast ? C : 1), "a window column holds R rows");

// The CTA's box: its first image, row, column and filter.
struct Tile {
  int n, p, q, k;
};
// A thread's share of the box: first image, row, column, filter (relative to the box), where they start in the stage.
struct Fragment {
  int n, p, q, k;
  int patch, filter;  // elements
  bool idle;          // the pixels are another thread's
  // The pixels of the m-th thread along them.
  __device__ __forceinline__ void place(int m) {
    const int row = m / THREADS_Q;
    q = m % THREADS_Q * THREAD_Q;
    n = kRowsOfOneImage ? row / (TILE_P / THREAD_P) : row / TILE_P;
    p = kRowsOfOneImage ? row % (TILE_P / THREAD_P) * THREAD_P : row % TILE_P;
  }
  __device__ __forceinline__ int image(int i) const { return kRowsOfOneImage ? n : n + i * (TILE_N / THREAD_P); }
  __device__ __forceinline__ int row(int i) const { return kRowsOfOneImage ? p + i : p; }
  __device__ __forceinline__ int filter_of(int i) const {
    return k + i / VECTOR_N * VECTOR_N * THREADS_N + i % VECTOR_N;
  }
};
// Lanes go along the filters in pairs, then along the pixels, then along the other filters: in each quarter of a warp
// both operands are read at few distinct addresses.
constexpr int PAIR = LANES_N > 1 ? 2 : 1;
__device__ __forceinline__ int lane_m(int lane) { return lane / PAIR % LANES_M; }
__device__ __forceinline__ int lane_n(int lane) { return lane / (PAIR * LANES_M) * PAIR + lane % PAIR; }

__device__ __forceinline__ Fragment fragment_of_thread(int thread, int slice) {
  const int lane = thread % 32, warp = thread / 32;
  Fragment fragment;
  const int m = warp % WARPS_M * LANES_M + lane_m(lane);
  fragment.idle = THREADS_M % LANES_M != 0 && m >= THREADS_M;
  fragment.place(fragment.idle ? THREADS_M - 1 : m);
  fragment.k = (warp / WARPS_M * LANES_N + lane_n(lane)) * VECTOR_N;
  fragment.patch = slice * SLICE_C * CHANNEL_PITCH + fragment.n * IMAGE_PITCH + fragment.p * PIXEL_ROW_STEP;
  fragment.patch += fragment.q;
  fragment.filter = slice * SLICE_C * BLOCK_N + fragment.k;
  return fragment;
}
