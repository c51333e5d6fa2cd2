// ---- an NCHW y that leaves through shared memory (kStagedGroups): a warp's 16 channels of so many groups of 8 pixels at a time ----
// Its lanes then store pixels that are neighbours in y: of an image, as many as are neighbours in x's tile.
constexpr int STAGED_PIXELS = kStagedGroups * 8;
constexpr int STAGED_PITCH = STAGED_PIXELS + 8;  // spreads what lanes write over the banks
constexpr int WARP_STAGING = kBulkStores ? TILE_N * BULK_IMAGE : 16 * STAGED_PITCH;  // numbers
static_assert(kStagedGroups == 0 || (!kOutputChannelsLast && kStagedGroups % 4 == 0 && STAGED_PIXELS % TILE_N == 0), "whole pixels of an NCHW y are staged");

constexpr int STAGING_BEGIN = kTransposed && !kStagingOverLanding ? LANDED_STAGE : 0;  // from what lands
__device__ __forceinline__ float* staging_of_warp(const Splitting& splitting, int warp) {
  return splitting.landed + STAGING_BEGIN + warp * WARP_STAGING;
}

// Groups from `first` on of a subtile to y; `k` is the first of the warp's channels. Whether an output is NaN.
__device__ __forceinline__ bool copy_staged(float* y, const float* staging, Origin place, int first, int k, int lane) {
  constexpr int COLUMNS = kStagedGroups > 0 ? STAGED_PIXELS / TILE_N : 1;
  bool saw_nan = false;
#pragma unroll
  for (int item = lane; item < STAGED_PIXELS; item += 32) {
    const int pixel = item % COLUMNS * TILE_N + item / COLUMNS;
    int n = 0;
    const int offset = pixel_offset(first * 8 + pixel, place, n);
    if (offset < 0) continue;
    float* const to = y + (int64_t(n) * K + k) * (P * Q) + offset;
#pragma unroll
    for (int channel = 0; channel < 16; ++channel)
      if (K % BLOCK_N == 0 || k + channel < K) {
        const float value = staging[channel * STAGED_PITCH + pixel];
        to[channel * int64_t(P * Q)] = value;
        saw_nan |= value != value;
      }
  }
  return saw_nan;
}

__device__ __forceinline__ bool store_staged(float* y, const Accumulators& acc, float* staging, Origin place,
                                             const Channels& channels, int k, int lane) {
  constexpr int STEP = kStagedGroups > 0 ? kStagedGroups : 1;
  bool saw_nan = false;
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int first = 0; first < GROUPS_N; first += STEP) {
#pragma unroll
      for (int j = 0; j < STEP; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (first + j >= GROUPS_N) break;
          const float* d = acc[i] + (first + j) * 4 + half * 2;
          *reinterpret_cast<float2*>(staging + (half * 8 + lane / 4) * STAGED_PITCH + j * 8 + lane % 4 * 2) = {
              epilogue(unscaled(d[0], channels.scale[half]), channels.bias[half]),
              epilogue(unscaled(d[1], channels.scale[half]), channels.bias[half])};
        }
      __syncwarp();  // all is staged
      saw_nan |= copy_staged(y, staging, place_of_subtile(place, i), first, k, lane);
      __syncwarp();  // all is read
    }
  return __any_sync(0xffffffffu, saw_nan);  // who computed it repairs it
}
