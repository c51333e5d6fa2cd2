// ---- the consumers: blocks -> products -> y ----
__device__ __forceinline__ void store_tile(const float (&acc)[WGMMA_N / 2], const Item& item, const StagedItem& staged,
                                           int tile, Element* staging, Element* y, Probe& probe, uint64_t policy) {
  if constexpr (kOutputChannelsLast) {
    store_pixel<0>(acc, item, tile, y, probe, policy);
    store_pixel<1>(acc, item, tile, y, probe, policy);
  } else if constexpr (kStaged) {
    stage_tile(acc, staging, item, staged, tile, probe);
  } else {
    store_elements(acc, item, tile, y, probe, policy);
  }
}

// Tile by tile as their sums are complete; after the last one the blocks below `unneeded` are given back.
template <int TILE>
__device__ __forceinline__ void store_tiles(Accumulators& acc, const Biases& biases, Blocks& blocks, int unneeded,
                                            const Item& item, const StagedItem& staged, Element* staging, Element* y,
                                            Probe& probe, uint64_t policy) {
  ptx::wgmma_wait_group<ITEM_TILES - 1 - TILE>();
  ptx::wgmma_fence_operand(acc[TILE]);
  if constexpr (TILE == ITEM_TILES - 1) blocks.release_below(unneeded);
  add_bias(acc[TILE], biases);
  store_tile(acc[TILE], item, staged, TILE, staging, y, probe, policy);
  if constexpr (TILE + 1 < ITEM_TILES)
    store_tiles<TILE + 1>(acc, biases, blocks, unneeded, item, staged, staging, y, probe, policy);
}

// Consumers' turns: item `number` of the CTA is multiplied once the products of the one kMultiplying before are nearly done.
__device__ __forceinline__ void await_turn(const Smem& smem, int number) {
  const int before = number - kMultiplying;
  if (before >= 0) wait(smem.multiplied + before % kConsumers, before / kConsumers & 1);
}
__device__ __forceinline__ void end_turn(const Smem& smem, int index, int lane) {
  if (lane == 0) ptx::mbarrier_arrive(smem.multiplied + index);
}

