// ---- an NCHW y that leaves by bulk copies (kBulkStores), while the consumer goes on: a warp stages 8 channels of all its pixels ----
// They are laid into shared memory as they lie in y, and what has no gaps there is a run, one copy:
//   [image][channel][rows of the tile]   rows are whole rows of y: a run is a channel's
//                                        they are all rows of y (kWholePlanes): a run is an image's 8 channels
constexpr bool kWholePlanes = OWN_P >= P;
constexpr int RUN_NUMBERS = (kWholePlanes ? P : OWN_P) * Q;  // of a channel
constexpr int BULK_CHANNEL = kWholePlanes ? RUN_NUMBERS : (RUN_NUMBERS + 3) / 8 * 8 + 4;  // spreads channels over the banks
constexpr int BULK_IMAGE = 8 * BULK_CHANNEL + 4;
constexpr int BULK_RUNS = TILE_N * (kWholePlanes ? 1 : 8);
static_assert(!kBulkStores || (!kOutputChannelsLast && kMapping == ROWS && TILE_Q >= Q), "whole rows of an NCHW y are runs");
static_assert(!kBulkStores || (kWholePlanes ? int64_t(K) * P * Q % 4 == 0 : P * Q % 4 == 0 && RUN_NUMBERS % 4 == 0),
              "runs begin and end at 16-byte boundaries");

__device__ __forceinline__ void copy_runs(float* y, const float* staging, const Origin& place, int k, int lane) {
#pragma unroll 1
  for (int run = lane; run < BULK_RUNS; run += 32) {
    const int image = kWholePlanes ? run : run / 8, channel = kWholePlanes ? 0 : run % 8;
    if (place.n + image >= N || place.p >= P || k + channel >= K) continue;
    const int numbers = kWholePlanes ? min(8, K - k) * RUN_NUMBERS : min(OWN_P, P - place.p) * Q;
    ptx::cp_async_bulk_store(y + offset_of(place.n + image, place.p * Q, k + channel),
                             staging + image * BULK_IMAGE + channel * BULK_CHANNEL, numbers * sizeof(float));
  }
  ptx::cp_async_bulk_commit_group();
}

// `k` is the first of the warp's channels. Whether an output is NaN: then y is written when this returns.
__device__ __forceinline__ bool store_bulk(float* y, const Accumulators& acc, float* staging, const Origin& place,
                                           const Channels& channels, int k, int lane) {
  bool saw_nan = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    ptx::cp_async_bulk_wait_group_read<0>();
    __syncwarp();  // the copies before have read staging
#pragma unroll
    for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
      for (int j = 0; j < GROUPS_N; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          int n = 0;
          const int pixel = pixel_offset_in_group(j, lane % 4 * 2 + e, place_of_subtile(place, i), n);
          if (pixel < 0) continue;
          const float value =
              epilogue(unscaled(acc[i][j * 4 + half * 2 + e], channels.scale[half]), channels.bias[half]);
          saw_nan |= value != value;
          staging[(n - place.n) * BULK_IMAGE + lane / 4 * BULK_CHANNEL + pixel - place.p * Q] = value;
        }
    ptx::fence_proxy_async_shared_cta();
    __syncwarp();  // all 8 channels are staged
    copy_runs(y, staging, place, k + half * 8, lane);
  }
  saw_nan = __any_sync(0xffffffffu, saw_nan);
  if (saw_nan) {
    ptx::cp_async_bulk_wait_group<0>();
    __syncwarp();
  }
  return saw_nan;
}
