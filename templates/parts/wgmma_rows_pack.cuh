// ---- the filter in the order in which it is multiplied: (K_BLOCKS, CHUNKS, WGMMA_N), 16 bytes each ----
__constant__ constexpr Chunks kChunkTable = window_chunks();

// Neighbours of a chunk that are neighbours in w, too: channels of a tap.
constexpr bool kChannelRuns = kFilterChannelsLast && (kInputChannelsLast || kSlotOrder == COLUMNS);
constexpr int TAP_CHANNELS = kChannelRuns ? common_divisor(C, UNIT) : 1;
struct alignas(TAP_CHANNELS * sizeof(Element)) TapChannels {
  Element e[TAP_CHANNELS];
};

__device__ __forceinline__ Unit packed_unit(const Element* __restrict__ w, int unit) {
  const int k = unit / (CHUNKS * WGMMA_N) * WGMMA_N + channel_of(unit % WGMMA_N);
  const Chunk chunk = kChunkTable.at[unit / WGMMA_N % CHUNKS];
  Unit values;
#pragma unroll
  for (int e = 0; e < UNIT; e += TAP_CHANNELS) {
    const FilterTap tap = filter_tap(chunk, e);
    const bool exists = tap.exists && k < K;
    if constexpr (TAP_CHANNELS == 1)
      values.e[e] = exists ? w[filter_offset(k, tap.r, tap.s, tap.c)] : from_float<Element>(0.0f);
    else
      reinterpret_cast<TapChannels*>(values.e + e)[0] =
          exists ? *reinterpret_cast<const TapChannels*>(w + filter_offset(k, tap.r, tap.s, tap.c)) : TapChannels();
    if constexpr (sizeof(Element) == 4)
      for (int i = e; i < e + TAP_CHANNELS; ++i)
        values.e[i] = from_float<Element>(__uint_as_float(ptx::cvt_rna_tf32(__float_as_uint(to_float(values.e[i])))));
  }
  return values;
}
