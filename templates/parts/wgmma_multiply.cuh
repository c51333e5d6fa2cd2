// ---- operands and products ----
// A matrix of rows of ROW_BYTES, swizzled, whose groups of 8 rows lie `group_step` bytes apart. The swizzle acts on the bits
// of the address, so a matrix may begin at any row of the pattern.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, int group_step) {
  constexpr uint64_t kSwizzle = ROW_BYTES == 128 ? 1 : 2;
  return kSwizzle << 62 | uint64_t(group_step >> 4) << 32 | uint64_t(1) << 16 | (address & 0x3ffff) >> 4;
}

using Accumulators = float[OWN_SUBTILES][WGMMA_N / 2];

__device__ __forceinline__ void multiply(float (&acc)[WGMMA_N / 2], uint64_t a, uint64_t b, bool accumulate) {
  if constexpr (sizeof(Element) == 4)
    ptx::wgmma_m64k8_f32_tf32(acc, a, b, accumulate);
  else if constexpr (kBf16)
    ptx::wgmma_m64k16_f32_bf16(acc, a, b, accumulate);
  else
    ptx::wgmma_m64k16_f32_f16(acc, a, b, accumulate);
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

__device__ __forceinline__ uint32_t smem_address(const void* smem) {
  // from one lane: the compiler then knows that all lanes agree, and keeps descriptors in uniform registers
  return __shfl_sync(0xffffffffu, static_cast<uint32_t>(__cvta_generic_to_shared(smem)), 0);
}

// A consumer's places in the rings, and what it has to give back.
struct Consumer {
  int index, lane;
  Ring<kPatchStages> patch;
  Ring<kFilterStages> filter;

  __device__ __forceinline__ void release(uint64_t* empty) const {
    if (lane == 0) ptx::mbarrier_arrive(empty);
  }
  __device__ __forceinline__ void skip_patches(int count) {
    for (int i = 0; i < count; ++i) patch.advance();
  }
};

// A tile's sums, or the CTA's share of them. A tap's products are one commit group; once the next tap's are under way, its buffers are given back.
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
          ptx::wgmma_fence();
          multiply_tap(acc, __shfl_sync(0xffffffffu, filters + buffer * FILTER_BYTES, 0),
                       __shfl_sync(0xffffffffu, row + tap_w * Horizontal::SHIFT_STEP * (TILE_N * ROW_BYTES), 0), steps,
                       tap != share.begin);
          ptx::wgmma_commit_group();
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
