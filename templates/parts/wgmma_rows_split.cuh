// ---- 4-byte elements by halves (kSplit) ----
// Times a power of two that brings the largest of its block of rows, or of its filter, to 2^14 ... 2^15, an fp32 v is
//   v = high + low / 2^11,  high = fp16(v),  low = fp16((v - high) * 2^11)
// up to 2^-23 of it if |v| is EXACT or more, and up to 2^-36 if it is less. A product is
//   high * high' + (high * low' + low * high') / 2^11
// up to 2^-21 of it. Where elements below EXACT could add up to more than 2^-23 of an output, and where one is Inf or NaN,
// the output is computed again in fp32: at worst 2^15 * 2^-36 times the window's elements, in units of both scales.
// Of tf32, which promises 11 bits, high is enough: it has as many, if |v| is 2^-14 or more, and is up to 2^-25 off if it is
// less; so elements below EXACT add up to 2^-12 of an output, or it is computed again.
constexpr float LOW_UNITS = 2048.0f;
constexpr float EXACT = 1.0f / 8192;             // elements that are 2^28 times smaller than their largest
constexpr float LIMIT_UNITS = 4.0f * R * S * C;  // outputs from which on such elements do no harm: 2^15 * 2^-36 * 2^23
constexpr float LARGEST_OUTPUT = 3.402823466e38f;

// Of elements: the largest magnitude of finite ones, and the least one above 0, as bits; 2^32 - 1 if there is none.
struct Range {
  uint32_t largest = 0, below_least = 0xffffffffu;

  __device__ __forceinline__ void look_at(uint32_t element) {
    const uint32_t magnitude = element & 0x7fffffffu;
    if (magnitude < 0x7f800000u) largest = max(largest, magnitude);
    below_least = min(below_least, magnitude - 1);
  }
  __device__ __forceinline__ void join(const Range& other) {
    largest = max(largest, other.largest);
    below_least = min(below_least, other.below_least);
  }
  __device__ __forceinline__ Range of_warp() const {
    return {__reduce_max_sync(0xffffffffu, largest), __reduce_min_sync(0xffffffffu, below_least)};
  }
};

// What elements of a range are multiplied by, and its inverse; whether some are below EXACT then.
struct Scaling {
  float up, down;
  bool inexact;
};
__device__ __forceinline__ Scaling scaling_of(const Range& range) {
  // powers of two by their exponents' bits; those of the smallest numbers stay below 2^127, whose inverse has few bits
  const uint32_t exponent = min(127 + 14 + 127 - (range.largest >> 23), 253u);
  const float down = __uint_as_float((254 - exponent) << 23);
  return {__uint_as_float(exponent << 23), down, range.below_least < __float_as_uint(EXACT * down) - 1};
}

// What sums of products with a block, or a filter's outputs, are multiplied by; and from what magnitude on they are right:
// of a block 0 or more, of a filter in units of the block.
struct Scale {
  float down, limit;
};
__device__ __forceinline__ Scale scale_of(const Scaling& scaling) {
  return {scaling.down, scaling.inexact ? LIMIT_UNITS * scaling.down : 0.0f};
}

// Two neighbouring elements, in two halves each.
struct Halves {
  uint32_t high, low;
};
__device__ __forceinline__ Halves split(float first, float second) {
  const __half2 high = __floats2half2_rn(first, second);
  const float2 rounded = __half22float2(high);
  const __half2 low = __floats2half2_rn((first - rounded.x) * LOW_UNITS, (second - rounded.y) * LOW_UNITS);
  Halves halves;
  memcpy(&halves.high, &high, 4);
  memcpy(&halves.low, &low, 4);
  return halves;
}
