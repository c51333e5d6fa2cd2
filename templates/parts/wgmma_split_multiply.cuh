// ---- products of split operands, in partial sums that are added up in fp32 ----
// Whether a plane's taps are no whole number of partial sums.
__device__ constexpr bool has_remainder() {
  for (int r = 0; r < Vertical::USED; ++r)
    for (int s = 0; s < Horizontal::USED; ++s)
      if (Vertical::count(r) * Horizontal::count(s) % PROMOTION_TAPS != 0) return true;
  return false;
}
constexpr bool kRemainder = has_remainder();
static_assert(PROMOTION_TAPS <= Vertical::count(0) * Horizontal::count(0), "a partial sum is of one patch");
static_assert(kFilterResident || kFilterStages >= PROMOTION_TAPS, "the filters of a partial sum are there together");

// Patches that a consumer is ahead of the next one. While it stores, the other then has the tensor core for itself.
constexpr int HALF_TILE = CHUNKS * PLANES / 2;
constexpr int LAG_PATCHES = !kStaggered ? 0 : HALF_TILE < kPatchStages ? HALF_TILE : kPatchStages - 1;
static_assert(!kStaggered || (kConsumers == 2 && LAG_PATCHES > 0), "two consumers are apart by one of several patches, or more");

// The tensor core truncates each time it accumulates, by up to 2^-23 of the sum so far. A partial sum is therefore short,
// of TAPS taps of one patch, and takes the small products first: low * high and high * low of all its taps, then
// high * high. It is added to `acc` times the inverse of the patch's scale, by FMA on the CUDA cores.
template <int TAPS>
struct Operands {
  uint32_t filter[TAPS], patch[TAPS];  // addresses: rows of filters, and of pixels
};

template <int TAPS>
__device__ __forceinline__ void multiply_plane(Accumulators& partial, const Operands<TAPS>& operands, int tap,
                                               int filter_part, int patch_part, int steps, bool accumulate) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    if (LAST_STEPS < STEPS && step >= steps) break;
#pragma unroll
    for (int i = 0; i < OWN_SUBTILES; ++i)
      ptx::wgmma_m64k16_f32_f16(
          partial[i], descriptor(operands.filter[tap] + filter_part + step * STEP_BYTES, 8 * ROW_BYTES),
          descriptor(operands.patch[tap] + patch_part + step * STEP_BYTES + i * SUBTILE_STEP, GROUP_STEP),
          accumulate || step > 0);
  }
}

// From the pixels that a tap reads to those of the next one in its row.
constexpr int TAP_STEP = kRepeated ? PATCH_H * PATCH_PITCH : Horizontal::SHIFT_STEP * TILE_N * ROW_BYTES;

// Where a consumer is in a patch and in a resident filter.
struct Walk {
  uint32_t filters, patch;  // addresses: of the filters' buffers, of the patch that is read
  int tap_h, tap_w, taps_w;
  int buffer;  // resident

  __device__ __forceinline__ void advance() {
    if (++tap_w == taps_w) {
      tap_w = 0;
      ++tap_h;
    }
  }
};

// TAPS taps of a patch: one partial sum. `lag` counts down the patches before the one whose first sum tells the next consumer
// to begin; below 0 it has been told.
template <int TAPS>
__device__ __forceinline__ void multiply_taps(Accumulators& acc, Accumulators& partial, const Smem& smem, Consumer& consumer,
                                              Walk& walk, float inverse_scale, int steps, int& lag) {
  Operands<TAPS> operands;
  uint64_t* read[TAPS];  // filter stages
#pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) {
    if constexpr (!kFilterResident) {
      walk.buffer = (FILTER_RINGS > 1 ? consumer.index * kFilterStages : 0) + consumer.filter.stage;
      wait(smem.filter_full + walk.buffer, consumer.filter.parity);
      read[tap] = smem.filter_empty + walk.buffer;
      consumer.filter.advance();
    }
    operands.filter[tap] = __shfl_sync(0xffffffffu, walk.filters + walk.buffer * FILTER_BYTES, 0);
    operands.patch[tap] = __shfl_sync(0xffffffffu, walk.patch + walk.tap_h * (Vertical::SHIFT_STEP * PATCH_PITCH) + walk.tap_w * TAP_STEP, 0);
    if (kFilterResident) ++walk.buffer;
    walk.advance();
    ptx::wgmma_fence();
    multiply_plane(partial, operands, tap, LOW, 0, steps, tap > 0);
    multiply_plane(partial, operands, tap, 0, LOW, steps, true);
  }
#pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) multiply_plane(partial, operands, tap, 0, 0, steps, true);
  ptx::wgmma_commit_group();
  if (kConsumers > 1 && lag == 0 && consumer.index + 1 < kConsumers) ptx::barrier_arrive(4 + consumer.index + 1, 256);
  if (lag == 0) lag = -1;
  ptx::wgmma_wait_group<0>();
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i) ptx::wgmma_fence_operand(partial[i]);
  if constexpr (!kFilterResident) {
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) consumer.release(read[tap]);
  }
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < WGMMA_N / 2; ++j) acc[i][j] = fmaf(partial[i][j], inverse_scale, acc[i][j]);
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i) ptx::wgmma_fence_operand(acc[i]);
}

// A tile's sums, times the filters' scales. Filters of a tap and the patch are given back once their products are done.
__device__ __forceinline__ void multiply_tile(Accumulators& acc, Accumulators& partial, const Smem& smem,
                                              const Splitting& splitting, Consumer& consumer, int& lag) {
  Walk walk;
  walk.filters = smem_address(smem.filters + (kSplit == FILTERS && FILTER_RINGS == 1 ? consumer.index * 64 * ROW_BYTES : 0));
  walk.buffer = 0;
  const uint32_t patches =
      smem_address(smem.patches + (kSplit == PIXELS ? consumer.index * OWN_SUBTILES * SUBTILE_STEP : 0));
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < WGMMA_N / 2; ++j) acc[i][j] = 0.0f;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int steps = chunk + 1 == CHUNKS ? LAST_STEPS : STEPS;
#pragma unroll 1
    for (int i = 0; i < PLANES; ++i) {
      const Plane plane = plane_at(i);
      wait(splitting.patch_split + consumer.patch.stage, consumer.patch.parity);
      const float inverse_scale = splitting.inverse_scale[consumer.patch.stage];
      walk.patch = patches + consumer.patch.stage * PATCH_STAGE;
      walk.tap_h = walk.tap_w = 0;
      walk.taps_w = plane.taps_w;
      int taps = plane.taps_h * plane.taps_w;
#pragma unroll 1
      for (; taps >= PROMOTION_TAPS; taps -= PROMOTION_TAPS)
        multiply_taps<PROMOTION_TAPS>(acc, partial, smem, consumer, walk, inverse_scale, steps, lag);
      if constexpr (kRemainder) {
#pragma unroll 1
        for (; taps > 0; --taps) multiply_taps<1>(acc, partial, smem, consumer, walk, inverse_scale, steps, lag);
      }
      consumer.release(smem.patch_empty + consumer.patch.stage);
      consumer.patch.advance();
      if (lag > 0) --lag;
    }
  }
}
