// CUDA's arithmetic that the C library lacks. The fast forms (__expf ...) are as exact as the slow ones here.
#pragma once
namespace emulator {

template <class To, class From>
To bits_of(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits are kept");
  To bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class A, class B>
using Arithmetic = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;

}  // namespace emulator

// As on the device, a NaN loses against a number.
template <class A, class B>
emulator::Arithmetic<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmin(T(a), T(b));
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
emulator::Arithmetic<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmax(T(a), T(b));
  return T(a) < T(b) ? T(b) : T(a);
}

inline int __float_as_int(float v) { return emulator::bits_of<int>(v); }
inline unsigned __float_as_uint(float v) { return emulator::bits_of<unsigned>(v); }
inline float __int_as_float(int v) { return emulator::bits_of<float>(v); }
inline float __uint_as_float(unsigned v) { return emulator::bits_of<float>(v); }
inline long long __double_as_longlong(double v) { return emulator::bits_of<long long>(v); }
inline double __longlong_as_double(long long v) { return emulator::bits_of<double>(v); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fsqrt_rn(float v) { return sqrtf(v); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
inline double rsqrt(double v) { return 1.0 / sqrt(v); }
inline float __expf(float v) { return expf(v); }
inline float __logf(float v) { return logf(v); }
inline float __log2f(float v) { return log2f(v); }
inline float __sinf(float v) { return sinf(v); }
inline float __cosf(float v) { return cosf(v); }
inline float __powf(float base, float exponent) { return powf(base, exponent); }
inline float sinpif(float v) { return float(sin(M_PI * v)); }
inline float cospif(float v) { return float(cos(M_PI * v)); }
inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }

inline int __float2int_rn(float v) { return int(lrintf(v)); }
inline int __float2int_rz(float v) { return int(v); }
inline int __float2int_rd(float v) { return int(floorf(v)); }
inline unsigned __float2uint_rn(float v) { return unsigned(llrintf(v)); }
inline float __int2float_rn(int v) { return float(v); }
inline float __uint2float_rn(unsigned v) { return float(v); }
inline float __double2float_rn(double v) { return float(v); }

inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
// Nibble i of the selector picks byte i of the result from the eight of a (0 to 3) and b (4 to 7).
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) result |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(unsigned(v)); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }

// NVIDIA's headers give these to the device alone; a double holds the product and the sum, so one rounding remains.
inline __half __hfma(__half a, __half b, __half c) {
  return __double2half(fma(double(__half2float(a)), double(__half2float(b)), double(__half2float(c))));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __double2bfloat16(fma(double(__bfloat162float(a)), double(__bfloat162float(b)), double(__bfloat162float(c))));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __halves2bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
