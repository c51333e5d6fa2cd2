// ---- an NCHW y of groups of images (kRuns) ----
// Staged as (TILE_N, 64, RUN_ROWS, TILE_Q), so that neighbours are neighbours in y, and copied by the consumer's warps.
constexpr int RUN_ROWS = STORE_GROUPS / GROUPS_N;  // subtiles, staged and stored at a time
// Copied in items of two pixels where they are aligned in y.
constexpr int ITEM_PIXELS = sizeof(Output) == 2 && TILE_Q % 2 == 0 && Q % 2 == 0 ? 2 : 1;
using RunItem = BitsOf<ITEM_PIXELS * sizeof(Output)>::Type;
constexpr int ROW_ITEMS = TILE_Q / ITEM_PIXELS, RUN_ITEMS = RUN_ROWS * ROW_ITEMS;
// Lanes that copy the items of a channel and an image: as many as leave the fewest idle.
__device__ constexpr int idle_lanes(int lanes) { return (lanes - RUN_ITEMS % lanes) % lanes; }
constexpr int RUN_LANES = idle_lanes(32) <= idle_lanes(16) && idle_lanes(32) <= idle_lanes(8) ? 32
                          : idle_lanes(16) <= idle_lanes(8)                                   ? 16
                                                                                              : 8;

// Subtiles FIRST ... of a tile. A lane holds channels `lane / 4` and + 8 of its warp's 16, of pixels `lane % 4 * 2` and + 1
// of each group of 8: two images of the same column. From group to group the column changes, or other 8 images follow.
template <int FIRST>
__device__ __forceinline__ void stage_runs(unsigned char* staging, const Accumulators& acc, int warp, int lane) {
  constexpr int EIGHTS = TILE_N < 8 ? 1 : TILE_N / 8, GROUP_COLUMNS = TILE_N < 8 ? 8 / TILE_N : 1;
  constexpr int PIXELS = TILE_N < 8 ? 1 : ITEM_PIXELS;  // of a column each, written together
  using Written = BitsOf<PIXELS * sizeof(Output)>::Type;
  const int pixel = lane % 4 * 2, image = TILE_N < 8 ? pixel % TILE_N : pixel, column = TILE_N < 8 ? pixel / TILE_N : 0;
  Output* const first =
      reinterpret_cast<Output*>(staging) + image * IMAGE_PITCH + (warp * 16 + lane / 4) * CHANNEL_PITCH + column;
#pragma unroll
  for (int i = 0; i < RUN_ROWS * TILE_Q; i += PIXELS * GROUP_COLUMNS)
#pragma unroll
    for (int eight = 0; eight < EIGHTS; ++eight)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Sum* d = acc[FIRST + i / TILE_Q] + (i % TILE_Q / GROUP_COLUMNS * EIGHTS + eight) * 4 + e;
        Written written;
        if constexpr (PIXELS == 2) {
          written = output_pair(d[0], d[EIGHTS * 4]);
        } else {
          const Output pixel = to_output(relu(d[0]));
          memcpy(&written, &pixel, sizeof written);
        }
        Output* to = first + (eight * 8 + e % 2) * IMAGE_PITCH + e / 2 * 8 * CHANNEL_PITCH + i;
        *reinterpret_cast<Written*>(to) = written;
      }
}

// The same to y, by so many threads.
template <int COPIERS>
__device__ __forceinline__ void store_runs(Output* y, const unsigned char* staging, int thread, Origin origin, int first) {
  constexpr int CHANNELS_AT_ONCE = COPIERS / RUN_LANES, ROUNDS = (RUN_ITEMS + RUN_LANES - 1) / RUN_LANES;
  constexpr int UNROLL = COPIERS / 16 / ROUNDS > 1 ? COPIERS / 16 / ROUNDS : 1;  // producers have few registers
  const int lane = thread % RUN_LANES, own = thread / RUN_LANES;
  int offset[ROUNDS];  // of the lane's items in an image's plane; -1 where nothing is stored
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const int item = i * RUN_LANES + lane, row = item / ROW_ITEMS, column = item % ROW_ITEMS * ITEM_PIXELS;
    const bool stored = item < RUN_ITEMS && origin.p + first + row < P && (TILE_Q == Q || origin.q + column < Q);
    offset[i] = stored ? row * Q + column : -1;
  }
  const RunItem* from = reinterpret_cast<const RunItem*>(staging) + own * (CHANNEL_PITCH / ITEM_PIXELS) + lane;
  Output* to = y + (((int64_t(origin.n) * K + origin.k + own) * P + origin.p + first) * Q + origin.q);
  const int images = N - origin.n, channels = K - origin.k - own;
#pragma unroll 1
  for (int n = 0; n < TILE_N && n < images; ++n) {
#pragma unroll UNROLL
    for (int k = 0; k < 64; k += CHANNELS_AT_ONCE)
#pragma unroll
      for (int i = 0; i < ROUNDS; ++i)
        if (offset[i] >= 0 && (K % BLOCK_N == 0 || k < channels))  // a consumer of the last tile may lie beyond K whole
          *reinterpret_cast<RunItem*>(to + (int64_t(k) * (P * Q) + offset[i])) =
              from[k * (CHANNEL_PITCH / ITEM_PIXELS) + i * RUN_LANES];
    from += IMAGE_PITCH / ITEM_PIXELS;
    to += int64_t(K) * (P * Q);
  }
}

template <int FIRST>
__device__ __forceinline__ void store_tile(unsigned char* staging, const Accumulators& acc, int consumer, int thread, Output* y,
                                           Origin origin) {
  ptx::barrier_sync(1 + consumer, 128);  // the last runs are copied
  stage_runs<FIRST>(staging, acc, thread / 32, thread % 32);
  ptx::barrier_sync(1 + consumer, 128);  // these are complete
  store_runs<128>(y, staging, thread, origin, FIRST);
  if constexpr (FIRST + RUN_ROWS < OWN_SUBTILES)
    store_tile<FIRST + RUN_ROWS>(staging, acc, consumer, thread, y, origin);
}
