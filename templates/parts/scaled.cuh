// ---- fp32 numbers as one half each, with scales (halves.cuh has them), and what a product of them is worth ----
// Of TF32's 11 bits a half keeps all down to kTiny; below, it is off by 2^-25 at most, and a sum of products by that times the
// magnitudes that such numbers may meet. A sum that is 2^12 times as large does not feel it; others, which are few, are
// computed again where an image or a filter holds such numbers.
constexpr float kRoom = 0.25f;    // of a scale that is guessed
constexpr float kBeyond = 32768;  // what scaled numbers stay below, so that halves do not overflow
constexpr float kTiny = 0x1p-14f, kFelt = 0x1p-13f;  // the smallest normal half; 2^12 * 2^-25

struct ImageScale {
  float inverse;
  float tiny;  // 1 if it has numbers below kTiny but not zero, else 0
};
struct alignas(16) FilterScale {
  float inverse;
  float beside_tiny_image;  // sums of a smaller magnitude are computed again, where the image has tiny numbers
  float own;                // and always: above 0 where the filter has
  float unused;
};

__device__ __forceinline__ uint4 halved(const float (&v)[HALVES_UNIT], float scale) {
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = bits_of(__floats2half2_rn(v[2 * i] * scale, v[2 * i + 1] * scale));
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}
