// ---- sums of scaled numbers (kScaled) ----
struct Scales {
  const FilterScale* filters;  // (K)
  const ImageScale* images;    // (N)
};
// They lie behind the halves.
__device__ __forceinline__ Scales scales_in(const unsigned char* packed, const unsigned char* halves) {
  return {reinterpret_cast<const FilterScale*>(packed + int64_t(CHUNKS) * R * S * K * ROW_BYTES),
          reinterpret_cast<const ImageScale*>(halves + int64_t(N) * H * W * CHANNELS * OPERAND_BYTES)};
}

// A thread's pixels of a group of 8 are lane % 4 * 2 and + 1, images fastest: of SCALED_IMAGES images, that come again every
// SCALED_PERIOD groups.
constexpr int SCALED_IMAGES = TILE_N > 1 ? 2 : 1, SCALED_PERIOD = TILE_N > 8 ? TILE_N / 8 : 1;

// What the sums of a thread's channel k (+ 8) of one of these images are multiplied by, and what they are measured by.
struct Unscaling {
  float factor, least;  // a sum of a smaller magnitude may feel numbers that keep fewer bits

  __device__ __forceinline__ Unscaling(const Scales& scales, const Origin& origin, int thread, int half, int image) {
    const int lane = thread % 32, k = origin.k + thread / 32 * 16 + lane / 4 + half * 8;
    const int n = origin.n + (TILE_N > 1 ? (image / SCALED_IMAGES * 8 + lane % 4 * 2 + image % SCALED_IMAGES) % TILE_N : 0);
    const FilterScale filter = k < K ? scales.filters[k] : FilterScale{1};
    const ImageScale of_image = n < N ? scales.images[n] : ImageScale{1};
    factor = filter.inverse * of_image.inverse;
    least = filter.own + (of_image.tiny > 0 ? filter.beside_tiny_image : 0.0f);
    if (!(factor >= 0x1p-126f && factor <= 0x1p127f)) factor = __uint_as_float(0x7fffffff);  // beyond fp32: all is computed again
  }
};

// A consumer's sums without their scales; NaN, which is computed again, where numbers that keep fewer bits could matter.
__device__ __forceinline__ void unscale(Accumulators& acc, const Scales& scales, const Origin& origin, int thread) {
#pragma unroll
  for (int image = 0; image < SCALED_PERIOD * SCALED_IMAGES; ++image)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Unscaling by(scales, origin, thread, half, image);
#pragma unroll
      for (int j = 0; j < OWN_SUBTILES * GROUPS_N * 2; ++j) {
        const int group = j / 2 % GROUPS_N, e = j % 2;
        if (group % SCALED_PERIOD != image / SCALED_IMAGES || e % SCALED_IMAGES != image % SCALED_IMAGES) continue;
        Sum& sum = acc[j / 2 / GROUPS_N][group * 4 + half * 2 + e];
        sum *= fabsf(sum) < by.least ? __uint_as_float(0x7fffffff) : by.factor;
      }
    }
}

// Or Inf, which is stored as it is.
__device__ __forceinline__ bool any_is_nan(const Accumulators& acc) {
  float probe = 0;
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < WGMMA_N / 2; ++j) probe = fmaf(float(acc[i][j]), 0.0f, probe);
  return probe != probe;
}

// What came out as NaN is computed again, in fp32, by a warp each: numbers that keep fewer bits may be in every image.
__device__ __noinline__ void repair_by_warps(const Element* x, const Element* w, const Output* bias, Output* y, Origin origin,
                                             int thread) {
  constexpr int CHANNELS_M = 64;
  const int lane = thread % 32;
  for (int first = thread / 32 * 32; first < TILE_N * OWN_P * OWN_Q * CHANNELS_M; first += 128) {
    const int k = origin.k + first % CHANNELS_M + lane, pixel = first / CHANNELS_M;
    const int q = origin.q + pixel % OWN_Q, p = origin.p + pixel / OWN_Q % OWN_P, n = origin.n + pixel / (OWN_Q * OWN_P);
    if (q >= Q || p >= P || n >= N) continue;
    const float stored = k < K ? to_float(y[output_offset(n, p, q, k)]) : 0.0f;
    for (uint32_t left = __ballot_sync(0xffffffffu, stored != stored); left != 0; left &= left - 1) {
      const int channel = origin.k + first % CHANNELS_M + __ffs(left) - 1;
      float sum = 0;
      for (int r = 0; r < R; ++r)
        for (int s = 0; s < S; ++s) {
          const int h = p * STRIDE_H - PAD_TOP + r * DILATION_H, col = q * STRIDE_W - PAD_LEFT + s * DILATION_W;
          if (h < 0 || h >= H || col < 0 || col >= W) continue;
#pragma unroll 4
          for (int c = lane; c < C; c += 32)
            sum += to_float(x[input_offset(n, h, col, c)]) * to_float(w[filter_offset(channel, r, s, c)]);
        }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      if (lane == 0) y[output_offset(n, p, q, channel)] = from_float<Output>(epilogue(sum, float(epilogue_bias(bias, channel))));
    }
  }
}
