// ---- what a CTA reads first, to L2 while the kernel before this one ends (kPrefetched, kProgrammaticLaunch) ----
// Nobody looks at the values, so it is no matter if that kernel still writes them. What a pass of the same plan writes is
// left alone: its old bytes are nowhere to be had cheaply.
__device__ __forceinline__ void prefetch_patches(const InputMaps& input) {
  const Share share = own_share();
  const Origin origin = origin_of(first_tile());
  int left = kPatchStages;
#pragma unroll 1
  for (int chunk = share.first_chunk(); chunk <= share.last_chunk(); ++chunk) {
    int tap = chunk * (R * S);
#pragma unroll 1
    for (int i = 0; i < PLANES; ++i) {
      const Plane plane = plane_at(i);
      const int taps = plane.taps_h * plane.taps_w;
      const bool held = share.holds(tap, taps);
      tap += taps;
      if (!held) continue;
      if (left-- == 0) return;
      ptx::cp_async_bulk_prefetch_tensor_4d(input.plane + i, chunk * BLOCK_K, origin.n, origin.q + plane.shift_w,
                                            origin.p + plane.shift_h);
    }
  }
}

__device__ __forceinline__ void prefetch_filters(const ptx::TensorMap& filter) {
  const Share share = own_share();
  const int k = origin_of(first_tile()).k;
  int left = FILTER_BUFFERS;
  int tap = share.first_chunk() * (R * S);
#pragma unroll 1
  for (int chunk = share.first_chunk(); chunk <= share.last_chunk(); ++chunk)
#pragma unroll 1
    for (int i = 0; i < PLANES; ++i) {
      const Plane plane = plane_at(i);
#pragma unroll 1
      for (int row = plane.first_r; row < R; row += Vertical::PERIOD)
#pragma unroll 1
        for (int column = plane.first_s; column < S; column += Horizontal::PERIOD) {
          if (!share.holds(tap++)) continue;
          if (left-- == 0) return;
          ptx::cp_async_bulk_prefetch_tensor_3d(&filter, chunk * BLOCK_K, row * S + column, k);
        }
    }
}
