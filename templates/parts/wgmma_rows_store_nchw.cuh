// ---- y in NCHW: a consumer's warp has 16 channels of a tile, which leave as runs of pixels ----
// A channel's pixels of an item are a run: they lie one after the other in y. The warp stages them in shared memory, each
// as far into 16 bytes as in y, so that whole 16 bytes can be moved at once. Lanes write two pixels at a time, hence an
// even number of elements into 16 bytes: a run that begins at an odd one is moved by one more as it is read.
constexpr bool kOddRuns = Q % 2 == 1, kAlignedRuns = Q % UNIT == 0 && ITEM_SLOTS % UNIT == 0;
constexpr int RUN_PIXELS = kRowItems && Q < ITEM_SLOTS ? Q : ITEM_SLOTS;  // at most
constexpr int RUN_UNITS = ceil_div(RUN_PIXELS + (kAlignedRuns ? 0 : kOddRuns ? UNIT - 1 : UNIT - 2), UNIT);

struct Run {
  int64_t offset;  // of y
  int into;        // elements of 16 bytes of y before the first one
};
__device__ __forceinline__ int first_pixel(const Item& item) {  // of the segment
  return item.first_slot / ROW_SLOTS * Q + item.first_slot % ROW_SLOTS;
}
__device__ __forceinline__ int pixels_of(const Item& item) {
  const int left = kRowItems ? Q - item.first_slot % ROW_SLOTS : item.segment.rows * Q - item.first_slot;
  return min(ITEM_SLOTS, left);
}
__device__ __forceinline__ Run run_of(const Item& item, int k) {
  const int64_t offset = output_offset(item.segment.n, item.segment.p, 0, k) + first_pixel(item);
  return {offset, kAlignedRuns ? 0 : int(uint32_t(offset) % UNIT)};
}
__device__ __forceinline__ int first_channel(const Item& item, int tile) { return item.channel + tile * 64 + item.warp * 16; }

__device__ __forceinline__ void stage_tile(const float (&acc)[WGMMA_N / 2], const Item& item, int tile, Element* staging) {
  struct alignas(8) Two {
    float of[2];
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int channel = half * 8 + item.lane / 4, even = run_of(item, first_channel(item, tile) + channel).into & ~1;
    Element* const to = staging + channel * STAGING_PITCH + even + item.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < WGMMA_N / 8; ++i) {
      const float* d = acc + i * 4 + half * 2;
      if constexpr (sizeof(Element) == 2)
        *reinterpret_cast<uint32_t*>(to + i * 8) = pack<Element>(d[0], d[1]);
      else
        *reinterpret_cast<Two*>(to + i * 8) = {relu(d[0]), relu(d[1])};
    }
  }
}

// 16 bytes of y, of which elements from ... to - 1 are the run's.
struct RunUnit {
  int k, first;  // pixel of the run that element 0 is, below 0 before the run
  int from, to;
};
// Unit `index` of a tile's runs, those of the warp's first channel first.
__device__ __forceinline__ RunUnit run_unit(const Item& item, int tile, int index, int into) {
  const int k = first_channel(item, tile) + index / RUN_UNITS, first = index % RUN_UNITS * UNIT - into;
  const bool exists = (K % BLOCK_N == 0 || k < K) && (16 * RUN_UNITS % 32 == 0 || index < 16 * RUN_UNITS);
  return {k, first, max(-first, 0), exists ? min(pixels_of(item) - first, UNIT) : 0};
}

// What is staged at a unit of a run; of one that begins at an odd element, an element sooner.
__device__ __forceinline__ Words staged_words(const Element* staging, int unit, bool odd) {
  Words words = reinterpret_cast<const Words*>(staging)[unit];
  if constexpr (kOddRuns) {
    const uint32_t before = unit > 0 ? reinterpret_cast<const uint32_t*>(staging)[unit * 4 - 1] : 0;
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const uint32_t last = i > 0 ? words.w[i > 0 ? i - 1 : 0] : before;
      if constexpr (sizeof(Element) == 4)
        words.w[i] = odd ? last : words.w[i];
      else
        words.w[i] = __byte_perm(last, words.w[i], odd ? 0x5432 : 0x7654);
    }
  }
  return words;
}

// A run's first or last elements.
__device__ __forceinline__ void store_part(const Words& words, const RunUnit& unit, Element* y, Probe& probe) {
  constexpr int PER_WORD = 4 / sizeof(Element);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int e = i * PER_WORD;
    if (unit.from <= e && e + PER_WORD <= unit.to) {
      probe.look_at(words.w[i]);
      reinterpret_cast<uint32_t*>(y)[i] = words.w[i];
    } else if (unit.from < e + PER_WORD && e < unit.to) {  // one of two
      const int second = unit.from > e;
      const uint32_t element = words.w[i] >> 16 * second & 0xffff;
      probe.look_at(element);
      reinterpret_cast<Bits*>(y)[e + second] = Bits(element);
    }
  }
}
__device__ __forceinline__ void store_runs(const Item& item, int tile, const Element* staging, Element* y, Probe& probe,
                                           uint64_t policy) {
#pragma unroll 4
  for (int first = 0; first < 16 * RUN_UNITS; first += 32) {
    const int index = first + item.lane, channel = index / RUN_UNITS;
    const Run run = run_of(item, first_channel(item, tile) + channel);
    const RunUnit unit = run_unit(item, tile, index, run.into);
    if (unit.from >= unit.to) continue;
    const Words words = staged_words(staging + channel * STAGING_PITCH, index % RUN_UNITS, run.into % 2 == 1);
    Element* const to = y + run.offset + unit.first;
    if (unit.from == 0 && unit.to == UNIT) {
#pragma unroll
      for (int i = 0; i < 4; ++i) probe.look_at(words.w[i]);
      if constexpr (kBursts)
        ptx::st_global_v4_hint(to, words.w, policy);
      else
        ptx::st_global_v4(to, words.w);
    } else {
      store_part(words, unit, to, probe);
    }
  }
}

// The thread's own outputs, those that were stored as NaN.
__device__ __noinline__ void repair_runs(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
#pragma unroll 1
  for (int i = 0; i < ITEM_TILES * ceil_div(16 * RUN_UNITS, 32); ++i) {
    const int tile = i / ceil_div(16 * RUN_UNITS, 32), index = i % ceil_div(16 * RUN_UNITS, 32) * 32 + item.lane;
    const int into = run_of(item, first_channel(item, tile) + index / RUN_UNITS).into;
    const RunUnit unit = run_unit(item, tile, index, into);
#pragma unroll 1
    for (int e = unit.from; e < unit.to; ++e) {
      const int pixel = first_pixel(item) + unit.first + e;
      repair_if_nan(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, unit.k);
    }
  }
}
