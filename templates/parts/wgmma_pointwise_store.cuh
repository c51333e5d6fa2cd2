// ---- a consumer's stores ----
// Of each 8 output channels j a thread has sums of channels 2 * (lane % 4) and + 1: of its first row (near[0], near[1]) and of
// the one 8 further on.
struct Sums4 {
  float near[2], far[2];
};

// NCHW, 4 bytes: lanes exchange what they hold, so that 8 lanes store 8 neighbouring pixels of a channel.
__device__ __forceinline__ void store_words(Output* y, const Sums4& v, int lane, int k, bool near, bool far) {
  const bool low = lane < 16;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float other = __shfl_xor_sync(0xffffffffu, low ? v.far[e] : v.near[e], 16);
    if (K % BLOCK_N != 0 && k + e >= K) continue;
    if (near) y[int64_t(e) * (P * Q)] = from_float<Output>(low ? v.near[e] : other);
    if (far) y[int64_t(e) * (P * Q) + FAR] = from_float<Output>(low ? other : v.far[e]);
  }
}

// NCHW, 2 bytes: a warp turns its 16 pixels of 8 channels; 4 lanes store those of one. `left`: pixels that exist.
__device__ __forceinline__ void store_turned(Output* y, uint32_t near, uint32_t far, int lane, int left) {
  const bool even = lane % 2 == 0;
  near = ptx::movmatrix_trans(near);
  far = ptx::movmatrix_trans(far);
  const uint32_t other = __shfl_xor_sync(0xffffffffu, even ? far : near, 1);
  const uint2 four = even ? uint2{near, other} : uint2{other, far};
  if constexpr (P * Q % 4 == 0 && Q % (kFlat ? 1 : 4) == 0) {
    if (left > 0) *reinterpret_cast<uint2*>(y) = four;
  } else {
    Output pixels[4];
    memcpy(pixels, &four, sizeof four);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < left) y[i] = pixels[i];
  }
}

__device__ __forceinline__ void store_subtile(const float (&sums)[BLOCK_N / 2], const Output* bias, Output* y, const Line& line,
                                              int first_channel, int warp, int lane) {
  if (line.n >= N) return;
  const int first = line.pixel + first_pixel(warp), left = ROW_PIXELS - first;  // pixels of the row from the first on
  const int row = lane / 4, pair = lane % 4 * 2;
  // of an NCHW y: the pixel of the lane's first store
  const int own = kWords ? row : pair % 4 * 4 + pair / 4 * 4;
  const int64_t image = int64_t(line.n) * K * (P * Q);
  Output* const pixels = y + image + line.row * Q + first;
#pragma unroll
  for (int j = 0; j < BLOCK_N / 8; ++j) {
    const int k = first_channel + j * 8 + pair;
    Sums4 v;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float b = epilogue_bias(bias, k + e);
      v.near[e] = epilogue(sums[j * 4 + e], b);
      v.far[e] = epilogue(sums[j * 4 + 2 + e], b);
    }
    if constexpr (kOutputChannelsLast) {
      const int near = pixel_of_row(row);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (K % BLOCK_N != 0 && k + e >= K) continue;
        Output* const to = y + image + (int64_t(line.row * Q + first) + near) * K + k + e;
        if (near < left) *to = from_float<Output>(v.near[e]);
        if (near + APART < left) to[APART * K] = from_float<Output>(v.far[e]);
      }
    } else if constexpr (kWords) {
      store_words(pixels + int64_t(k) * (P * Q) + own, v, lane, k, own < left, own + FAR < left);
    } else {
      const int channel = first_channel + j * 8 + row;
      const bool exists = K % BLOCK_N == 0 || channel < K;
      store_turned(pixels + int64_t(channel) * (P * Q) + own, pack<Output>(v.near[0], v.near[1]), pack<Output>(v.far[0], v.far[1]),
                   lane, exists ? left - own : 0);
    }
  }
}

__device__ __forceinline__ void consume(const Smem& smem, const Output* bias, Output* y, int warp_of_consumers, int lane) {
  const int consumer = warp_of_consumers / 4, warp = warp_of_consumers % 4;
  Ring<kStages> ring;
  if constexpr (kFilterResident) wait(smem.filters_full, 0);
#pragma unroll 1
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
    const int first_line = tile / TILES_K * TILE_LINES + consumer * CONSUMER_LINES + line_of_warp(warp);
    const Ring<kStages> of_tile = ring;
#pragma unroll 1
    for (int block = 0; block < TILE_BLOCKS; ++block) {
      ring = of_tile;
      Sums sums;
      multiply_block(sums, smem, ring, block, consumer, warp, lane);
      const int channel = (tile % TILES_K + block) * BLOCK_N;
#pragma unroll
      for (int subtile = 0; subtile < SUBTILES; ++subtile)
        store_subtile(sums[subtile], bias, y, line_at(first_line + subtile * SUBTILE_LINES), channel, warp, lane);
    }
  }
}
