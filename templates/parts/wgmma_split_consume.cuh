// ---- a consumer: multiplies its tiles, stores them, repairs what is not finite ----
__device__ __forceinline__ void consume(const Smem& smem, const Splitting& splitting, int index, const float* inverse_scales,
                                        const float* bias, float* y, const float* x, const float* w) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  Consumer consumer = {index, lane};
  int lag = LAG_PATCHES;
  if constexpr (kFilterResident) wait(smem.filter_full, 0);
  if (kConsumers > 1 && index > 0) ptx::barrier_sync(4 + index, 256);  // the one before is as far as it should be
  Accumulators partial;
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
    Accumulators acc;
    multiply_tile(acc, partial, smem, splitting, consumer, lag);
    Origin place = origin_of(tile);
    if (kSplit == FILTERS) place.k += index * 64;
    if (kSplit == PIXELS && kMapping == ROWS) place.p += index * OWN_P;
    if (kSplit == PIXELS && kMapping == BLOCK) place.q += index * OWN_Q;
    const int k = place.k + warp * 16 + lane / 4;
    const Channels channels = {k,
                               {k < K ? inverse_scales[k] : 0.0f, k + 8 < K ? inverse_scales[k + 8] : 0.0f},
                               {epilogue_bias(bias, k), epilogue_bias(bias, k + 8)}};
    bool saw_nan;
    if constexpr (kBulkStores)
      saw_nan = store_bulk(y, acc, staging_of_warp(splitting, index * 4 + warp), place, channels, place.k + warp * 16, lane);
    else if constexpr (kStagedGroups > 0)
      saw_nan = store_staged(y, acc, staging_of_warp(splitting, index * 4 + warp), place, channels, place.k + warp * 16, lane);
    else if constexpr (kSectors)
      saw_nan = store_sectors(y, acc, place, channels, lane);
    else
      saw_nan = store(y, acc, place, channels, lane);
    if (saw_nan) repair_outputs(x, w, bias, y, place, k, lane);
  }
  if constexpr (kBulkStores) ptx::cp_async_bulk_wait_group_read<0>();  // shared memory is there until all is read
}
