// What happens to an accumulator before it is stored: bias, then ReLU (which hands NaN on).
__device__ __forceinline__ Number epilogue(Number acc, Number bias) {
  Number y = kHasBias ? acc + bias : acc;
  if (kHasRelu) y = y < Number(0) ? Number(0) : y;
  return y;
}
__device__ __forceinline__ Number epilogue_bias(const Element* bias, int k) {
  return kHasBias && k < K ? to_number(bias[k]) : Number(0);
}
