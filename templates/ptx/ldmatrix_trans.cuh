// ldmatrix.trans (sm_75 and later): four 8x8 matrices of 16-bit elements from shared memory, transposed. Lane l gives the
// address of row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned) and gets, in register i, the elements of rows
// 2 * (l % 4) and + 1 of matrix i that lie in column l / 4.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
}  // namespace ptx
#endif
