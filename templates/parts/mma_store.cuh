// ---- epilogue: accumulators -> shared memory in y's order -> y ----
// Sums the accumulators of the warps that share a tile into those of its first warp.
__device__ __forceinline__ void reduce_warps(Number* smem, Number (&acc)[FRAGS_M][FRAGS_N][4], const Warp& warp) {
  constexpr int GROUP_THREADS = THREADS / WARPS_K;
  Number* mine = smem + threadIdx.x % GROUP_THREADS;
  for (int k = 1; k < WARPS_K; ++k) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (warp.k == k) mine[((i * FRAGS_N + j) * 4 + e) * GROUP_THREADS] = acc[i][j][e];
    __syncthreads();  // the sums of warps k are there
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (warp.k == 0) acc[i][j][e] += mine[((i * FRAGS_N + j) * 4 + e) * GROUP_THREADS];
    __syncthreads();  // they have been read
  }
}

// The epilogue of this thread's accumulators, into the output tile. Returns whether one of them may be NaN.
__device__ __forceinline__ bool stage_output(Element* out, const Number (&acc)[FRAGS_M][FRAGS_N][4], const Warp& warp,
                                             const Element* bias, int k0) {
  Number probe = 0;  // NaN if an accumulator is (an overflow too, which only costs time)
#pragma unroll
  for (int j = 0; j < FRAGS_N; ++j) {
    const int k = warp.n + j * 8 + warp.lane % 4 * 2;
    const Number bias0 = epilogue_bias(bias, k0 + k), bias1 = epilogue_bias(bias, k0 + k + 1);
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = warp.m + i * 16 + half * 8 + warp.lane / 4;
        Number sum0 = acc[i][j][2 * half], sum1 = acc[i][j][2 * half + 1];
        if constexpr (kSplit) sum0 += Number(0) * sum0, sum1 += Number(0) * sum1;  // an Inf, too, is computed again
        if constexpr (kRepair) probe += sum0 * sum1;
        const Element y0 = from_number(epilogue(sum0, bias0)), y1 = from_number(epilogue(sum1, bias1));
        struct alignas(2 * sizeof(Element)) Pair {
          Element e[2];
        };
        if constexpr (kOutputChannelsLast) {
          *reinterpret_cast<Pair*>(out + m * OUT_PITCH + k) = Pair{{y0, y1}};
        } else {
          out[k * OUT_PITCH + m] = y0;
          out[(k + 1) * OUT_PITCH + m] = y1;
        }
      }
  }
  return probe != probe;
}

struct OutputPixel {
  int n, p, q;
  __device__ __forceinline__ bool exists() const { return n < N && p < P && q < Q; }
};
__device__ __forceinline__ OutputPixel output_pixel(Origin origin, int m) {
  return {origin.n + m / (TILE_P * TILE_Q), origin.p + m / TILE_Q % TILE_P, origin.q + m % TILE_Q};
}

__device__ __forceinline__ void store_output(Element* y, const Element* out, Origin origin) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if constexpr (kOutputChannelsLast) {
    // a warp takes a row of output pixels at a time
    constexpr int VECTOR = K % UNIT == 0 ? UNIT : 1, PIXEL_VECTORS = BLOCK_N / VECTOR;
    for (int row = warp; row < TILE_N * TILE_P; row += THREADS / 32) {
      const int n = origin.n + row / TILE_P, p = origin.p + row % TILE_P;
      if (n >= N || p >= P) continue;
      Element* to = y + output_offset(n, p, origin.q, origin.k);
#pragma unroll 4
      for (int i = lane; i < TILE_Q * PIXEL_VECTORS; i += 32) {
        const int q = i / PIXEL_VECTORS, k = i % PIXEL_VECTORS * VECTOR;
        if ((Q % TILE_Q != 0 && origin.q + q >= Q) || (K % BLOCK_N != 0 && origin.k + k >= K)) continue;
        const Element* from = out + (row * TILE_Q + q) * OUT_PITCH + k;
        if constexpr (VECTOR == UNIT)
          *reinterpret_cast<Unit*>(to + q * K + k) = *reinterpret_cast<const Unit*>(from);
        else
          to[q * K + k] = *from;
      }
    }
  } else {
    // a warp takes an output channel at a time; a lane keeps its pixels
    constexpr int VECTOR = Q % UNIT == 0 && TILE_Q % UNIT == 0 ? UNIT : 1;
    constexpr int COUNT = (TILE_PIXELS / VECTOR + 31) / 32;
    Element* to[COUNT];  // null for pixels that don't exist
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const OutputPixel pixel = output_pixel(origin, (i * 32 + lane) * VECTOR);
      const bool exists = (i * 32 + lane) * VECTOR < TILE_PIXELS && pixel.exists();
      to[i] = exists ? y + output_offset(pixel.n, pixel.p, pixel.q, origin.k) : nullptr;
    }
    for (int k = warp; k < BLOCK_N && origin.k + k < K; k += THREADS / 32) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        if (to[i] == nullptr) continue;
        const Element* from = out + k * OUT_PITCH + (i * 32 + lane) * VECTOR;
        if constexpr (VECTOR == UNIT)
          *reinterpret_cast<Unit*>(to[i] + int64_t(k) * (P * Q)) = *reinterpret_cast<const Unit*>(from);
        else
          to[i][int64_t(k) * (P * Q)] = *from;
      }
    }
  }
}
