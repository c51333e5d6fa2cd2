// ---- a consumer in a cluster: multiplies its CTA's share of a tile, adds up its share of the sums and stores those ----
// The CTA's pixels are STORE_GROUPS of the consumer's SUM_GROUPS groups of 8; the last CTAs may have fewer, or none.

// Pixel `i` of a consumer's, of all its subtiles.
struct Pixel {
  int n, p, q;
  bool stored;
};
__device__ __forceinline__ Pixel pixel_at(int i, Origin origin) {
  const int subtile = i / WGMMA_N, at = i % WGMMA_N;
  Pixel pixel;
  int row, column;
  if constexpr (kMapping == BLOCK) {
    row = at / 8, column = subtile * 8 + at % 8;
    pixel.stored = true;
    pixel.n = origin.n;
  } else {
    row = at / TILE_N / PATCH_W, column = at / TILE_N % PATCH_W;
    pixel.stored = row < JOINED_ROWS && column < TILE_Q;
    row += subtile * JOINED_ROWS;
    pixel.n = origin.n + at % TILE_N;
  }
  pixel.p = origin.p + row, pixel.q = origin.q + column;
  pixel.stored = pixel.stored && subtile < OWN_SUBTILES && pixel.n < N && pixel.p < P && pixel.q < Q;
  return pixel;
}

struct alignas(16) FourSums {
  Sum v[4];
};
__device__ __forceinline__ Sum as_sum(uint32_t bits) {
  Sum sum;
  memcpy(&sum, &bits, sizeof sum);
  return sum;
}
struct alignas(16) OutputUnit {
  Output e[OUTPUT_UNIT];
};

// What a thread has of `sums` of a consumer: four values of a group of 8 pixels.
__device__ __forceinline__ unsigned char* sums_of(unsigned char* sums, int group, int thread) {
  return sums + (group * 128 + thread) * 16;
}

