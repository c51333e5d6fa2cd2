// Order of accesses to global memory (sm_70 and later, the proxy fence sm_90): what threads of a grid tell each other in it.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// What was written before the other side's release is visible after this load has seen it.
__device__ __forceinline__ uint32_t ld_acquire_gpu(const uint32_t* gmem) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(gmem) : "memory");
  return value;
}
__device__ __forceinline__ void red_release_gpu_add(uint32_t* gmem, uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(gmem), "r"(value) : "memory");
}
// Between writes by threads and reads by TMA, on both sides of a release and its acquire.
__device__ __forceinline__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
}  // namespace ptx
#endif
