// cp.async (sm_80 and later): asynchronous copies from global to shared memory, completed in commit groups.
// .L2::128B: the whole cache line is brought to L2. `valid` false copies nothing and fills the destination with zeros
// (src-size 0): the source is not read.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ uint32_t smem_address(const void* smem) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(smem));
}
__device__ __forceinline__ void cp_async_ca_4(void* smem, const void* gmem, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem_address(smem)), "l"(gmem), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_ca_8(void* smem, const void* gmem, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(smem_address(smem)), "l"(gmem), "r"(valid ? 8 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_cg_16(void* smem, const void* gmem, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(smem_address(smem)), "l"(gmem),
               "r"(valid ? 16 : 0)
               : "memory");
}
// The same under a predicate, without a branch: nothing at all if `wanted` is false.
__device__ __forceinline__ void cp_async_ca_4_if(bool wanted, void* smem, const void* gmem, bool valid) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.ca.shared.global [%0], [%1], 4, %2;\n}" ::"r"(
          smem_address(smem)),
      "l"(gmem), "r"(valid ? 4 : 0), "r"(int(wanted))
      : "memory");
}
__device__ __forceinline__ void cp_async_ca_8_if(bool wanted, void* smem, const void* gmem, bool valid) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.ca.shared.global [%0], [%1], 8, %2;\n}" ::"r"(
          smem_address(smem)),
      "l"(gmem), "r"(valid ? 8 : 0), "r"(int(wanted))
      : "memory");
}
__device__ __forceinline__ void cp_async_cg_16_if(bool wanted, void* smem, const void* gmem, bool valid) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n}" ::"r"(
          smem_address(smem)),
      "l"(gmem), "r"(valid ? 16 : 0), "r"(int(wanted))
      : "memory");
}
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
}  // namespace ptx
#endif
