// templates/ptx/cvt.cuh on the CPU.
#pragma once
namespace ptx {
// A tf32 keeps the upper 19 bits of an fp32; .rna rounds to nearest, ties away from zero. A NaN becomes the canonical one.
inline uint32_t cvt_rna_tf32(uint32_t fp32) {
  const bool is_nan = (fp32 & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? 0x7fffffffu : (fp32 + 0x1000u) & 0xffffe000u;
}
template <class T>
inline uint32_t relu_pair_of(T low, T high) {
  const T pair[2] = {low, high};
  uint32_t packed;
  memcpy(&packed, pair, sizeof packed);
  return packed;
}
inline float relu_of(float v) { return v < 0.0f ? 0.0f : v; }
inline uint32_t cvt_rn_relu_f16x2(float low, float high) {
  return relu_pair_of(__float2half_rn(relu_of(low)), __float2half_rn(relu_of(high)));
}
inline uint32_t cvt_rn_relu_bf16x2(float low, float high) {
  return relu_pair_of(__float2bfloat16_rn(relu_of(low)), __float2bfloat16_rn(relu_of(high)));
}
}  // namespace ptx
