// createpolicy (sm_80 and later): how long L2 is to keep what an access with this hint touches. And such stores.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ uint64_t createpolicy_evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t createpolicy_evict_last() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// 4 bytes, 4-byte aligned.
__device__ __forceinline__ void st_global_hint(void* gmem, uint32_t word, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(gmem), "r"(word), "l"(policy) : "memory");
}
// 16 bytes, 16-byte aligned.
__device__ __forceinline__ void st_global_v4_hint(void* gmem, const uint32_t (&words)[4], uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1,%2,%3,%4}, %5;" ::"l"(gmem), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3]), "l"(policy)
               : "memory");
}
// As bulk_copy.cuh's.
__device__ __forceinline__ void cp_async_bulk_store_hint(void* gmem, const void* smem, uint32_t bytes, uint64_t policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(gmem),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(bytes), "l"(policy)
               : "memory");
}
}  // namespace ptx
#endif
