// What happens to an accumulator (float, or int32_t of integers) before it is stored: bias, then ReLU (which hands NaN on).
template <class Sum>
__device__ __forceinline__ Sum epilogue(Sum acc, Sum bias) {
  Sum y = kHasBias ? acc + bias : acc;
  if (kHasRelu) y = y < Sum(0) ? Sum(0) : y;
  return y;
}
template <class Stored>
__device__ __forceinline__ float epilogue_bias(const Stored* bias, int k) {
  return kHasBias && k < K ? to_float(bias[k]) : 0.0f;
}
__device__ __forceinline__ int32_t epilogue_bias(const int32_t* bias, int k) { return kHasBias && k < K ? bias[k] : 0; }
