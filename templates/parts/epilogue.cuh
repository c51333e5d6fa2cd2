// What happens to an accumulator (Number, or int32_t of 8-bit integers) before it is stored: bias, then ReLU (which hands
// NaN on).
template <class Sum>
__device__ __forceinline__ Sum epilogue(Sum acc, Sum bias) {
  Sum y = kHasBias ? acc + bias : acc;
  if (kHasRelu) y = y < Sum(0) ? Sum(0) : y;
  return y;
}
template <class Stored>
__device__ __forceinline__ auto epilogue_bias(const Stored* bias, int k) {
  return kHasBias && k < K ? to_number(bias[k]) : decltype(to_number(bias[k])){};
}
