// templates/ptx/mma.cuh on the CPU.
#pragma once
namespace emulator {
enum class Multiplicand { kF16, kBf16, kTf32, kS8, kE4m3, kE5m2 };
// m16n8k16, or m16n8k8 for tf32; d is both the accumulator and the result.
void mma(const char* name, Multiplicand type, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
// fp64, `rows` (8 or 16) x 8 x `depth` (4, 8 or 16); d, a and b have as many elements as a lane holds.
void mma_f64(const char* name, unsigned rows, unsigned depth, double* d, const double* a, const double* b);
}  // namespace emulator

namespace ptx {
inline void mma_m16n8k16_f32_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::mma("mma.m16n8k16.f16", emulator::Multiplicand::kF16, d, a, b);
}
inline void mma_m16n8k16_f32_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::mma("mma.m16n8k16.bf16", emulator::Multiplicand::kBf16, d, a, b);
}
inline void mma_m16n8k8_f32_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::mma("mma.m16n8k8.tf32", emulator::Multiplicand::kTf32, d, a, b);
}
inline void mma_m8n8k4_f64(double& d0, double& d1, double a, double b) {
  double d[2] = {d0, d1};
  emulator::mma_f64("mma.m8n8k4.f64", 8, 4, d, &a, &b);
  d0 = d[0], d1 = d[1];
}
inline void mma_m16n8k4_f64(double (&d)[4], const double (&a)[2], const double (&b)[1]) {
  emulator::mma_f64("mma.m16n8k4.f64", 16, 4, d, a, b);
}
inline void mma_m16n8k8_f64(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
  emulator::mma_f64("mma.m16n8k8.f64", 16, 8, d, a, b);
}
inline void mma_m16n8k16_f64(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
  emulator::mma_f64("mma.m16n8k16.f64", 16, 16, d, a, b);
}
}  // namespace ptx
