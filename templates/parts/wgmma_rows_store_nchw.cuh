// ---- y in NCHW: consumers put items into staging, from where they leave in whole sectors of 32 bytes ----
// A channel's pixels of a segment are a run: they lie one after the other in y. In staging they lie likewise in the
// channel's ring of STAGED_PIXELS, each as far into a sector as in y. An item's last pixels, short of a sector, are left to
// the next item of the segment, which a neighbour computes: so no sector is written in parts but at a segment's ends.
//   ring of a channel   |......aaaa|aaaaaaaa|aabbbbbb|bbbbbbbb|bcccc...|   items a, b, c of a segment; | sectors
//                       part of a's | a's, whole      | b's, whole       | c's
__device__ __forceinline__ int pixels_before(int slot) { return slot / ROW_SLOTS * Q + min(slot % ROW_SLOTS, Q); }
__device__ __forceinline__ int elements_into_sector(const Segment& segment, int k) {  // of a run's first pixel
  return int(((uint32_t(segment.n) * K + k) * P + segment.p) * Q % SECTOR);
}
__device__ __forceinline__ int whole_sectors(int elements) { return elements & ~(SECTOR - 1); }
__device__ __forceinline__ int around(int place) { return place < STAGED_PIXELS ? place : place - STAGED_PIXELS; }

// An item in staging: pixels begin ... end - 1 of its segment.
struct StagedItem {
  int number;  // of the CTA's items
  int begin, end;
  int place;         // of pixel `begin` in a run that begins with a sector
  bool first, last;  // of those that share sectors
};

// Where the items of a segment are in staging. All consumers walk the same segments.
struct Staging {
  int origin = 0;  // place of the segment's first pixel in a run that begins with a sector; whole sectors

  __device__ __forceinline__ StagedItem item_at(const Item& item, int number, bool first, bool last) const {
    const int pixels = item.segment.rows * Q, begin = min(pixels_before(item.first_slot), pixels);
    const int end = min(pixels_before(item.end_slot), pixels);
    return {number, begin, end, (origin + begin) % STAGED_PIXELS, first || !kSharedSectors, last || !kSharedSectors};
  }
  __device__ __forceinline__ void pass(const Segment& segment) {
    origin = (origin + whole_sectors(segment.rows * Q + 2 * SECTOR - 2)) % STAGED_PIXELS;
  }
};

// Waits for item `number` at the barriers of items, where there is one.
__device__ __forceinline__ void await_item(uint64_t* barriers, int number) {
  if (number >= 0) wait(barriers + number % kStagedItems, number / kStagedItems & 1);
}
// All items but the last STAGED_ITEMS - 1 have been stored: some may be short, and lie where the new one will.
__device__ __forceinline__ void await_place(const Smem& smem, const StagedItem& staged) {
#pragma unroll
  for (int i = 0; i < kConsumers; ++i) await_item(smem.stored, staged.number - STAGED_ITEMS - i);
}
// The item and what its first sectors share with the one before are there.
__device__ __forceinline__ void await_staged(const Smem& smem, const StagedItem& staged) {
  ptx::mbarrier_arrive(smem.staged + staged.number % kStagedItems);
  if (!staged.first) await_item(smem.staged, staged.number - 1);
  await_item(smem.staged, staged.number);
}

// Runs of channels so far apart begin as far into a sector.
__device__ constexpr int alike_channels() {
  int channels = 1;
  while (channels * (int64_t(P) * Q) % SECTOR != 0) channels *= 2;
  return channels;
}
constexpr int ALIKE = alike_channels();

// Where a pixel of an item lies in a run that begins with a sector.
__device__ __forceinline__ int place_of(const Item& item, const StagedItem& staged, const Pixel& pixel) {
  return staged.place + (pixel.p - item.segment.p) * Q + pixel.q - staged.begin;
}

// A tile to staging. At once the lanes write 8 pixels of 4 channels.
__device__ __forceinline__ void stage_tile(const float (&acc)[WGMMA_N / 2], Element* staging, const Item& item,
                                           const StagedItem& staged, int tile, Probe& probe) {
  constexpr int GROUPS_APART = ALIKE > 8 ? ALIKE / 8 : 1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pixel pixel = pixel_of(item, tile, half);
    if (!pixel.exists) continue;
    const int ahead = place_of(item, staged, pixel);
    Bits* places[GROUPS_APART][2];
#pragma unroll
    for (int i = 0; i < GROUPS_APART * 2; ++i) {
      const int channel = i / 2 * 8 + item.lane % 4 * 2 + i % 2;
      const int place = around(ahead + elements_into_sector(item.segment, item.channel + channel));
      places[i / 2][i % 2] = reinterpret_cast<Bits*>(staging) + ring_of(channel) + place;
    }
#pragma unroll
    for (int group = 0; group < WGMMA_N / 8; ++group) {
      const float first = acc[group * 4 + half * 2], second = acc[group * 4 + half * 2 + 1];
      const int further = group / GROUPS_APART * (GROUPS_APART * 4 * PAIR_PITCH);
      Bits *const first_place = places[group % GROUPS_APART][0] + further, *const second_place = places[group % GROUPS_APART][1] + further;
      if constexpr (sizeof(Element) == 2) {
        const uint32_t both = pack<Element>(first, second);
        if constexpr (kBulkStored) probe.look_at(both);
        *first_place = Bits(both);
        *second_place = Bits(both >> 16);
      } else {
        *first_place = __float_as_uint(relu(first));
        *second_place = __float_as_uint(relu(second));
        if constexpr (kBulkStored) {
          probe.look_at(__float_as_uint(relu(first)));
          probe.look_at(__float_as_uint(relu(second)));
        }
      }
    }
  }
}
