// mbarrier (sm_90 and later): barriers in shared memory, 8 bytes each, 8-byte aligned. A phase is over once `arrivals`
// threads have arrived and as many bytes have landed as were expected in it; the next begins by itself. Phases have
// parity 0, 1, 0, 1 ...; a wait for a parity is over while the phase that runs has the other one, so that a wait for
// parity 1 on a fresh barrier is over at once.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))),
               "r"(arrivals)
               : "memory");
}
// Makes the inits of this thread visible to asynchronous copies; the CTA's other threads need a __syncthreads as well.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier)))
               : "memory");
}
// An arrival that adds `bytes` to what must land in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(barrier))),
               "r"(bytes)
               : "memory");
}
// Whether the phase of this parity is over; may suspend the thread for a while first, so the caller asks in a loop.
__device__ __forceinline__ bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
  uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(parity)
      : "memory");
  return over != 0;
}
}  // namespace ptx
#endif
