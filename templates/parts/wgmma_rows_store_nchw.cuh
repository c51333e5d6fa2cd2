// ---- y in NCHW: consumers put items into staging, where storers find them ----
// A channel's pixels of a segment are a run: they lie one after the other in y. In staging they lie likewise in the
// channel's ring of STAGED_PIXELS, each as far into 16 bytes as in y, so that whole 16 bytes can be moved at once.
__device__ __forceinline__ int elements_into_unit(const Segment& segment, int k) {
  const uint32_t rows = (uint32_t(segment.n) * K + k) * P + segment.p;
  return int(rows * Q % UNIT);  // of a run's first pixel
}
__device__ __forceinline__ int pixels_before(int slot) { return slot / ROW_SLOTS * Q + min(slot % ROW_SLOTS, Q); }

// Where the items of a segment are in staging. All who look walk the same segments.
struct Staged {
  int items = 0;   // of the CTA before the segment
  int origin = 0;  // place in a ring of what is UNIT - 1 or less before a run's first pixel; whole 16 bytes

  __device__ __forceinline__ int slot(int item) const { return (items + item) % kStagedItems; }
  __device__ __forceinline__ uint32_t parity(int item) const { return (items + item) / kStagedItems & 1; }
  __device__ __forceinline__ int place(int pixel) const { return (origin + pixel) % STAGED_PIXELS; }
  __device__ __forceinline__ void pass(const Segment& segment, int count) {
    items += count;
    origin = (origin + (segment.rows * Q + 2 * UNIT - 2) / UNIT * UNIT) % STAGED_PIXELS;
  }
};
__device__ __forceinline__ int around(int place) { return place < STAGED_PIXELS ? place : place - STAGED_PIXELS; }

// A tile of an item that begins with pixel `begin` of the segment, at `place` in the rings.
__device__ __forceinline__ void stage_tile(const float (&acc)[WGMMA_N / 2], Element* staging, const Item& item, int begin,
                                           int place, int tile, const float* bias) {
  // at once the lanes write 8 pixels of 4 channels
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pixel pixel = pixel_of(item, tile, half);
    if (!pixel.exists) continue;
    const int ahead = place + pixel.row * Q + pixel.q - begin;
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      const int channel = item.lane % 4 * 2 + second;
      // 8 channels further a run begins as far into 16 bytes
      const int into = elements_into_unit(item.segment, item.channel + channel);
      Element* const to = staging + channel * STAGING_PITCH + around(ahead + into);
#pragma unroll
      for (int i = 0; i < WGMMA_N / 8; ++i) {
        const float value = epilogue(acc[i * 4 + half * 2 + second], kHasBias ? bias[i * 8 + channel] : 0.0f);
        to[i * 8 * STAGING_PITCH] = from_float<Element>(value);
      }
    }
  }
}

// ---- the storers ----
// An item in staging: pixels begin ... end - 1 of its segment, of which the last ones short of 16 bytes are left to the next
// item, if there is one.
struct StagedItem {
  Segment segment;
  int begin, end, place;
  bool last;    // of the segment
  int channel;  // the CTA's first
};
// 16 bytes of y, of which elements from ... to - 1 are the item's.
struct StagedUnit {
  int place;       // element of staging
  int64_t offset;  // of y
  int k, pixel;    // of element 0, which may lie before the run
  int from, to;

  __device__ __forceinline__ bool whole() const { return from == 0 && to == UNIT; }
};
constexpr int RUN_UNITS = ITEM_SLOTS / UNIT;  // whole ones, at most, of an item's channel
__device__ __forceinline__ StagedUnit staged_unit(const StagedItem& item, int channel, int unit) {
  const int k = item.channel + channel, into = elements_into_unit(item.segment, k);
  const int first = (into + item.begin) / UNIT * UNIT + unit * UNIT - into;  // pixel
  const int place = around((item.place + into) / UNIT * UNIT + unit * UNIT);
  const int to = K % WGMMA_N == 0 || k < K ? min(item.end - first, UNIT) : 0;
  return {channel * STAGING_PITCH + place, output_offset(item.segment.n, item.segment.p, 0, k) + first, k, first,
          max(-first, 0), item.last || to == UNIT ? to : 0};
}

