// ---- the filter in the order in which it is multiplied: (K_BLOCKS, CHUNKS, WGMMA_N), 16 bytes each ----
__constant__ constexpr Chunks kChunkTable = window_chunks();

__device__ __forceinline__ Unit packed_unit(const Element* __restrict__ w, int unit) {
  const int k = unit / (CHUNKS * WGMMA_N) * WGMMA_N + channel_of(unit % WGMMA_N);
  const Chunk chunk = kChunkTable.at[unit / WGMMA_N % CHUNKS];
  Unit values;
#pragma unroll
  for (int e = 0; e < UNIT; ++e) {
    const FilterTap tap = filter_tap(chunk, e);
    values.e[e] = tap.exists && k < K ? w[filter_offset(k, tap.r, tap.s, tap.c)] : from_float<Element>(0.0f);
    if constexpr (sizeof(Element) == 4)
      values.e[e] = from_float<Element>(__uint_as_float(ptx::cvt_rna_tf32(__float_as_uint(to_float(values.e[e])))));
  }
  return values;
}
