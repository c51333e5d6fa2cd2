// cp.async.bulk.tensor (sm_90 and later): one thread has a box of a tensor copied between global and shared memory. The
// TensorMap says what the tensor is, how large the box and how its rows are swizzled in shared memory; coordinates are
// in elements, innermost first, those of loads may be negative. What lies outside the tensor is loaded as zero and never stored.
// A map is a kernel parameter `const __grid_constant__`, alone or in a struct.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Loads complete_tx on `barrier` all bytes of the box, those outside of the tensor too.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0,
                                                             int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3,%4,%5}], [%2];" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))),
      "l"(map), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_4d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0,
                                                             int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))),
      "l"(map), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_5d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0,
                                                             int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3,%4,%5,%6,%7}], [%2];" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))),
      "l"(map), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// Stores belong to the thread's open bulk group. Shared memory that threads wrote needs fence_proxy_async_shared_cta by
// each of the writers, then a barrier, before one of these. Their coordinates can't be negative: an H200 traps.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_store(const TensorMap* map, const void* smem, int c0, int c1,
                                                              int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4}], [%1];" ::"l"(map),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_4d_store(const TensorMap* map, const void* smem, int c0, int c1,
                                                              int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%5}], [%1];" ::"l"(map),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_5d_store(const TensorMap* map, const void* smem, int c0, int c1,
                                                              int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%5,%6}], [%1];" ::"l"(map),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(smem))), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all but the last N groups of the thread have read shared memory, which may then be written again.
template <int N>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
// Until all but the last N groups of the thread have written global memory.
template <int N>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// Makes the thread's writes to shared memory visible to the asynchronous proxy: TMA stores and wgmma.
__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
}  // namespace ptx
#endif
