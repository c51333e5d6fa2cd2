// The formats of tensor cores as fp32.
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
inline float from_e5m2(uint8_t bits) { return from_f16(uint16_t(bits << 8)); }  // the upper half of an fp16
inline float from_e4m3(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return bits_of<float>(0x7fffffffu);
  return from_f16(uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 256.0f;  // fp16's exponent counts from 8 less
}

typedef float Row __attribute__((vector_size(32)));  // of 8 columns

}  // namespace emulator
