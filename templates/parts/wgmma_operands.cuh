// ---- what consumers read, and their places in the rings ----
<% include "parts/wgmma_descriptor.cuh" %>

using Accumulators = Sum[OWN_SUBTILES][WGMMA_N / 2];

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
