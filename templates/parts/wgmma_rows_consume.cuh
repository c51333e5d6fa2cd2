// ---- the consumers: blocks -> products -> y ----
// Tile by tile as their sums are complete; after the last one the blocks below `unneeded` are given back.
template <int TILE>
__device__ __forceinline__ void store_tiles(Accumulators& acc, Blocks& blocks, int unneeded, const Item& item,
                                            const float* bias, Element* staging, Element* y, Probe& probe, uint64_t policy) {
  ptx::wgmma_wait_group<ITEM_TILES - 1 - TILE>();
  ptx::wgmma_fence_operand(acc[TILE]);
  if constexpr (TILE == ITEM_TILES - 1) blocks.release_below(unneeded);
  if constexpr (kOutputChannelsLast) {
    store_pixel<0>(acc[TILE], item, TILE, bias, y, probe, policy);
    store_pixel<1>(acc[TILE], item, TILE, bias, y, probe, policy);
  } else {
    stage_tile(acc[TILE], staging, item, TILE, bias);
  }
  if constexpr (TILE + 1 < ITEM_TILES)
    store_tiles<TILE + 1>(acc, blocks, unneeded, item, bias, staging, y, probe, policy);
}

// Consumer `index` takes every kConsumers-th item; they take turns also from one segment to the next.
__device__ __forceinline__ void consume(const Smem& smem, int index, int warp, int lane, const Element* x, const Element* w,
                                        const Element* bias, Element* y) {
  const uint32_t ring = smem_units(smem.ring), filters = smem_units(smem.filters);
  Element* const staging = smem.staging + index * (STAGING_BYTES / kConsumers / int(sizeof(Element)));
  uint64_t policy = 0;
  if constexpr (kBursts) policy = ptx::createpolicy_evict_first();
  Blocks blocks = {smem, lane};
  Walk walk;
  Segment segment;
  int first_block = 0;  // of the segment
  int next = index;     // item of the segment
  wait(smem.filters_full, 0);
#pragma unroll 1
  while (walk.take(segment)) {
    const int slots = (segment.rows - 1) * ROW_SLOTS + Q, items = (slots + ITEM_STEP - 1) / ITEM_STEP;
#pragma unroll 1
    for (; next < items; next += kConsumers) {
      const Item item = {segment, next * ITEM_STEP, int(blockIdx.x) % K_BLOCKS * WGMMA_N, warp % 4, lane};
      const int row = item.first_slot / ROW_SLOTS;
      const int last_row = min(segment.rows - 1, (item.first_slot + ITEM_STEP - 1) / ROW_SLOTS);
      blocks.release_below(first_block + row);
      blocks.acquire_below(first_block + last_row + HALO_BLOCKS + 1);
      Accumulators acc;
      multiply_item(acc, ring + (first_block + row) % kRingBlocks * ROW_SLOTS + item.first_slot % ROW_SLOTS, filters);
      const int next_row = (item.first_slot + kConsumers * ITEM_STEP) / ROW_SLOTS;  // that the consumer needs next
      const int unneeded = next + kConsumers < items ? next_row : segment.blocks();
      Probe probe;
      if constexpr (!kOutputChannelsLast) ptx::barrier_sync(1 + index, 128);  // staging may be written
      store_tiles<0>(acc, blocks, first_block + unneeded, item, smem.bias, staging, y, probe, policy);
      if constexpr (!kOutputChannelsLast) {
        ptx::barrier_sync(1 + index, 128);  // staging is complete
        store_rows(staging, item, y, probe, policy);
      }
      if (kRepair && probe.saw_nan()) {
        if constexpr (kOutputChannelsLast)
          repair_pixels(x, w, bias, y, item);
        else
          repair_rows(x, w, bias, y, item);
      }
    }
    next -= items;
    first_block += segment.blocks();
    blocks.release_below(first_block);
  }
}
