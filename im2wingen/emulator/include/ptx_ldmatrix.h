// templates/ptx/ldmatrix.cuh on the CPU.
#pragma once
namespace emulator {
void ldmatrix_x4(uint32_t (&registers)[4], const void* row);
}  // namespace emulator

namespace ptx {
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) { emulator::ldmatrix_x4(r, row); }
}  // namespace ptx
