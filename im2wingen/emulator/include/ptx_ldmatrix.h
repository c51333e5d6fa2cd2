// templates/ptx/ldmatrix.cuh and ldmatrix_trans.cuh on the CPU.
#pragma once
namespace emulator {
void ldmatrix_x4(const char* name, uint32_t (&registers)[4], const void* row, bool transpose);
}  // namespace emulator

namespace ptx {
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) { emulator::ldmatrix_x4("ldmatrix.x4", r, row, false); }
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  emulator::ldmatrix_x4("ldmatrix.x4.trans", r, row, true);
}
}  // namespace ptx
