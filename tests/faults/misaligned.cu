// Writes a float at an odd address.
extern "C" __global__ void fault(const float*, const float*, float* y) {
  *reinterpret_cast<float*>(reinterpret_cast<char*>(y) + 1) = 1.0f;
}
