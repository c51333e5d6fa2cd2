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

// The largest magnitude that the scale of a patch's first part is for: parts to come may hold larger ones.
__device__ __forceinline__ uint32_t with_room(uint32_t largest) {
  constexpr uint32_t ROOM = LANDED_PARTS > 1 ? 2u << 23 : 0;
  return min(largest + ROOM, 0x7f7fffffu);
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
    for (int i = 0; i < CHUNKS * PLANES * LANDED_PARTS; ++i) {
      unsigned char* const patch = smem.patches + ring.stage * PATCH_STAGE;
      const float* const landed = splitting.landed;
      const int part = i % LANDED_PARTS, plane_w = i / LANDED_PARTS % Horizontal::USED, of_landing = plane_w % LANDED_PATCHES;
      float shrink = 1.0f;
      if (of_landing == 0) {
        if constexpr (kTransposed)
          wait(splitting.landed_full, landing.parity);
        else
          wait(smem.patch_full + ring.stage, ring.parity);
        uint32_t* const seen = splitting.largest + SPLITTERS_WARPS * landing.parity;  // the next but one are seen after a barrier
        uint32_t all = largest_of_all<false>(patch, landed, seen, thread);
        if (all >= 0x7f800000) {
          ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);  // all have read what all have seen
          all = largest_of_all<true>(patch, landed, seen, thread);
        }
        if (part == 0) {
          largest = with_room(all);
        } else if (exponent_of(all) > exponent_of(largest)) {
          shrink = scale_of(all) * inverse_scale_of(largest);
          largest = all;
        }
      }
      if constexpr (kTransposed) {
        if (part == 0) wait(smem.patch_empty + ring.stage, ring.parity ^ 1);
        split_landed(patch, landed + before + plane_w * DILATION_W, part, scale_of(largest), shrink, thread);
      } else {
        split_rows(patch, scale_of(largest), thread / 32, part_of(lane));
      }
      const bool landing_split = of_landing + 1 == LANDED_PATCHES, patch_split = part + 1 == LANDED_PARTS;
      if (thread == 0 && patch_split) splitting.inverse_scale[ring.stage] = inverse_scale_of(largest);
      ptx::fence_proxy_async_shared_cta();  // wgmma reads what the thread wrote
      __syncwarp();
      if (lane == 0) {
        if (kTransposed && landing_split) ptx::mbarrier_arrive(splitting.landed_empty);
        if (patch_split) ptx::mbarrier_arrive(splitting.patch_split + ring.stage);
      }
      if (landing_split) landing.advance();
      if (patch_split) ring.advance();
    }
  }
}
