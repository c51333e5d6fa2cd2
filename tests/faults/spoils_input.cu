// Writes x instead of y: what comes after it would be judged on spoiled data.
extern "C" __global__ void fault(const float* x, const float*, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2 * 9 * 8 * 5) const_cast<float*>(x)[i] = 3.0f;
  if (i < 2 * 7 * 7 * 7) y[i] = 0.0f;
}
