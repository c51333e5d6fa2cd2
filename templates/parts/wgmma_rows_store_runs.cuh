// ---- y in NCHW: an item's sectors leave staging, 16 bytes of a run by each thread at once ----
// 16 bytes of y, of which elements from ... to - 1 are the item's.
struct RunUnit {
  int k, pixel;    // of element 0, which may lie before the run
  int place;       // element of staging
  int from, to;

  __device__ __forceinline__ bool whole() const { return from == 0 && to == UNIT; }
};
constexpr int RUN_UNITS = ITEM_SLOTS / UNIT;  // of an item's channel, in whole sectors
__device__ __forceinline__ RunUnit run_unit(const Item& item, const StagedItem& staged, int channel, int unit) {
  const int k = item.channel + channel, into = elements_into_sector(item.segment, k);
  const int pixel = whole_sectors(into + staged.begin) + unit * UNIT - into;
  const int end = staged.last ? staged.end : whole_sectors(into + staged.end) - into;
  const int from = staged.first ? max(staged.begin - pixel, 0) : 0;
  const int to = K % WGMMA_N == 0 || k < K ? min(end - pixel, UNIT) : 0;
  return {k, pixel, ring_of(channel) + around(whole_sectors(staged.place + into) + unit * UNIT), from, to};
}

__device__ __forceinline__ int64_t run_offset(const Item& item, const RunUnit& unit) {
  return output_offset(item.segment.n, item.segment.p, 0, unit.k) + unit.pixel;
}

constexpr int SECTOR_UNITS = SECTOR / UNIT;
// Calls act(unit) for the thread's units that are stored element by element: of the sectors where a run begins and ends.
template <class Act>
__device__ __forceinline__ void for_each_edge(const Item& item, const StagedItem& staged, Act act) {
  if (!staged.first && !staged.last) return;
#pragma unroll 1
  for (int i = item.warp * 32 + item.lane; i < WGMMA_N * 2 * SECTOR_UNITS; i += kBulkStored ? 32 * kCopyingWarps : 128) {
    const int channel = i / (2 * SECTOR_UNITS), into = elements_into_sector(item.segment, item.channel + channel);
    const bool begins = i % (2 * SECTOR_UNITS) < SECTOR_UNITS;
    if (!(begins ? staged.first : staged.last)) continue;
    const int last_sector = whole_sectors(into + staged.end) - whole_sectors(into + staged.begin);
    const int number = i % SECTOR_UNITS + (begins ? 0 : last_sector / UNIT);
    const RunUnit unit = run_unit(item, staged, channel, number);
    if (unit.from < unit.to && !(unit.whole() && (kBulkStored || number < RUN_UNITS))) act(unit);
  }
}

// The consumer's threads take 16 bytes each of STEP channels, then of the next ones. They work out their place once for
// all rounds that are alike, and have BATCH loads in flight.
constexpr int STEP = 128 / RUN_UNITS, ROUNDS = ceil_div(WGMMA_N, STEP);
constexpr int ROUNDS_APART = ALIKE > STEP ? (ALIKE / STEP < ROUNDS ? ALIKE / STEP : ROUNDS) : 1;
constexpr int ALIKE_ROUNDS = ceil_div(ROUNDS, ROUNDS_APART), BATCH = ALIKE_ROUNDS < 4 ? ALIKE_ROUNDS : 4;
static_assert(!kStaged || kBulkStored || 128 % RUN_UNITS == 0, "a thread has the same 16 bytes of each channel");

__device__ __forceinline__ void store_runs(const Element* staging, const Item& item, const StagedItem& staged, Element* y,
                                           Probe& probe, uint64_t policy) {
  const int thread = item.warp * 32 + item.lane, left = min(K - item.channel, WGMMA_N);
#pragma unroll
  for (int apart = 0; apart < ROUNDS_APART; ++apart) {
    const int channel = thread / RUN_UNITS + apart * STEP;
    const RunUnit unit = run_unit(item, staged, channel, thread % RUN_UNITS);
    if (!unit.whole()) continue;
    const Element* const from = staging + unit.place;
    Element* const to = y + run_offset(item, unit);
#pragma unroll
    for (int first = 0; first < ALIKE_ROUNDS; first += BATCH) {
      Words words[BATCH];
      const auto further = [&](int i) { return (first + i) * ROUNDS_APART * STEP; };  // channels
      const auto exists = [&](int i) {
        const bool whole = K % WGMMA_N == 0 && WGMMA_N % (ROUNDS_APART * STEP) == 0;
        return first + i < ALIKE_ROUNDS && (whole || channel + further(i) < left);
      };
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        if (exists(i)) words[i] = *reinterpret_cast<const Words*>(from + further(i) * STAGING_PITCH);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (!exists(i)) continue;
        if constexpr (kBursts)
          ptx::st_global_v4_hint(to + further(i) * (int64_t(P) * Q), words[i].w, policy);
        else
          ptx::st_global_v4(to + further(i) * (int64_t(P) * Q), words[i].w);
        Probe own;  // a chain for each, for one would be long
#pragma unroll
        for (int word = 0; word < 4; ++word) own.look_at(words[i].w[word]);
        probe.join(own);
      }
    }
  }
  for_each_edge(item, staged, [&](const RunUnit& unit) {
#pragma unroll 1
    for (int i = unit.from; i < unit.to; ++i) {
      const Bits element = *reinterpret_cast<const Bits*>(staging + unit.place + i);
      probe.look_at(element);
      *reinterpret_cast<Bits*>(y + run_offset(item, unit) + i) = element;
    }
  });
}

// The thread's own outputs, those that were stored as NaN.
__device__ __noinline__ void repair_runs(const Element* x, const Element* w, const Element* bias, Element* y, Item item,
                                         StagedItem staged) {
  const auto repair = [&](const RunUnit& unit) {
#pragma unroll 1
    for (int i = unit.from; i < unit.to; ++i) {
      const int pixel = unit.pixel + i;
      repair_if_odd(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, unit.k);
    }
  };
  const int thread = item.warp * 32 + item.lane;
#pragma unroll 1
  for (int channel = thread / RUN_UNITS; channel < WGMMA_N; channel += STEP)
    if (const RunUnit unit = run_unit(item, staged, channel, thread % RUN_UNITS); unit.whole()) repair(unit);
  for_each_edge(item, staged, repair);
}
