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

// A run's first or last elements: from ... to - 1 of 16 bytes.
__device__ __forceinline__ void store_part(const Words& words, int from, int to, Element* y, Probe& probe) {
  constexpr int PER_WORD = 4 / sizeof(Element);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int e = i * PER_WORD;
    if (from <= e && e + PER_WORD <= to) {
      probe.look_at(words.w[i]);
      reinterpret_cast<uint32_t*>(y)[i] = words.w[i];
    } else if (from < e + PER_WORD && e < to) {  // one of two
      const int second = from > e;
      const uint32_t element = words.w[i] >> 16 * second & 0xffff;
      probe.look_at(element);
      reinterpret_cast<Bits*>(y)[e + second] = Bits(element);
    }
  }
}

// The ends of the tile's runs, each by a lane.
__device__ __forceinline__ void store_ends(const Item& item, int tile, const Element* staging, Element* y, Probe& probe) {
  const int channel = item.lane / 2, k = first_channel(item, tile) + channel, pixels = pixels_of(item);
  const Run run = run_of(item, k);
  const int unit = item.lane % 2 == 0 ? 0 : (run.into + pixels) / UNIT, first = unit * UNIT - run.into;
  const int from = max(-first, 0), to = min(pixels - first, UNIT);
  const bool exists = (K % BLOCK_N == 0 || k < K) && (item.lane % 2 == 0 || unit > 0);
  if (exists && from < to && to - from < UNIT)
    store_part(staged_words(staging + channel * STAGING_PITCH, unit, run.into % 2 == 1), from, to, y + run.offset + first, probe);
}

// RUN_LANES lanes store a run's whole 16 bytes, BATCH times in a row.
__device__ constexpr int run_lanes() {
  int lanes = 2;
  while (lanes < RUN_UNITS && lanes < 32) lanes *= 2;
  return lanes;
}
constexpr int RUN_LANES = run_lanes(), RUNS_AT_ONCE = 32 / RUN_LANES, PASSES = 16 / RUNS_AT_ONCE;
constexpr int BATCH = PASSES < 2 ? 1 : PASSES < 4 || ITEM_TILES > 1 ? 2 : 4;

__device__ __forceinline__ void store_runs(const Item& item, int tile, const Element* staging, Element* y, Probe& probe,
                                           uint64_t policy) {
  const int pixels = pixels_of(item), own = item.lane / RUN_LANES, k = first_channel(item, tile) + own;
  const int64_t offset = run_of(item, k).offset;
  y += offset;
  staging += own * STAGING_PITCH;
#pragma unroll
  for (int units = 0; units < RUN_UNITS; units += RUN_LANES) {
    const int unit = units + item.lane % RUN_LANES, at = unit * UNIT;
#pragma unroll
    for (int first = 0; first < 16; first += RUNS_AT_ONCE * BATCH) {
      Words words[BATCH];
      int into[BATCH];
      bool whole[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int run = first + i * RUNS_AT_ONCE;
        into[i] = kAlignedRuns ? 0 : int((uint32_t(offset) + uint32_t(run) * P * Q) % UNIT);
        whole[i] = into[i] <= at && at + UNIT <= into[i] + pixels && (K % BLOCK_N == 0 || k + run < K);
        if (whole[i]) words[i] = staged_words(staging + run * STAGING_PITCH, unit, into[i] % 2 == 1);
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (!whole[i]) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) probe.look_at(words[i].w[j]);
        Element* const to = y + int64_t(first + i * RUNS_AT_ONCE) * P * Q + (at - into[i]);
        if constexpr (kBursts)
          ptx::st_global_v4_hint(to, words[i].w, policy);
        else
          ptx::st_global_v4(to, words[i].w);
      }
    }
  }
  if constexpr (!kAlignedRuns) store_ends(item, tile, staging - own * STAGING_PITCH, y - offset, probe);
}

// The warp's outputs, those that were stored as NaN.
__device__ __noinline__ void repair_runs(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
  const int pixels = pixels_of(item), runs = ITEM_TILES * 16;
#pragma unroll 1
  for (int i = item.lane; i < runs * pixels; i += 32) {
    const int run = i / pixels, pixel = first_pixel(item) + i % pixels, k = first_channel(item, run / 16) + run % 16;
    if (k < K) repair_if_nan(x, w, bias, y, item.segment.n, item.segment.p + pixel / Q, pixel % Q, k);
  }
}
