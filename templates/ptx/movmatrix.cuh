// movmatrix (sm_75 and later): an 8x8 matrix of 16-bit elements that a warp holds, transposed. Lane l holds the elements
// 2 * (l % 4) and + 1 of row l / 4, and gets those of column l / 4 in rows 2 * (l % 4) and + 1.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t row) {
  uint32_t column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}
}  // namespace ptx
#endif
