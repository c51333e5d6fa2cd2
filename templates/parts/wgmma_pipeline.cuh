// ---- rings of buffers, and the warps that fill them ----
<% include "parts/ring.cuh" %>

__device__ __forceinline__ void init_barriers(const Smem& smem) {
  for (int i = 0; i < kPatchStages; ++i) {
    ptx::mbarrier_init(smem.patch_full + i, kTransposed ? 4 * kProducers - 1 : 1);
    ptx::mbarrier_init(smem.patch_empty + i, kSplit == TILES ? 4 : 4 * kConsumers);
  }
  for (int i = 0; i < FILTER_RINGS * kFilterStages; ++i) {
    ptx::mbarrier_init(smem.filter_full + i, 1);
    ptx::mbarrier_init(smem.filter_empty + i, 4 * kConsumers / FILTER_RINGS);
  }
  for (int i = 0; i < STAGING_BARRIERS; ++i) {
    ptx::mbarrier_init(smem.staging_full + i, 4);
    ptx::mbarrier_init(smem.staging_empty + i, 2);
  }
  if (kRepair)
    for (int i = 0; i < 2 * kConsumers; ++i) smem.saw_nan[i] = 0;
}

struct InputMaps {
  ptx::TensorMap plane[PLANES];  // (C, N, columns, rows) of a plane, innermost first
};

// Loops stay rolled: the producer has few registers.
__device__ __forceinline__ void load_patches(const Smem& smem, const InputMaps& input) {
  Ring<kPatchStages> ring;
  const Share share = own_share();
#pragma unroll 1
  for (int tile = first_tile(); tile < TILE_COUNT; tile += tile_step()) {
    const Origin origin = origin_of(tile);
#pragma unroll 1
    for (int chunk = share.first_chunk(); chunk <= share.last_chunk(); ++chunk) {
      int tap = chunk * (R * S);
#pragma unroll 1
      for (int i = 0; i < PLANES; ++i) {
        const Plane plane = plane_at(i);
        const int taps = plane.taps_h * plane.taps_w;
        tap += taps;
        if (!share.holds(tap - taps, taps)) continue;
        wait(smem.patch_empty + ring.stage, ring.parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(smem.patch_full + ring.stage, PATCH_BYTES);
        ptx::cp_async_bulk_tensor_4d_load(smem.patches + ring.stage * PATCH_STAGE, &input.plane[i],
                                          smem.patch_full + ring.stage, chunk * BLOCK_K, origin.n,
                                          origin.q + plane.shift_w, origin.p + plane.shift_h);
        ring.advance();
      }
    }
  }
}

// The filters of a tap and chunk: from (C, R*S, K), or from the (halves of a row, K, CHUNKS*R*S) of split or scaled operands.
__device__ __forceinline__ void load_filter(unsigned char* stage, const ptx::TensorMap& filter, uint64_t* full, int chunk,
                                            int tap, int k) {
  if constexpr (kSplitOperands || kScaled)
    ptx::cp_async_bulk_tensor_3d_load(stage, &filter, full, 0, k, chunk * (R * S) + tap);
  else
    ptx::cp_async_bulk_tensor_3d_load(stage, &filter, full, chunk * BLOCK_K, tap, k);
}

// Stages in the order in which they are multiplied: chunk, plane, tap. `index`: of the ring, where each consumer has one.
__device__ __forceinline__ void load_filters(const Smem& smem, const ptx::TensorMap& filter, int index = 0) {
  Ring<kFilterStages> ring;
  const Share share = own_share();
  int buffer = 0;
  if (kFilterResident) ptx::mbarrier_arrive_expect_tx(smem.filter_full, FILTER_BUFFERS * FILTER_BYTES);
#pragma unroll 1
  for (int tile = first_tile(); tile < TILE_COUNT; tile += tile_step()) {
    const Origin origin = origin_of(tile);
    int tap = share.first_chunk() * (R * S);
#pragma unroll 1
    for (int chunk = share.first_chunk(); chunk <= share.last_chunk(); ++chunk)
#pragma unroll 1
      for (int i = 0; i < PLANES; ++i) {
        const Plane plane = plane_at(i);
#pragma unroll 1
        for (int r = plane.first_r; r < R; r += Vertical::PERIOD)
#pragma unroll 1
          for (int s = plane.first_s; s < S; s += Horizontal::PERIOD) {
            if (!share.holds(tap++)) continue;
            if constexpr (!kFilterResident) {
              buffer = index * kFilterStages + ring.stage;
              wait(smem.filter_empty + buffer, ring.parity ^ 1);
              ptx::mbarrier_arrive_expect_tx(smem.filter_full + buffer, FILTER_BYTES);
            }
            load_filter(smem.filters + buffer * FILTER_BYTES, filter, smem.filter_full + (kFilterResident ? 0 : buffer),
                        chunk, r * S + s, origin.k + (kSplit == FILTERS ? index * 64 : 0));
            ++buffer;
            ring.advance();
          }
      }
    if (kFilterResident) return;
  }
}
