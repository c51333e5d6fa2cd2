// templates/ptx/stmatrix.cuh on the CPU.
#pragma once
namespace emulator {
void stmatrix(const char* name, void* row, const uint32_t* registers, unsigned matrices, bool transpose);
}  // namespace emulator

namespace ptx {
inline void stmatrix_x4(void* row, const uint32_t (&r)[4]) { emulator::stmatrix("stmatrix.x4", row, r, 4, false); }
inline void stmatrix_x2(void* row, const uint32_t (&r)[2]) { emulator::stmatrix("stmatrix.x2", row, r, 2, false); }
inline void stmatrix_x4_trans(void* row, const uint32_t (&r)[4]) {
  emulator::stmatrix("stmatrix.x4.trans", row, r, 4, true);
}
inline void stmatrix_x2_trans(void* row, const uint32_t (&r)[2]) {
  emulator::stmatrix("stmatrix.x2.trans", row, r, 2, true);
}
}  // namespace ptx
