// ---- products ----
// A template, so that the products of other types need not fit.
template <class Accumulator>
__device__ __forceinline__ void multiply(Accumulator (&acc)[WGMMA_N / 2], uint64_t a, uint64_t b, bool accumulate) {
  if constexpr (kProduct == TF32) ptx::wgmma_m64k8_f32_tf32(acc, a, b, accumulate);
  if constexpr (kProduct == BF16) ptx::wgmma_m64k16_f32_bf16(acc, a, b, accumulate);
  if constexpr (kProduct == F16) ptx::wgmma_m64k16_f32_f16(acc, a, b, accumulate);
  if constexpr (kProduct == S8) ptx::wgmma_m64k32_s32_s8(acc, a, b, accumulate);
  if constexpr (kProduct == E4M3) ptx::wgmma_m64k32_f32_e4m3(acc, a, b, accumulate);
  if constexpr (kProduct == E5M2) ptx::wgmma_m64k32_f32_e5m2(acc, a, b, accumulate);
}

// One tap of one chunk: filters at address `a`, the patch at the tap's place `b`.
__device__ __forceinline__ void multiply_tap(Accumulators& acc, uint32_t a, uint32_t b, int steps, bool accumulate) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    if (LAST_STEPS < STEPS && step >= steps) break;
#pragma unroll
    for (int i = 0; i < OWN_SUBTILES; ++i)
      multiply(acc[i], descriptor(a + step * STEP_BYTES, 8 * ROW_BYTES),
               descriptor(b + step * STEP_BYTES + i * SUBTILE_STEP, GROUP_STEP), accumulate || step > 0);
  }
}

// Hopper's tensor cores cut sums of fp8 to about 14 bits. The sums of one tap and chunk suffer less from that.
__device__ __forceinline__ void promote(Accumulators& acc, Accumulators& part, bool accumulate) {
  ptx::wgmma_wait_group<0>();  // part is there
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i) {
    ptx::wgmma_fence_operand(part[i]);
#pragma unroll
    for (int j = 0; j < WGMMA_N / 2; ++j) acc[i][j] = accumulate ? acc[i][j] + part[i][j] : part[i][j];
  }
}

// The bias of a thread's two channels, of a tile from channel `k` on: asked for before the products, added after them.
struct Biases {
  Sum of[2];

  __device__ __forceinline__ Biases(const Output* bias, int k, int thread) {
    const int first = k + thread / 32 * 16 + thread % 32 / 4;
    of[0] = epilogue_bias(bias, first);
    of[1] = epilogue_bias(bias, first + 8);
  }
  __device__ __forceinline__ Sum at(int i) const { return of[i / 2 % 2]; }  // of sum i
};
template <int COUNT>
__device__ __forceinline__ void add_bias(Sum (&sum)[COUNT], const Biases& biases) {
  if constexpr (!kHasBias) return;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sum[i] += biases.at(i);
}

// A tile's sums, or the CTA's share of them. A tap's products are one commit group; once the next tap's are under way, its
// buffers are given back.
__device__ __forceinline__ void multiply_tile(Accumulators& acc, const Smem& smem, Consumer& consumer) {
  const uint32_t filters = smem_address(smem.filters + (kSplit == FILTERS ? consumer.index * 64 * ROW_BYTES : 0));
  const uint32_t patches =
      smem_address(smem.patches + (kSplit == PIXELS ? consumer.index * OWN_SUBTILES * SUBTILE_STEP : 0));
  uint64_t *last_patch = nullptr, *last_filter = nullptr;  // read by the products that are under way
  int buffer = 0;                                          // resident
  const Share share = own_share();
  int tap = share.first_chunk() * (R * S);
  if constexpr (kOrdered) ptx::barrier_sync(4 + consumer.index, 256);
#pragma unroll 1
  for (int chunk = share.first_chunk(); chunk <= share.last_chunk(); ++chunk) {
    const int steps = chunk + 1 == CHUNKS ? LAST_STEPS : STEPS;
#pragma unroll 1
    for (int i = 0; i < PLANES; ++i) {
      const Plane plane = plane_at(i);
      if (!share.holds(tap, plane.taps_h * plane.taps_w)) {
        tap += plane.taps_h * plane.taps_w;
        continue;
      }
      wait(smem.patch_full + consumer.patch.stage, consumer.patch.parity);
      const uint32_t patch = patches + consumer.patch.stage * PATCH_STAGE;
#pragma unroll 1
      for (int tap_h = 0; tap_h < plane.taps_h; ++tap_h) {
        const uint32_t row = patch + tap_h * Vertical::SHIFT_STEP * PATCH_PITCH;
#pragma unroll 1
        for (int tap_w = 0; tap_w < plane.taps_w; ++tap_w, ++tap) {
          if (!share.holds(tap)) continue;
          if constexpr (!kFilterResident) {
            buffer = consumer.filter.stage;
            wait(smem.filter_full + buffer, consumer.filter.parity);
          }
          const bool accumulate = tap != share.begin;
          Accumulators part;  // kPromoted
          ptx::wgmma_fence();
          multiply_tap(kPromoted ? part : acc, __shfl_sync(0xffffffffu, filters + buffer * FILTER_BYTES, 0),
                       __shfl_sync(0xffffffffu, row + tap_w * Horizontal::SHIFT_STEP * (TILE_N * ROW_BYTES), 0), steps,
                       !kPromoted && accumulate);
          ptx::wgmma_commit_group();
          if constexpr (kPromoted)
            promote(acc, part, accumulate);
          else
            ptx::wgmma_wait_group<1>();
          if (last_filter != nullptr) consumer.release(last_filter);
          if (last_patch != nullptr) consumer.release(last_patch);
          last_patch = nullptr;
          if constexpr (kFilterResident) {
            ++buffer;
          } else {
            last_filter = smem.filter_empty + buffer;
            consumer.filter.advance();
          }
        }
      }
      last_patch = smem.patch_empty + consumer.patch.stage;
      consumer.patch.advance();
    }
  }
  if constexpr (kOrdered) ptx::barrier_arrive(4 + (consumer.index + 1) % kConsumers, 256);  // its turn
  ptx::wgmma_wait_group<0>();
  if (last_filter != nullptr) consumer.release(last_filter);
  consumer.release(last_patch);
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i) ptx::wgmma_fence_operand(acc[i]);
}
