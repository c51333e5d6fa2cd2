// templates/ptx/max.cuh on the CPU.
#pragma once
namespace ptx {
inline float max_nan(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : a < b ? b : a; }
}  // namespace ptx
