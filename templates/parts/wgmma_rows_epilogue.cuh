// ---- epilogue: accumulators -> elements of y ----
template <class T>
struct PairOf {
  using Type = __half2;
};
template <>
struct PairOf<__nv_bfloat16> {
  using Type = __nv_bfloat162;
};
using Pair = PairOf<Element>::Type;

__device__ __forceinline__ Pair pair_of(uint32_t packed) {
  Pair pair;
  memcpy(&pair, &packed, sizeof pair);
  return pair;
}

// Zeros that are no part of the convolution are multiplied: those of the padding, and the weights of what a slot holds
// beyond the window. With an Inf or a NaN they make a NaN.
constexpr bool kRepair = kHasPadding || kSplit || CHUNKS * CHUNK_ELEMENTS > R * S * C;

// Becomes NaN if one of the elements that a thread stores is NaN, or Inf, which only costs time.
struct Probe {
  Pair pairs = pair_of(0);
  float singles = 0.0f;

  // Two elements of 16 bits, or one of 32.
  __device__ __forceinline__ void look_at(uint32_t word) {
    if constexpr (!kRepair) return;
    if constexpr (sizeof(Element) == 4)
      singles = fmaf(__uint_as_float(word), 0.0f, singles);
    else
      pairs = __hfma2(pair_of(word), pair_of(0), pairs);
  }
  __device__ __forceinline__ void join(const Probe& other) {
    if constexpr (!kRepair) return;
    pairs = __hfma2(other.pairs, pair_of(0), pairs);
    singles += other.singles;
  }
  __device__ __forceinline__ bool saw_nan() const {
    if constexpr (!kRepair) return false;
    if constexpr (sizeof(Element) == 4) return singles != singles;
    const float low = to_float(pairs.x), high = to_float(pairs.y);
    return low != low || high != high;
  }
};

// The ITEM_SLOTS slots that are multiplied together, and who of the consumer looks at them.
struct Item {
  Segment segment;
  int first_slot, end_slot;  // in the segment
  int channel;     // the CTA's first
  int warp, lane;  // of the warpgroup, of the warp
};

// Channels of an NCHW y that begin at odd elements are rows of other warps than those at even ones.
__device__ constexpr int channel_of_row(int warp, int row) {
  return !kOutputChannelsLast && P * Q % 2 != 0 ? (warp % 2 * 16 + row) * 2 + warp / 2 : warp * 16 + row;
}

// The segment's items in order: how many, and where one begins and ends.
__device__ __forceinline__ int items_of(const Segment& segment) {
  if constexpr (kRowItems) return segment.rows * ROW_ITEMS;
  return ((segment.rows - 1) * ROW_SLOTS + Q + ITEM_SLOTS - 1) / ITEM_SLOTS;
}
__device__ __forceinline__ int first_slot_of(int item) {
  return kRowItems ? item / ROW_ITEMS * ROW_SLOTS + item % ROW_ITEMS * ITEM_SLOTS : item * ITEM_SLOTS;
}
__device__ __forceinline__ int end_slot_of(int first_slot, int row) {  // of an item that begins in a row
  return kRowItems ? min(first_slot + ITEM_SLOTS, (row + 1) * ROW_SLOTS) : first_slot + ITEM_SLOTS;
}

// An output that was stored as NaN, or as Inf if split, is computed again, over the taps inside the image alone.
__device__ __forceinline__ void repair_if_odd(const Element* x, const Element* w, const Element* bias, Element* y, int n, int p,
                                              int q, int k) {
  const float stored = to_float(y[output_offset(n, p, q, k)]);
  if (stored != stored || (kSplit && fabsf(stored) > LARGEST_OUTPUT)) repair_output(x, w, bias, y, n, p, q, k);
}
