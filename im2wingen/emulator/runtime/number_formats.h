// The 16- and 32-bit formats of tensor cores as fp32.
#pragma once
#include <cstdint>
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace emulator {

inline float from_f16(uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
#endif
}
inline float from_bf16(uint16_t bits) { return bits_of<float>(uint32_t(bits) << 16); }
inline float from_tf32(uint32_t bits) { return bits_of<float>(bits & 0xffffe000u); }  // the low 13 bits don't count

typedef float Row __attribute__((vector_size(32)));  // of 8 columns

}  // namespace emulator
