// ---- a consumer of whole tiles: multiplies and stores them ----
// Where a tile lies is worked out before the products of an NCHW y and after those of an NHWC y: as records were measured.
constexpr bool kOriginFirst = !kOutputChannelsLast;

template <int CLUSTER>
__device__ __forceinline__ void consume_tiles(const Smem& smem, int index, const ptx::TensorMap* output,
                                              const Output* bias, Output* y, const Element* x, const Element* w,
                                              const Scales& scales) {
  constexpr int kTurns = kSplit == TILES ? kConsumers : 1;
  const int thread = threadIdx.x % 128, lane = thread % 32;
  const int first = blockIdx.x + (kSplit == TILES ? index * gridDim.x : 0);
  unsigned char* staging = smem.staging + index * STAGING_BYTES;
  Consumer consumer = {index, lane};
  uint32_t staged = 0;  // tiles (kStoredByProducers)
  int* saw_nan = smem.saw_nan + 2 * index;
  if constexpr (kFilterResident) wait(smem.filter_full, 0);
  if (kOrdered && index == kConsumers - 1) ptx::barrier_arrive(4, 256);  // the first consumer begins
  if (kSplit == TILES) consumer.skip_patches(index * CHUNKS * PLANES);
  for (int tile = first; tile < TILE_COUNT; tile += kTurns * gridDim.x) {
    Origin origin;
    if (kOriginFirst || kHasBias) origin = consumer_origin(tile, index);
    Accumulators acc;
    const Biases biases(bias, origin.k, thread);
    multiply_tile(acc, smem, consumer);
    if (kSplit == TILES) consumer.skip_patches((kConsumers - 1) * CHUNKS * PLANES);
    if constexpr (kScaled) unscale(acc, scales, consumer_origin(tile, index), thread);
#pragma unroll
    for (int i = 0; i < OWN_SUBTILES; ++i) add_bias(acc[i], biases);
    if (kRepair && (kScaled ? any_is_nan(acc) : has_nan(acc))) *saw_nan = 1;
    if (!kOriginFirst) origin = consumer_origin(tile, index);
    if (kStagingOverBuffers) ptx::barrier_sync(4, 128 * kConsumers);  // the products have read the buffers
    if constexpr (kStoredByProducers) {
      stage_parts<0>(smem, acc, index, thread, staged++ & 1);
    } else if constexpr (kBulkStored) {
      store_in_bulk(staging, acc, thread / 32, lane, y, origin);
    } else if constexpr (kRuns) {
      store_tile<0>(staging, acc, index, thread, y, origin);
    } else {
#pragma unroll
      for (int i = 0; i < OWN_SUBTILES; ++i) {
        const Origin place = {origin.n, origin.p + (kMapping == ROWS ? i * JOINED_ROWS : 0),
                              origin.q + (kMapping == BLOCK ? i * 8 : 0), origin.k};
        store_groups<0>(staging, acc[i], index, thread, output, y, place);
      }
    }
    if (kRepair && kBulkStored) ptx::barrier_sync(1 + index, 128);  // all have looked; other stores have had such a barrier
    if (kRepair && *saw_nan) {
      if (kBulkStored || (kOutputChannelsLast && thread == 0)) ptx::cp_async_bulk_wait_group<0>();
      ptx::barrier_sync(1 + index, 128);  // y is written
      if constexpr (kScaled)
        repair_by_warps(x, w, bias, y, origin, thread);
      else
        repair_tile(x, w, bias, y, origin, thread);
      ptx::barrier_sync(1 + index, 128);  // all have seen saw_nan
      if (thread == 0) *saw_nan = 0;
    }
    saw_nan = smem.saw_nan + 2 * index + (saw_nan == smem.saw_nan + 2 * index);
  }
  if (kBulkStored || (kOutputChannelsLast && thread == 0)) ptx::cp_async_bulk_wait_group_read<0>();
}
