// ld.volatile.shared (every GPU): reads that the compiler keeps in the order of the text, also where it has registers to
// read far ahead. Vectors are aligned to their size.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void ld_volatile_shared(float (&to)[1], const float* smem) {
  asm volatile("ld.volatile.shared.f32 %0, [%1];"
               : "=f"(to[0])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))));
}
__device__ __forceinline__ void ld_volatile_shared(float (&to)[2], const float* smem) {
  asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(to[0]), "=f"(to[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))));
}
__device__ __forceinline__ void ld_volatile_shared(float (&to)[4], const float* smem) {
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))));
}
__device__ __forceinline__ void ld_volatile_shared(double (&to)[1], const double* smem) {
  asm volatile("ld.volatile.shared.f64 %0, [%1];"
               : "=d"(to[0])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))));
}
__device__ __forceinline__ void ld_volatile_shared(double (&to)[2], const double* smem) {
  asm volatile("ld.volatile.shared.v2.f64 {%0, %1}, [%2];"
               : "=d"(to[0]), "=d"(to[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))));
}
}  // namespace ptx
#endif
