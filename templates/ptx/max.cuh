// max.NaN: the larger of two, NaN if one of them is.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ float max_nan(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
}  // namespace ptx
#endif
