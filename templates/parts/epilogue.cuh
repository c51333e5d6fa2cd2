// What happens to an accumulator before it is stored: bias, then ReLU (which hands NaN on).
__device__ __forceinline__ float epilogue(float acc, float bias) {
  float y = kHasBias ? acc + bias : acc;
  if (kHasRelu) y = y < 0.0f ? 0.0f : y;
  return y;
}
__device__ __forceinline__ float epilogue_bias(const Element* bias, int k) {
  return kHasBias && k < K ? to_float(bias[k]) : 0.0f;
}
