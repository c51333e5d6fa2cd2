// cp.async.bulk.prefetch.tensor (sm_90 and later): a box of a tensor, as TMA loads it (ptx/tma.cuh), to L2. A hint, which
// nothing waits for.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void cp_async_bulk_prefetch_tensor_3d(const TensorMap* map, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1,%2,%3}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_prefetch_tensor_4d(const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1,%2,%3,%4}];" ::"l"(map), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3)
               : "memory");
}
}  // namespace ptx
#endif
