// direct.cu with idle work first: right, and slower than anything.
extern "C" __global__ void fault(const float* x, const float* w, float* y) {
  constexpr int C = 5, H = 9, W = 8, K = 7, R = 3, S = 2, P = 7, Q = 7, N = 2;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N * P * Q * K) return;
  const long long start = clock64();
  while (clock64() - start < 2000000) {
  }
  const int k = i % K, q = i / K % Q, p = i / K / Q % P, n = i / K / Q / P;
  float acc = 0.0f;
  for (int r = 0; r < R; ++r)
    for (int s = 0; s < S; ++s)
      for (int c = 0; c < C; ++c)
        acc += x[((n * H + p + r) * W + q + s) * C + c] * w[((k * R + r) * S + s) * C + c];
  y[i] = acc;
}
