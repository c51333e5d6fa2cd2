// ---- fp32 numbers as sums of two halves ----
// x * scale = high + low + error: `high` is x * scale rounded to fp16, `low` what that leaves, rounded too. The scale is the
// power of two that brings the largest finite magnitude among some numbers to 2^14 or more, below 2^15: `high` never
// overflows, and for x down to 2^-16 of the largest the error is at most 2^-23 |x * scale|, or else at most 2^-25, 2^-39 of the
// largest. An Inf has an Inf and a NaN, a NaN two.
// By the bits of the largest magnitude: the exponent field of 2^14 * 2^127 over it. Below 2^-112 the scale stays 2^126,
// which makes all that fp32 can hold there multiples of 2^-23: they are split without any error.
__device__ __forceinline__ uint32_t exponent_of(uint32_t largest) {
  const uint32_t exponent = largest >> 23;
  return exponent < 15 ? 15 : exponent;
}
__device__ __forceinline__ float scale_of(uint32_t largest) { return __uint_as_float((268 - exponent_of(largest)) << 23); }
__device__ __forceinline__ float inverse_scale_of(uint32_t largest) {
  return __uint_as_float((exponent_of(largest) - 14) << 23);
}

// The bits of |v|, or 0 where v is Inf or NaN.
__device__ __forceinline__ uint32_t finite_magnitude(float v) {
  const uint32_t bits = __float_as_uint(v) & 0x7fffffff;
  return bits < 0x7f800000 ? bits : 0;
}
__device__ __forceinline__ uint32_t largest_of_warp(uint32_t bits) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, distance);
    bits = other > bits ? other : bits;
  }
  return bits;
}

constexpr int HALVES_UNIT = 8;  // numbers whose high parts are 16 bytes, and the low ones
struct Halves {
  uint4 high, low;
};
__device__ __forceinline__ uint32_t bits_of(__half2 pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
__device__ __forceinline__ Halves split(const float (&v)[HALVES_UNIT], float scale) {
  uint32_t high[4], low[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float first = v[2 * i] * scale, second = v[2 * i + 1] * scale;
    const __half2 pair = __floats2half2_rn(first, second);
    const float2 rounded = __half22float2(pair);
    high[i] = bits_of(pair);
    low[i] = bits_of(__floats2half2_rn(first - rounded.x, second - rounded.y));
  }
  return {{high[0], high[1], high[2], high[3]}, {low[0], low[1], low[2], low[3]}};
}
