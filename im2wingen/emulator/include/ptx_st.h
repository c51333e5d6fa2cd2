// templates/ptx/st.cuh on the CPU.
#pragma once
namespace ptx {
inline void st_global_v4(void* gmem, const uint32_t (&words)[4]) {
  if (reinterpret_cast<uintptr_t>(gmem) % sizeof words) emulator::trap("a misaligned st.global.v4");
  memcpy(gmem, words, sizeof words);
}
}  // namespace ptx
