// Named barriers of the CTA (bar.sync, bar.arrive): 16 of them, 0 is that of __syncthreads. A barrier is over when
// `threads` (a multiple of 32) have come, be it to wait or only to say so; it can then be used anew. All threads of a warp
// take part together.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
}  // namespace ptx
#endif
