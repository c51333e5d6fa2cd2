// ---- y in NCHW, elements of 4 bytes: staged likewise; a lane stores a pixel of each of its warp's channels ----
__device__ __forceinline__ void stage_words(const float (&acc)[WGMMA_N / 2], Element* staging, const Item& item, int tile) {
  // at once the lanes write 8 slots of 4 channels, all to different banks
  const int channel = item.lane % 4 * 2, slot = tile * 64 + item.warp * 16 + item.lane / 4;
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) {
    const int row = channel + i / 4 * 8 + i % 2;
    staging[row * STAGING_PITCH + slot + i / 2 % 2 * 8] = from_float<Element>(relu(acc[i]));
  }
}

// Calls act(pixel) for the item's pixels that the lane stores; they count within the segment.
template <class Act>
__device__ __forceinline__ void for_each_pixel(const Item& item, Act act) {
  const int begin = pixels_before(item.first_slot);
  const int end = min(pixels_before(item.end_slot), item.segment.rows * Q);
#pragma unroll
  for (int i = 0; i < ITEM_SLOTS / 32; ++i)
    if (const int pixel = begin + item.lane + 32 * i; pixel < end) act(pixel);
}

__device__ __forceinline__ void store_words(const Element* staging, const Item& item, Element* y, Probe& probe,
                                            uint64_t policy) {
  const int left = K - warp_channel(item);
  staging += item.warp * WARP_CHANNELS * STAGING_PITCH;
  y += output_offset(item.segment.n, item.segment.p, 0, warp_channel(item));
  for_each_pixel(item, [&](int pixel) {
    const int place = place_of(item, pixel);
    uint32_t words[WARP_CHANNELS];
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      words[i] = *reinterpret_cast<const uint32_t*>(staging + i * STAGING_PITCH + place);
      probe.look_at(words[i]);
    }
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i)
      if (K % WGMMA_N == 0 || i < left) store_word(y + i * int64_t(P) * Q + pixel, words[i], policy);
  });
}

__device__ __noinline__ void repair_words(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
  for_each_pixel(item, [&](int pixel) {
#pragma unroll 1
    for (int i = 0; i < WARP_CHANNELS; ++i)
      if (const int k = warp_channel(item) + i; k < K)
        repair_if_nan(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, k);
  });
}
