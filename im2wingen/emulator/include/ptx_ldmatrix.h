// templates/ptx/ldmatrix.cuh on the CPU.
#pragma once
namespace emulator {
// `matrices` is 1, 2 or 4; `registers` takes that many words.
void ldmatrix(const char* name, uint32_t* registers, const void* row, unsigned matrices);
}  // namespace emulator

namespace ptx {
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) { emulator::ldmatrix("ldmatrix.x4", r, row, 4); }
inline void ldmatrix_x2(uint32_t (&r)[2], const void* row) { emulator::ldmatrix("ldmatrix.x2", r, row, 2); }
}  // namespace ptx
