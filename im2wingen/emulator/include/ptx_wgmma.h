// templates/ptx/wgmma.cuh on the CPU; N comes from the size of d. From issue to the wait d is poisoned, and operands that
// change in between count as poison.
#pragma once
namespace emulator {
void wgmma_fence();
void wgmma(const char* name, Multiplicand type, float* d, unsigned n, uint64_t a, uint64_t b, bool accumulate);
void wgmma_held(const char* name, Multiplicand type, float* d, unsigned n, const uint32_t* a, uint64_t b, bool accumulate);
void wgmma_commit_group();
void wgmma_wait_group(unsigned pending);
}  // namespace emulator

namespace ptx {
inline void wgmma_fence() { emulator::wgmma_fence(); }
inline void wgmma_commit_group() { emulator::wgmma_commit_group(); }
template <int N>
void wgmma_wait_group() {
  emulator::wgmma_wait_group(N);
}
template <size_t kRegisters>
void wgmma_fence_operand(float (&)[kRegisters]) {}
template <size_t kRegisters>
void wgmma_fence_operand(int32_t (&)[kRegisters]) {}
template <size_t kRegisters>
void wgmma_m64k16_f32_f16(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  emulator::wgmma("wgmma.m64k16.f16", emulator::Multiplicand::kF16, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_m64k16_f32_bf16(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  emulator::wgmma("wgmma.m64k16.bf16", emulator::Multiplicand::kBf16, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_m64k8_f32_tf32(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  emulator::wgmma("wgmma.m64k8.tf32", emulator::Multiplicand::kTf32, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_m64k32_s32_s8(int32_t (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  static_assert(kRegisters <= 16 || kRegisters % 8 == 0, "of integers, an N beyond 32 is a multiple of 16");
  float* const words = reinterpret_cast<float*>(d);  // moved as they are
  emulator::wgmma("wgmma.m64k32.s8", emulator::Multiplicand::kS8, words, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_m64k32_f32_e4m3(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  emulator::wgmma("wgmma.m64k32.e4m3", emulator::Multiplicand::kE4m3, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_m64k32_f32_e5m2(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
  emulator::wgmma("wgmma.m64k32.e5m2", emulator::Multiplicand::kE5m2, d, 2 * kRegisters, a, b, accumulate);
}
// A from registers.
template <size_t kRegisters>
void wgmma_held_m64k16_f32_f16(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  emulator::wgmma_held("wgmma.m64k16.f16", emulator::Multiplicand::kF16, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_held_m64k16_f32_bf16(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  emulator::wgmma_held("wgmma.m64k16.bf16", emulator::Multiplicand::kBf16, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_held_m64k8_f32_tf32(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  emulator::wgmma_held("wgmma.m64k8.tf32", emulator::Multiplicand::kTf32, d, 2 * kRegisters, a, b, accumulate);
}
template <size_t kRegisters>
void wgmma_fence_held(float (&)[kRegisters]) {}
}  // namespace ptx
