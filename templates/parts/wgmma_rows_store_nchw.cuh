// ---- y in NCHW: the consumer's tiles become rows of a channel in shared memory; a warp stores WGMMA_N / 4 channels ----
// A tile to its place in staging: (WGMMA_N, STAGING_PITCH).
__device__ __forceinline__ void stage_tile(const float (&acc)[WGMMA_N / 2], Element* staging, const Item& item, int tile) {
  // matrices of 8 slots x 8 channels: two of a warp's slots, two of its channels; this lane's row is a channel
  Element* row = staging + (item.lane / 16 * 8 + item.lane % 8) * STAGING_PITCH + tile * 64 + item.warp * 16 + item.lane / 8 % 2 * 8;
#pragma unroll
  for (int j = 0; j < WGMMA_N / 8; j += 2) {
    uint32_t fragments[4];
#pragma unroll
    for (int i = 0; i < 2 && j + i < WGMMA_N / 8; ++i) {
      const float* d = acc + (j + i) * 4;
      fragments[2 * i] = pack<Element>(d[0], d[1]);
      fragments[2 * i + 1] = pack<Element>(d[2], d[3]);
    }
    if (j + 1 < WGMMA_N / 8)
      ptx::stmatrix_x4_trans(row + j * 8 * STAGING_PITCH, fragments);
    else
      ptx::stmatrix_x2_trans(row + j * 8 * STAGING_PITCH, {fragments[0], fragments[1]});
  }
}

// Two neighbouring pixels of an item, of every other channel: 4-byte aligned in y. Pixels count within the segment, whose
// rows follow each other in y. One or both may lie beside the item's.
struct Word {
  int parity;          // of the channels; those of the other parity may begin at another place within 4 bytes
  int pixel;
  bool first, second;  // whether they are the item's
  int place0, place1;  // in a row of staging; of one that is not, of the other
};
__device__ __forceinline__ int pixels_before(int slot) { return slot / ROW_SLOTS * Q + min(slot % ROW_SLOTS, Q); }
__device__ __forceinline__ int place_of(const Item& item, int pixel) {
  return pixel + pixel / Q * HALO_SLOTS - item.first_slot;
}

constexpr int WARP_CHANNELS = WGMMA_N / 4, WORD_CHANNELS = WARP_CHANNELS / 2;
__device__ __forceinline__ int warp_channel(const Item& item) { return item.channel + item.warp * WARP_CHANNELS; }

__device__ __forceinline__ void store_word(Element* to, uint32_t pair, uint64_t policy) {
  if constexpr (kBursts)
    ptx::st_global_hint(to, pair, policy);
  else
    *reinterpret_cast<uint32_t*>(to) = pair;
}

// Calls act(word) for the words that the lane stores.
template <class Act>
__device__ __forceinline__ void for_each_word(const Item& item, Act act) {
  const int begin = pixels_before(item.first_slot);
  const int end = min(pixels_before(item.end_slot), item.segment.rows * Q), last = end - 1;
  if (begin == end) return;
#pragma unroll
  for (int parity = 0; parity < 2; ++parity) {
    const uint32_t channel = uint32_t(item.segment.n) * K + warp_channel(item) + parity;
    const int odd = (channel * P * Q + item.segment.p * Q + begin) & 1;
#pragma unroll
    for (int i = 0; i < ITEM_SLOTS / 64; ++i) {
      const int pixel = begin - odd + 2 * (item.lane + 32 * i);
      act(Word{parity, pixel, pixel >= begin && pixel < end, pixel + 1 < end,
               place_of(item, min(max(pixel, begin), last)), place_of(item, min(pixel + 1, last))});
    }
  }
}

__device__ __forceinline__ void store_rows(const Element* staging, const Item& item, Element* y, Probe& probe, uint64_t policy) {
  const int left = K - warp_channel(item);
  staging += item.warp * WARP_CHANNELS * STAGING_PITCH;
  y += output_offset(item.segment.n, item.segment.p, 0, warp_channel(item));
  for_each_word(item, [&](const Word& word) {
    uint32_t pairs[WORD_CHANNELS];
#pragma unroll
    for (int i = 0; i < WORD_CHANNELS; ++i) {
      const uint16_t* row = reinterpret_cast<const uint16_t*>(staging + (2 * i + word.parity) * STAGING_PITCH);
      pairs[i] = row[word.place0] | uint32_t(row[word.place1]) << 16;
      probe.look_at(pairs[i]);
    }
    Element* to = y + int64_t(word.parity) * P * Q + word.pixel + (word.first ? 0 : 1);
    const auto is_channel = [&](int i) { return K % WGMMA_N == 0 || 2 * i + word.parity < left; };
    if (word.first && word.second) {
#pragma unroll
      for (int i = 0; i < WORD_CHANNELS; ++i)
        if (is_channel(i)) store_word(to + 2 * i * int64_t(P) * Q, pairs[i], policy);
    } else if (word.first || word.second) {
#pragma unroll
      for (int i = 0; i < WORD_CHANNELS; ++i)
        if (is_channel(i))
          *reinterpret_cast<uint16_t*>(to + 2 * i * int64_t(P) * Q) = uint16_t(pairs[i]);  // both halves are alike
    }
  });
}

__device__ __noinline__ void repair_rows(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
  for_each_word(item, [&](const Word& word) {
#pragma unroll 1
    for (int i = 0; i < WARP_CHANNELS; ++i) {  // two pixels of each channel
      const int k = warp_channel(item) + i / 2 * 2 + word.parity, pixel = word.pixel + i % 2;
      if (k < K && (i % 2 == 0 ? word.first : word.second))
        repair_if_nan(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, k);
    }
  });
}
