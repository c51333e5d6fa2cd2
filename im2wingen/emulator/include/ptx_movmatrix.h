// templates/ptx/movmatrix.cuh on the CPU.
#pragma once
namespace ptx {
inline uint32_t movmatrix_trans(uint32_t row) {
  const int column = int(threadIdx.x) % 32 / 4, pair = int(threadIdx.x) % 4 * 2, shift = column % 2 * 16;
  const uint32_t low = __shfl_sync(0xffffffffu, row, pair * 4 + column / 2) >> shift & 0xffff;
  const uint32_t high = __shfl_sync(0xffffffffu, row, (pair + 1) * 4 + column / 2) >> shift & 0xffff;
  return high << 16 | low;
}
}  // namespace ptx
