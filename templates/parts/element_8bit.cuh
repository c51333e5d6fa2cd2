// What parts/element.cuh says of Element, of 8-bit integers, their sums and 8-bit floating-point numbers.
__device__ __forceinline__ float to_float(int8_t v) { return v; }
__device__ __forceinline__ float to_float(int32_t v) { return float(v); }
__device__ __forceinline__ float to_number(int8_t v) { return v; }
__device__ __forceinline__ float to_number(__nv_fp8_e4m3 v) { return float(v); }
__device__ __forceinline__ float to_number(__nv_fp8_e5m2 v) { return float(v); }
__device__ __forceinline__ int32_t to_number(int32_t v) { return v; }
__device__ __forceinline__ float to_float(__nv_fp8_e4m3 v) { return float(v); }
__device__ __forceinline__ float to_float(__nv_fp8_e5m2 v) { return float(v); }
template <>
__device__ __forceinline__ int8_t from_float<int8_t>(float v) { return int8_t(v); }
template <>
__device__ __forceinline__ int32_t from_float<int32_t>(float v) { return int32_t(v); }
template <>
__device__ __forceinline__ __nv_fp8_e4m3 from_float<__nv_fp8_e4m3>(float v) { return __nv_fp8_e4m3(v); }
template <>
__device__ __forceinline__ __nv_fp8_e5m2 from_float<__nv_fp8_e5m2>(float v) { return __nv_fp8_e5m2(v); }
