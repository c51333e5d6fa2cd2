// ---- epilogue: accumulators -> y. A warp's store is 8 channels of 4 pixels: NHWC, four whole sectors of 32 bytes ----
// The sum without the filter's scale; NaN where it is not finite.
__device__ __forceinline__ float unscaled(float acc, float inverse_scale) {
  return fmaf(acc, 0.0f, acc * inverse_scale);
}

__device__ __forceinline__ int64_t offset_of(int n, int pixel, int k) {
  return kOutputChannelsLast ? (int64_t(n) * (P * Q) + pixel) * K + k : (int64_t(n) * K + k) * (P * Q) + pixel;
}
__device__ __forceinline__ Origin place_of_subtile(Origin place, int i) {
  if (kMapping == ROWS) place.p += i * JOINED_ROWS;
  if (kMapping == BLOCK) place.q += i * 8;
  return place;
}

// A thread's two output channels, k and k + 8: of what they are multiplied with at last, and added to.
struct Channels {
  int k;
  float scale[2], bias[2];

  // a tile's last consumers may lie beyond K whole
  __device__ __forceinline__ bool exist(int half) const { return K % BLOCK_N == 0 || k + half * 8 < K; }
};

// Whether a thread's two pixels of a group are neighbours in y, aligned together, and stored both or none.
constexpr bool kPaired = !kOutputChannelsLast && TILE_N == 1 && TILE_Q % 2 == 0 && Q % 2 == 0 &&
                        (kMapping == BLOCK || JOINED_ROWS == 1 || PATCH_W % 2 == 0);

// Whether an output came out as NaN: an Inf among the operands makes NaN of what may be finite or infinite, and so does a
// sum that overflows with its scale.
__device__ __forceinline__ bool store(float* y, const Accumulators& acc, Origin place, const Channels& channels, int lane) {
  constexpr int kTogether = kPaired ? 2 : 1;
  struct alignas(kTogether * sizeof(float)) Stored {
    float e[kTogether];
  };
  bool saw_nan = false;
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < GROUPS_N; ++j)
#pragma unroll
      for (int e = 0; e < 2; e += kTogether) {
        int n = 0;
        const int pixel = pixel_offset_in_group(j, lane % 4 * 2 + e, place_of_subtile(place, i), n);
        if (pixel < 0) continue;
        float* const to = y + offset_of(n, pixel, channels.k);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Stored stored;
#pragma unroll
          for (int other = 0; other < kTogether; ++other) {
            const float sum = unscaled(acc[i][j * 4 + half * 2 + e + other], channels.scale[half]);
            stored.e[other] = epilogue(sum, channels.bias[half]);
            saw_nan |= stored.e[other] != stored.e[other];
          }
          if (channels.exist(half))
            *reinterpret_cast<Stored*>(to + half * 8 * int64_t(kOutputChannelsLast ? 1 : P * Q)) = stored;
        }
      }
  return saw_nan;
}

// What came out as NaN of a thread's outputs is computed again, in fp32.
__device__ __noinline__ void repair_outputs(const float* x, const float* w, const float* bias, float* y, Origin place, int k,
                                            int lane) {
  for (int i = 0; i < OWN_SUBTILES * GROUPS_N * 4; ++i) {
    const int in_subtile = i / 4 % GROUPS_N * 8 + lane % 4 * 2 + i % 2, channel = k + i / 2 % 2 * 8;
    int n = 0;
    const int pixel = pixel_offset(in_subtile, place_of_subtile(place, i / (GROUPS_N * 4)), n);
    if (pixel < 0 || channel >= K) continue;
    const float stored = y[offset_of(n, pixel, channel)];
    if (stored != stored) repair_output(x, w, bias, y, n, pixel / Q, pixel % Q, channel);
  }
}