// Calls act(index) for each of the item's units that a storer's thread stores, BATCH times in a row where there are more.
constexpr int STORER_THREADS = kStorers > 0 ? 32 * kStorers : 32, ITEM_UNITS = WGMMA_N * RUN_UNITS;
constexpr int BATCH = ITEM_UNITS >= 4 * STORER_THREADS ? 4 : ceil_div(ITEM_UNITS, STORER_THREADS);

// Element by element: the first and last ones of a run.
__device__ __forceinline__ void store_part(const StagedUnit& unit, const Element* staging, Element* y, Probe& probe) {
#pragma unroll 1
  for (int i = unit.from; i < unit.to; ++i) {
    const Bits element = *reinterpret_cast<const Bits*>(staging + unit.place + i);
    probe.look_at(element);
    *reinterpret_cast<Bits*>(y + unit.offset + i) = element;
  }
}
__device__ __forceinline__ void store_item(const StagedItem& item, int thread, const Element* staging, Element* y, Probe& probe,
                                           uint64_t policy) {
#pragma unroll 1
  for (int first = thread; first < ITEM_UNITS; first += BATCH * STORER_THREADS) {
    StagedUnit units[BATCH];
    Words words[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int index = first + i * STORER_THREADS;
      units[i] = staged_unit(item, index / RUN_UNITS, index % RUN_UNITS);
      if (ITEM_UNITS % (BATCH * STORER_THREADS) != 0 && index >= ITEM_UNITS) units[i].to = 0;
      if (units[i].whole()) words[i] = *reinterpret_cast<const Words*>(staging + units[i].place);
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      if (units[i].whole()) {
#pragma unroll
        for (int j = 0; j < 4; ++j) probe.look_at(words[i].w[j]);
        if constexpr (kBursts)
          ptx::st_global_v4_hint(y + units[i].offset, words[i].w, policy);
        else
          ptx::st_global_v4(y + units[i].offset, words[i].w);
      } else if (units[i].from < units[i].to) {
        store_part(units[i], staging, y, probe);
      }
    }
  }
  if (item.last)  // a run may end beyond RUN_UNITS
    for (int channel = thread; channel < WGMMA_N; channel += STORER_THREADS)
      store_part(staged_unit(item, channel, RUN_UNITS), staging, y, probe);
}

// The thread's own outputs, those that were stored as NaN.
__device__ __noinline__ void repair_item(StagedItem item, int thread, const Element* x, const Element* w,
                                         const Element* bias, Element* y) {
  const auto repair = [&](const StagedUnit& unit) {
#pragma unroll 1
    for (int i = unit.from; i < unit.to; ++i) {
      const int pixel = unit.pixel + i;
      repair_if_nan(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, unit.k);
    }
  };
#pragma unroll 1
  for (int index = thread; index < ITEM_UNITS; index += STORER_THREADS)
    repair(staged_unit(item, index / RUN_UNITS, index % RUN_UNITS));
  if (item.last)
    for (int channel = thread; channel < WGMMA_N; channel += STORER_THREADS) repair(staged_unit(item, channel, RUN_UNITS));
}

// `thread` of the storers'.
__device__ __forceinline__ void store_staged(const Smem& smem, int thread, const Element* x, const Element* w,
                                             const Element* bias, Element* y) {
  uint64_t policy = 0;
  if constexpr (kBursts) policy = ptx::createpolicy_evict_first();
  Walk walk;
  Segment segment;
  Staged staged;
#pragma unroll 1
  while (walk.take(segment)) {
    const int items = items_of(segment);
#pragma unroll 1
    for (int i = 0; i < items; ++i) {
      const int begin = pixels_before(first_slot_of(i)), end = min(pixels_before(end_slot_of(i)), segment.rows * Q);
      const StagedItem item = {segment, begin, end, staged.place(begin), i + 1 == items, int(blockIdx.x) % K_BLOCKS * WGMMA_N};
      wait(smem.staged_full + staged.slot(i), staged.parity(i));
      Probe probe;
      store_item(item, thread, smem.staging, y, probe, policy);
      __syncwarp();
      if (thread % 32 == 0) ptx::mbarrier_arrive(smem.staged_empty + staged.slot(i));
      if (kRepair && probe.saw_nan()) repair_item(item, thread, x, w, bias, y);
    }
    staged.pass(segment, items);
  }
}
