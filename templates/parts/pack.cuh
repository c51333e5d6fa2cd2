// Two sums as elements of 16 bits in a word, after ReLU if there is one.
__device__ __forceinline__ uint32_t relu_pair(__half, float low, float high) { return ptx::cvt_rn_relu_f16x2(low, high); }
__device__ __forceinline__ uint32_t relu_pair(__nv_bfloat16, float low, float high) {
  return ptx::cvt_rn_relu_bf16x2(low, high);
}
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (kHasRelu && sizeof(T) == 2) return relu_pair(T(), low, high);
  const T pair[2] = {from_float<T>(low), from_float<T>(high)};
  uint32_t packed;
  memcpy(&packed, pair, sizeof packed);
  return packed;
}
