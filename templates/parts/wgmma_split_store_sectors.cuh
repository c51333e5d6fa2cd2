// ---- an NCHW y that leaves from registers in whole sectors of 32 bytes, but for the ends of a row ----
// A row of a consumer's tile is ROW_PAIRS pairs of neighbours in y. Pair i lies in lane (FIRST + i) % 4 of each four, in the
// group of 8 pixels (FIRST + i) / 4; a sector holds four pairs and begins between any two:
//
//   sectors of y  |  - - 0 1  |  2 3 4 5  |  ...
//   groups        | 0 1 2 3 |  4 5 6 7 |  ...        so a lane stores, of two groups (of three where FIRST % 4 > 0), one's pair
constexpr bool kSectors = !kOutputChannelsLast && kStagedGroups == 0 && !kBulkStores && TILE_N == 1 && TILE_Q % 2 == 0 && Q % 2 == 0 &&
                          (kMapping == BLOCK ? OWN_SUBTILES > 1 : JOINED_ROWS == 1 || PATCH_W % 2 == 0);
constexpr int OWN_ROWS = kMapping == BLOCK ? TILE_P : OWN_SUBTILES * JOINED_ROWS;  // of a consumer
constexpr int ROW_PAIRS = kMapping == BLOCK ? OWN_SUBTILES * 4 : TILE_Q / 2;
constexpr int ROW_GROUPS = kMapping == BLOCK ? OWN_SUBTILES : GROUPS_N;  // groups that a row's pairs lie in
constexpr int ROW_SECTORS = (3 + ROW_PAIRS + 3) / 4;                     // at most

// A thread's four accumulators of a group, which may be none of the row's: then any.
__device__ __forceinline__ const float* row_group(const Accumulators& acc, int row, int group) {
  const int some = group < 0 ? 0 : group < ROW_GROUPS ? group : ROW_GROUPS - 1;
  return kMapping == BLOCK ? acc[some] + row * 4 : acc[row / JOINED_ROWS] + some * 4;
}

__device__ __forceinline__ bool store_sectors(float* y, const Accumulators& acc, Origin place, const Channels& channels, int lane) {
  bool saw_nan = false;
  const int own = lane % 4, pairs = min(ROW_PAIRS, (Q - place.q) / 2);
  float* to = y + offset_of(place.n, place.p * Q + place.q, channels.k);
#pragma unroll
  for (int row = 0; row < OWN_ROWS; ++row, to += Q) {
    if (place.p + row >= P) break;
    const int first = kMapping == BLOCK ? 0 : row % JOINED_ROWS * (PATCH_W / 2);
    const int pair = (own - first) & 3;                                   // the lane's first of the row
    const int before = reinterpret_cast<uint64_t>(to) / sizeof(float2) % 4;  // pairs of the first sector that are not the row's
    const int late = pair + before >= 4;                                   // it lies in the sector after the first one
    const int shift = (own < first % 4) - late;
#pragma unroll
    for (int sector = 0; sector < ROW_SECTORS; ++sector) {
      const int i = (sector - late) * 4 + pair;
      const float* const d = row_group(acc, row, first / 4 + sector);
      const float* const d_before = row_group(acc, row, first / 4 + sector - 1);
      const float* const d_after = row_group(acc, row, first / 4 + sector + 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float numbers[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = half * 2 + e;
          float sum = shift < 0 ? d_before[at] : d[at];
          if (first % 4 > 0 && shift > 0) sum = d_after[at];
          numbers[e] = epilogue(unscaled(sum, channels.scale[half]), channels.bias[half]);
        }
        if (i < 0 || i >= pairs) continue;
        saw_nan |= numbers[0] != numbers[0] || numbers[1] != numbers[1];
        if (channels.exist(half))
          *reinterpret_cast<float2*>(to + half * 8 * int64_t(P * Q) + i * 2) = {numbers[0], numbers[1]};
      }
    }
  }
  return saw_nan;
}
