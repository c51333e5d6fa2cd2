// Element <-> Number, what it is computed with, and where elements of x, w and y lie in memory (offsets in elements).
template <class T>
struct NumberOf {
  using Type = float;
};
template <>
struct NumberOf<double> {
  using Type = double;
};
using Number = NumberOf<Element>::Type;
__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) { return v; }
template <>
__device__ __forceinline__ double from_float<double>(float v) { return v; }
template <>
__device__ __forceinline__ __half from_float<__half>(float v) { return __float2half_rn(v); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) { return __float2bfloat16_rn(v); }
template <class T>
__device__ __forceinline__ float to_number(T v) { return to_float(v); }
__device__ __forceinline__ double to_number(double v) { return v; }
__device__ __forceinline__ Element from_number(float v) { return from_float<Element>(v); }
__device__ __forceinline__ double from_number(double v) { return v; }

__device__ __forceinline__ int64_t input_offset(int n, int h, int w, int c) {
  return kInputChannelsLast ? ((int64_t(n) * H + h) * W + w) * C + c : ((int64_t(n) * C + c) * H + h) * W + w;
}
__device__ __forceinline__ int64_t filter_offset(int k, int r, int s, int c) {
  constexpr int GROUP_C = C / GROUPS;  // c counts within the group
  return kFilterChannelsLast ? ((int64_t(k) * R + r) * S + s) * GROUP_C + c
                             : ((int64_t(k) * GROUP_C + c) * R + r) * S + s;
}
__device__ __forceinline__ int64_t output_offset(int n, int p, int q, int k) {
  return kOutputChannelsLast ? ((int64_t(n) * P + p) * Q + q) * K + k : ((int64_t(n) * K + k) * P + p) * Q + q;
}
// 16 bytes of elements, moved by one instruction.
struct alignas(16) Unit {
  Element e[16 / sizeof(Element)];
};
constexpr int UNIT = 16 / sizeof(Element);