// The thread's values of the CTA's groups, added up in the order of the CTAs.
__device__ __forceinline__ void add_up(Sum (&sum)[STORE_GROUPS * 4], unsigned char* sums, int first, int thread) {
#pragma unroll
  for (int i = 0; i < STORE_GROUPS * 4; ++i) sum[i] = 0;
#pragma unroll
  for (int peer = 0; peer < kClusterK; ++peer) {
    uint32_t part[STORE_GROUPS][4];  // all under way at once
    const uint32_t from = ptx::mapa(sums_of(sums, first, thread), peer);
#pragma unroll
    for (int j = 0; j < STORE_GROUPS; ++j)
      if (SUM_GROUPS % kClusterK == 0 || first + j < SUM_GROUPS) ptx::ld_shared_cluster_v4(part[j], from + j * 128 * 16);
#pragma unroll
    for (int j = 0; j < STORE_GROUPS; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (SUM_GROUPS % kClusterK == 0 || first + j < SUM_GROUPS) sum[j * 4 + e] += as_sum(part[j][e]);
  }
}

// What is NaN of COUNT channels of a pixel, as they were stored, is computed again over the taps inside the image.
template <int COUNT>
__device__ __forceinline__ void repair_channels(const Output (&stored)[COUNT], const Element* x, const Element* w,
                                                const Output* bias, Output* y, const Pixel& pixel, int k) {
  bool has_nan = false;
#pragma unroll
  for (int e = 0; e < COUNT; ++e) has_nan |= to_float(stored[e]) != to_float(stored[e]);
  if (!has_nan) return;
#pragma unroll 1
  for (int e = 0; e < COUNT; ++e) {
    const float again = to_float(y[output_offset(pixel.n, pixel.p, pixel.q, k + e)]);
    if (again != again) repair_output(x, w, bias, y, pixel.n, pixel.p, pixel.q, k + e);
  }
}

// From staging to y, pixels that are stored alone: 16 bytes of channels at a time; NCHW: an element.
__device__ __forceinline__ void store_share(Output* y, const unsigned char* staging, const Element* x, const Element* w,
                                            const Output* bias, int first, int thread, Origin origin) {
  constexpr int PIXELS = STORE_GROUPS * 8;
  if constexpr (kOutputChannelsLast) {
    constexpr int UNITS = 8 * STORE_PARTS;  // of 64 channels
#pragma unroll 2
    for (int i = thread; i < PIXELS * UNITS; i += 128) {
      const int at = i / UNITS, part = i % UNITS / 8, unit = i % 8, k = origin.k + i % UNITS * OUTPUT_UNIT;
      const Pixel pixel = pixel_at(first * 8 + at, origin);
      if (!pixel.stored || k >= K) continue;
      const OutputUnit run = *reinterpret_cast<const OutputUnit*>(staging + part * PART_BYTES + at * 128 + (unit ^ at % 8) * 16);
      *reinterpret_cast<OutputUnit*>(y + output_offset(pixel.n, pixel.p, pixel.q, k)) = run;
      if constexpr (kRepair) repair_channels(run.e, x, w, bias, y, pixel, k);
    }
  } else {
#pragma unroll 2
    for (int i = thread; i < 64 * PIXELS; i += 128) {
      const int at = i % PIXELS, k = origin.k + i / PIXELS;
      const Pixel pixel = pixel_at(first * 8 + at, origin);
      if (!pixel.stored || k >= K) continue;
      const Output one[1] = {reinterpret_cast<const Output*>(staging)[i / PIXELS * STAGING_PITCH + at]};
      y[output_offset(pixel.n, pixel.p, pixel.q, k)] = one[0];
      if constexpr (kRepair) repair_channels(one, x, w, bias, y, pixel, k);
    }
  }
}

template <int CLUSTER>
__device__ __forceinline__ void consume_share(const Smem& smem, int index, const Output* bias, Output* y,
                                              const Element* x, const Element* w) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const int first = ptx::cluster_ctarank() * STORE_GROUPS;  // of the groups
  unsigned char* const sums = smem.sums + index * SUM_BYTES;
  unsigned char* const staging = smem.staging + index * STAGING_BYTES;
  Consumer consumer = {index, lane};
  const Biases biases(bias, consumer_origin(first_tile(), index).k, thread);
  Accumulators acc;
  multiply_tile(acc, smem, consumer);
  ptx::barrier_sync(4, 128 * kConsumers);  // the products have read the buffers
#pragma unroll
  for (int i = 0; i < SUM_GROUPS; ++i) {
    const Sum* d = acc[i / GROUPS_N] + i % GROUPS_N * 4;
    *reinterpret_cast<FourSums*>(sums_of(sums, i, thread)) = {d[0], d[1], d[2], d[3]};
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();  // all sums are in shared memory
  Sum sum[STORE_GROUPS * 4];
  add_up(sum, sums, first, thread);

  const Origin origin = consumer_origin(first_tile(), index);
  add_bias(sum, biases);
  if constexpr (kOutputChannelsLast)
    stage_groups<0>(staging, sum, warp, lane);
  else
    stage_rows<0>(staging, sum, warp, lane);
  ptx::barrier_sync(1 + index, 128);  // staging is complete
  ptx::barrier_cluster_arrive_relaxed();  // the sums have been read
  store_share(y, staging, x, w, bias, first, thread, origin);
  ptx::barrier_cluster_wait();  // by all: the CTA may end
}

// A consumer of a CTA alone, or of one in a cluster.
template <int CLUSTER>
__device__ __forceinline__ void consume(const Smem& smem, int index, const ptx::TensorMap* output, const Output* bias,
                                        Output* y, const Element* x, const Element* w, const Scales& scales) {
  if constexpr (CLUSTER == 1)
    consume_tiles<CLUSTER>(smem, index, output, bias, y, x, w, scales);
  else
    consume_share<CLUSTER>(smem, index, bias, y, x, w);
}
