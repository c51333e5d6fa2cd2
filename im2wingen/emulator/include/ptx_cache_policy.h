// templates/ptx/cache_policy.cuh on the CPU, which has no L2 to advise: a policy is only checked to be one.
#pragma once
#include "ptx_st.h"

namespace emulator {
constexpr uint64_t kEvictFirst = 0x12f0000000000000, kEvictLast = 0x14f0000000000000;
void check_cache_policy(const char* name, uint64_t policy);
}  // namespace emulator

namespace ptx {
inline uint64_t createpolicy_evict_first() { return emulator::kEvictFirst; }
inline uint64_t createpolicy_evict_last() { return emulator::kEvictLast; }
inline void st_global_hint(void* gmem, uint32_t word, uint64_t policy) {
  emulator::check_cache_policy("st.global", policy);
  if (reinterpret_cast<uintptr_t>(gmem) % sizeof word) emulator::trap("a misaligned st.global");
  memcpy(gmem, &word, sizeof word);
}
inline void st_global_v4_hint(void* gmem, const uint32_t (&words)[4], uint64_t policy) {
  emulator::check_cache_policy("st.global.v4", policy);
  st_global_v4(gmem, words);
}
}  // namespace ptx