// Consumer `index` takes every kConsumers-th item; they take turns also from one segment to the next.
__device__ __forceinline__ void consume(const Smem& smem, int index, int warp, int lane, const Element* x, const Element* w,
                                        const Element* bias, Element* y, const ptx::TensorMap* output) {
  const uint32_t ring = smem_units(smem.ring), filters = smem_units(smem.filters);
  const Scale* const filter_scales = reinterpret_cast<const Scale*>(smem.filters + PARTS * FILTER_CHUNKS * 16);
  uint64_t policy = 0;
  if constexpr (kBursts) policy = ptx::createpolicy_evict_first();
  Blocks blocks = {smem, lane};
  Walk walk;
  Segment segment;
  Staging staging;
  int first_block = 0;  // of the segment
  int next = index;     // item of the segment
  int passed = 0;       // items of the CTA before the segment
  const int first_channel = int(blockIdx.x) % K_BLOCKS * WGMMA_N;
  Biases biases;
  if constexpr (kHeldBias && !kChannelRows) read_bias(biases, bias, first_channel, lane);
  [[maybe_unused]] RowBiases row_biases;
  if constexpr (kHeldBias && kChannelRows) read_row_biases(row_biases, bias, first_channel, warp % 4, lane);
  if constexpr (kHasBias && kSplit) {
    for (int i = threadIdx.x; i < WGMMA_N; i += 128 * kConsumers) smem.bias[i] = epilogue_bias(bias, first_channel + channel_of(i));
    ptx::barrier_sync(1, 128 * kConsumers);  // it is there
  }
  wait(smem.filters_full, 0);
  [[maybe_unused]] HeldFilters held;
  if constexpr (kChannelRows) hold_filters(held, smem.filters, warp % 4, lane);
  [[maybe_unused]] float filter_limit = 0.0f;
  if constexpr (kSplit) filter_limit = limit_of_filters(filter_scales, lane);
#pragma unroll 1
  while (walk.take(segment)) {
    const int items = items_of(segment);
#pragma unroll 1
    for (; next < items; next += kConsumers) {
      const int first_slot = first_slot_of(next), row = first_slot / ROW_SLOTS;
      const int end_slot = end_slot_of(first_slot, row);
      const Item item = {segment, first_slot, end_slot, first_channel, warp % 4, lane};
      [[maybe_unused]] StagedItem staged;
      if constexpr (kStaged) staged = staging.item_at(item, passed + next, next == 0, next + 1 == items);
      const int last_row = min(segment.rows - 1, (end_slot - 1) / ROW_SLOTS);
      [[maybe_unused]] Accumulators acc;
      [[maybe_unused]] Sums sums;
      blocks.release_below(first_block + row);
      blocks.acquire_below(first_block + last_row + HALO_BLOCKS + 1);
      const Windows windows(ring, first_block + row, first_slot);
      const int next_row = first_slot_of(next + kConsumers) / ROW_SLOTS;  // that the consumer needs next
      const int unneeded = next + kConsumers < items ? next_row : segment.blocks();
      Probe probe;
      if constexpr (kTurns) await_turn(smem, passed + next);
      if constexpr (kSplit) {
#pragma unroll 1
        for (int tile = 0; tile < ITEM_TILES; ++tile) {
          float sum[WGMMA_N / 2], even[WGMMA_N / 2], odd[WGMMA_N / 2];  // and partial sums
          const SlotScales scales(smem.scales, first_block + row, item, tile);
          // anew for each tile: descriptors of all filters would take too many registers
          multiply_split<0>(sum, even, kOneSet ? even : odd, windows, tile * 64, smem_units(smem.filters), scales, [&] {
            if (kTurns && tile + 1 == ITEM_TILES) end_turn(smem, index, lane);
          });
          const Bounds bounds = bounds_of(scales);
          __syncwarp();  // all lanes have read the blocks' scales
          if (tile == ITEM_TILES - 1) blocks.release_below(first_block + unneeded);
          finish_split(sum, filter_scales, filter_limit, smem.bias, item, bounds);
          if (kStaged && tile == 0) await_place(smem, staged);
          store_tile(sum, item, staged, tile, smem.staging, y, probe, policy);
        }
      } else if constexpr (kChannelRows) {
        multiply_held(sums, windows, held);
        if constexpr (kTurns) {
          ptx::wgmma_wait_group<1>();
          end_turn(smem, index, lane);
        }
        if constexpr (kStaged)
          await_place(smem, staged);
        else
          await_staging(index, warp % 4, lane);
        ptx::wgmma_wait_group<0>();
        ptx::wgmma_fence_held(sums);
        blocks.release_below(first_block + unneeded);
        add_row_biases(sums, row_biases);
        if constexpr (kStaged)
          stage_channels(sums, smem.staging, item, staged, probe);
        else
          stage_pixels(sums, staging_of(smem, index), warp % 4, lane, probe);
      } else {
        multiply_item(acc, windows, filters);
        if constexpr (kTurns) {
          ptx::wgmma_wait_group<1>();
          end_turn(smem, index, lane);
        }
        if constexpr (kStaged) await_place(smem, staged);
        store_tiles<0>(acc, biases, blocks, first_block + unneeded, item, staged, smem.staging, y, probe, policy);
      }
      if constexpr (kBulkStored) {
        if (kRepair && probe.saw_nan()) repair_staged(x, w, bias, smem.staging, item, staged);
        ptx::fence_proxy_async_shared_cta();  // bulk copies read what the thread wrote
        ptx::mbarrier_arrive(smem.staged + staged.number % kStagedItems);
      } else if constexpr (kStaged) {
        await_staged(smem, staged);
        store_runs(smem.staging, item, staged, y, probe, policy);
        ptx::mbarrier_arrive(smem.stored + staged.number % kStagedItems);
      }
      if constexpr (kOutputMap) {
        __syncwarp();  // other lanes have staged the thread's outputs
        if (kRepair && probe.saw_nan()) repair_pixels_staged(x, w, bias, staging_of(smem, index), item);
        store_item(staging_of(smem, index), index, item, output);
      } else if (kRepair && !kBulkStored && probe.saw_nan()) {
        if constexpr (kStaged)
          repair_runs(x, w, bias, y, item, staged);
        else
          repair_pixels(x, w, bias, y, item);
      }
    }
    if constexpr (kStaged) staging.pass(segment);
    next -= items;
    passed += items;
    first_block += segment.blocks();
    blocks.release_below(first_block);
  }
  if constexpr (kOutputMap) ptx::cp_async_bulk_wait_group_read<0>();  // shared memory goes with the CTA
}
