// prefetch.global.L2 (every GPU): asks for the line of global memory that holds an address.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void prefetch_global_l2(const void* gmem) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(gmem) : "memory");
}
}  // namespace ptx
#endif
