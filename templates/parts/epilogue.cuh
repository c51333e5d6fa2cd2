// What happens to an accumulator (Number, or int32_t of 8-bit integers) before it is stored: bias, then ReLU (which hands
// NaN on).
<% include "ptx/max.cuh" %>

__device__ __forceinline__ float relu(float y) { return kHasRelu ? ptx::max_nan(y, 0.0f) : y; }
__device__ __forceinline__ double relu(double y) { return kHasRelu && y < 0 ? 0 : y; }
__device__ __forceinline__ int32_t relu(int32_t y) { return kHasRelu && y < 0 ? 0 : y; }
template <class Sum>
__device__ __forceinline__ Sum epilogue(Sum acc, Sum bias) {
  return relu(kHasBias ? acc + bias : acc);
}
template <class Stored>
__device__ __forceinline__ auto epilogue_bias(const Stored* bias, int k) {
  return kHasBias && k < K ? to_number(bias[k]) : decltype(to_number(bias[k])){};
}
