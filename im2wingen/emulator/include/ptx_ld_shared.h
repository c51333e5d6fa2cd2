// templates/ptx/ld_shared.cuh on the CPU: plain reads.
#pragma once
namespace ptx {
template <typename T, int WIDTH>
inline void ld_volatile_shared(T (&to)[WIDTH], const T* smem) {
  if (reinterpret_cast<uintptr_t>(smem) % sizeof to) emulator::trap("a misaligned ld.shared");
  memcpy(to, smem, sizeof to);
}
}  // namespace ptx
