// Thread-block clusters (sm_90 and later): the CTAs of one run at the same time and may read each other's shared memory. A
// cluster's barrier makes what threads wrote before their arrival visible to those that have waited; a CTA must not end while
// others still read its memory. Each thread arrives, then waits, whole warps together; ended threads are not waited for.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// Which of its cluster's CTAs this one is.
__device__ __forceinline__ uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// The address, within the cluster, of what lies at `smem` in the CTA `rank`.
__device__ __forceinline__ uint32_t mapa(const void* smem, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(rank));
  return address;
}
// 16 bytes, 16-byte aligned.
__device__ __forceinline__ void ld_shared_cluster_v4(uint32_t (&v)[4], uint32_t address) {
  asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// The same for who has only read: nothing is published, so it needs no fence. What was read must have been used.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
}  // namespace ptx
#endif
