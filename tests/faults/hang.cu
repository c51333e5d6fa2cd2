// Never ends: y holds NaN bytes, and nobody writes 1 there.
extern "C" __global__ void fault(const float*, const float*, float* y) {
  while (*reinterpret_cast<volatile float*>(y) != 1.0f) {
  }
}
