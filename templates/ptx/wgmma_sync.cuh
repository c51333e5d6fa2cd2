// wgmma.fence, commit_group, wait_group (sm_90a), by all threads of a warpgroup.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// Before the first wgmma, and before one whose accumulators the threads have touched since the last.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most the last N groups are under way.
template <int N>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
}  // namespace ptx
#endif
