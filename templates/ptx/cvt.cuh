// cvt.rna.tf32: an fp32 value rounded to tf32 (nearest, ties away from zero), in the bits of an fp32.
// cvt.rn.relu: two fp32 values rounded to 16 bits each, `low` in the lower half; negative ones become 0, a NaN stays one.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ uint32_t cvt_rna_tf32(uint32_t fp32) {
  uint32_t tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(__uint_as_float(fp32)));
  return tf32;
}
__device__ __forceinline__ uint32_t cvt_rn_relu_f16x2(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t cvt_rn_relu_bf16x2(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
}  // namespace ptx
#endif
