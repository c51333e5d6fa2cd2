// cp.async.bulk (sm_90 and later): one thread has a run of bytes copied from global to shared memory or back, or
// brought to L2.
// Both addresses and the number of bytes are multiples of 16. `policy` comes from createpolicy.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// Completes `bytes` on `barrier`.
__device__ __forceinline__ void cp_async_bulk_load(void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(smem))),
               "l"(gmem), "r"(bytes), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier)))
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_load_hint(void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier,
                                                        uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          static_cast<uint32_t>(__cvta_generic_to_shared(smem))),
      "l"(gmem), "r"(bytes), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_prefetch_l2_hint(const void* gmem, uint32_t bytes, uint64_t policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(gmem), "r"(bytes), "l"(policy)
               : "memory");
}
// Belongs to the thread's open bulk group and needs the fence that tma.cuh's stores need.
__device__ __forceinline__ void cp_async_bulk_store(void* gmem, const void* smem, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(gmem),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(bytes)
               : "memory");
}
}  // namespace ptx
#endif
