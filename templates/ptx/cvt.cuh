// cvt.rna.tf32: an fp32 value rounded to tf32 (nearest, ties away from zero), in the bits of an fp32.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ uint32_t cvt_rna_tf32(uint32_t fp32) {
  uint32_t tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(__uint_as_float(fp32)));
  return tf32;
}
}  // namespace ptx
#endif
