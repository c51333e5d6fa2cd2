// stmatrix (sm_90 and later): 8x8 matrices of 16-bit elements from the fragments of a warp to shared memory. Lane l gives
// the address of row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned; of x2 only lanes 0 to 15 count) and, in register
// i, elements 2 * (l % 4) and + 1 of row l / 4 of matrix i; with trans, of column l / 4.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void stmatrix_x4(void* row, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ __forceinline__ void stmatrix_x2(void* row, const uint32_t (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(r[0]), "r"(r[1])
               : "memory");
}
__device__ __forceinline__ void stmatrix_x4_trans(void* row, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ __forceinline__ void stmatrix_x2_trans(void* row, const uint32_t (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(r[0]), "r"(r[1])
               : "memory");
}
}  // namespace ptx
#endif
