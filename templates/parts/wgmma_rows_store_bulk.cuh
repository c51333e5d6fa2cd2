// ---- y in NCHW, by bulk copies (kBulkStored): consumers stage items, copying warps store some of them at a time ----
// The thread's own outputs in staging, those that are NaN: they are computed again.
__device__ __noinline__ void repair_staged(const Element* x, const Element* w, const Element* bias, Element* staging, Item item,
                                           StagedItem staged) {
  for_each_output(item, [&](const Pixel& pixel, int channel) {
    const int n = item.segment.n, k = item.channel + channel;
    const int into = elements_into_sector(item.segment, k);
    Element* const place = staging + ring_of(channel) + around(place_of(item, staged, pixel) + into);
    // as if y lay where this output is at `place`
    repair_if_odd(x, w, bias, place - output_offset(n, pixel.p, pixel.q, k), n, pixel.p, pixel.q, k);
  });
}

// Of each channel's run all whole 16 bytes are copied. One thread asks for the copies, so that their addresses are in uniform
// registers, as the instruction wants them: those of many threads would be gathered first, which takes longer than a copy.
// Channels whose runs begin as far into a sector, and every other one, are a loop. Warps share these, then what they loop over.
constexpr int APART = ALIKE < 2 ? 2 : ALIKE < WGMMA_N ? ALIKE : WGMMA_N, ALIKE_CHANNELS = ceil_div(WGMMA_N, APART);
constexpr int COPIERS = kBulkStored ? kCopyingWarps : 1;
constexpr int WARPS_APART = APART < COPIERS ? APART : COPIERS, WARPS_ALIKE = COPIERS / WARPS_APART;
__device__ __forceinline__ void copy_runs(const Element* staging, const Item& item, const StagedItem& staged, Element* y,
                                          uint64_t policy) {
  constexpr bool kAll = K % WGMMA_N == 0 && WGMMA_N % APART == 0 && ALIKE_CHANNELS % WARPS_ALIKE == 0;
  const int left = min(K - item.channel, WGMMA_N), own = item.warp / WARPS_APART;
  const int begins = item.warp % WARPS_APART;
  int into = elements_into_sector(item.segment, item.channel + begins);
  Element* run = y + output_offset(item.segment.n, item.segment.p, 0, item.channel + begins);
#pragma unroll 1
  for (int first = begins; first < APART; first += WARPS_APART) {
    // elements from the boundary of a sector before the segment
    const int sector = whole_sectors(into + staged.begin);
    const int begin = staged.first ? ceil_div(into + staged.begin, UNIT) * UNIT : sector;
    const int end = staged.last ? (into + staged.end) / UNIT * UNIT : whole_sectors(into + staged.end);
    const int place = around(around(whole_sectors(staged.place + into)) + begin - sector);
    const auto copy = [&](int in_run, int in_ring, int count) {
      if (count <= 0) return;
      Element* to = run + in_run + own * (int64_t(APART) * P * Q);
      const Element* ring = staging + ring_of(first) + in_ring + own * (APART / 2 * PAIR_PITCH);
#pragma unroll 8
      for (int i = 0; i < ALIKE_CHANNELS; i += WARPS_ALIKE) {
        if (kAll || first + (i + own) * APART < left) ptx::cp_async_bulk_store_hint(to, ring, count * sizeof(Element), policy);
        to += int64_t(WARPS_ALIKE * APART) * P * Q;
        ring += WARPS_ALIKE * APART / 2 * PAIR_PITCH;
      }
    };
    const int before_end = min(end - begin, STAGED_PIXELS - place);  // of the ring
    copy(begin - into, place, before_end);
    copy(begin - into + before_end, 0, end - begin - before_end);
    into = (into + int64_t(WARPS_APART) * P * Q % SECTOR) % SECTOR;
    run += int64_t(WARPS_APART) * P * Q;
  }
}

// What a segment has before its first and after its last 16 bytes.
__device__ __forceinline__ void store_edges(const Element* staging, const Item& item, const StagedItem& staged, Element* y) {
  for_each_edge(item, staged, [&](const RunUnit& unit) {
#pragma unroll
    for (int i = 0; i < UNIT; ++i)
      if (i >= unit.from && i < unit.to) y[run_offset(item, unit) + i] = staging[unit.place + i];
  });
}

// Copying warp `index` stores its part of all items.
__device__ __forceinline__ void copy_items(const Smem& smem, int index, int lane, Element* y) {
  const uint64_t policy = ptx::createpolicy_evict_first();  // or y keeps x out of L2
  const int channel = int(blockIdx.x) % K_BLOCKS * WGMMA_N;
  Walk walk;
  Segment segment;
  Staging staging;
  int passed = 0;  // items of the CTA before the segment
#pragma unroll 1
  while (walk.take(segment)) {
    const int items = items_of(segment);
#pragma unroll 1
    for (int first = 0; first < items; first += kCopiedItems) {
      const int end = min(first + kCopiedItems, items);
      // what shares the first sectors with them was awaited before
      for (int i = first; i < end; ++i) await_item(smem.staged, passed + i);
      const int last_slot = first_slot_of(end - 1);  // where the last one begins
      const Item item = {segment, first_slot_of(first), end_slot_of(last_slot, last_slot / ROW_SLOTS), channel, index, lane};
      const StagedItem staged = staging.item_at(item, passed + first, first == 0, end == items);
      store_edges(smem.staging, item, staged, y);
      __syncwarp();  // they have been read
      if (lane != 0) continue;
      copy_runs(smem.staging, item, staged, y, policy);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<0>();
      for (int i = first; i < end; ++i) ptx::mbarrier_arrive(smem.stored + (passed + i) % kStagedItems);
    }
    staging.pass(segment);
    passed += items;
  }
}
