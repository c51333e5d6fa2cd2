// templates/ptx/mma.cuh on the CPU.
#pragma once
namespace emulator {
enum class Multiplicand { kF16, kBf16, kTf32, kS8, kE4m3, kE5m2 };
// m16n8k16, or m16n8k8 for tf32; d is both the accumulator and the result.
void mma(const char* name, Multiplicand type, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
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
}  // namespace ptx
