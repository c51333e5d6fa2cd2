// ---- what splitters do with each patch ----
// Bits of the largest magnitude in a warp's part of what has landed: in the patch itself, or (kTransposed) before it.
template <bool kFinite>
__device__ __forceinline__ uint32_t largest_of_own(const unsigned char* patch, const float* landed, int thread) {
  if constexpr (kTransposed)
    return largest_landed<kFinite>(landed, thread);
  else
    return largest_in<kFinite>(patch, thread / 32, part_of(thread % 32));
}

// All warps' together.
template <bool kFinite>
__device__ __forceinline__ uint32_t largest_of_all(const unsigned char* patch, const float* landed, uint32_t* largest,
                                                   int thread) {
  const uint32_t own = largest_of_own<kFinite>(patch, landed, thread);
  if (thread % 32 == 0) largest[thread / 32] = own;
  ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);
  uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < SPLITTERS_WARPS; ++i) all = max(all, largest[i]);
  return all;
}

__device__ __forceinline__ void split_patches(const Smem& smem, const Splitting& splitting, int thread) {
  const int lane = thread % 32;
  Ring<kPatchStages> ring;
  Ring<1> landing;
  uint32_t largest = 0;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
    int before = 0;
    if constexpr (kTransposed && LANDED_BEFORE > 0) {
      const Origin origin = origin_of(tile);
      before = landed_before(origin.p, origin.q);
    }
#pragma unroll 1
    for (int i = 0; i < CHUNKS * PLANES; ++i) {
      unsigned char* const patch = smem.patches + ring.stage * PATCH_STAGE;
      const float* const landed = splitting.landed;
      const int of_landing = i % LANDED_PATCHES;
      if (of_landing == 0) {
        uint32_t* const seen = splitting.largest + SPLITTERS_WARPS * landing.parity;  // the next but one are seen after a barrier
        if constexpr (kTransposed)
          wait(splitting.landed_full, landing.parity);
        else
          wait(smem.patch_full + ring.stage, ring.parity);
        largest = largest_of_all<false>(patch, landed, seen, thread);
        if (largest >= 0x7f800000) {
          ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);  // all have read what all have seen
          largest = largest_of_all<true>(patch, landed, seen, thread);
        }
      }
      if constexpr (kTransposed) {
        wait(smem.patch_empty + ring.stage, ring.parity ^ 1);
        split_landed(patch, landed + before + of_landing * DILATION_W, scale_of(largest), thread);
      } else {
        split_rows(patch, scale_of(largest), thread / 32, part_of(lane));
      }
      if (thread == 0) splitting.inverse_scale[ring.stage] = inverse_scale_of(largest);
      ptx::fence_proxy_async_shared_cta();  // wgmma reads what the thread wrote
      __syncwarp();
      const bool all_split = of_landing + 1 == LANDED_PATCHES;
      if (lane == 0) {
        if (kTransposed && all_split) ptx::mbarrier_arrive(splitting.landed_empty);
        ptx::mbarrier_arrive(splitting.patch_split + ring.stage);
      }
      ring.advance();
      if (all_split) landing.advance();
    }
  }
}
