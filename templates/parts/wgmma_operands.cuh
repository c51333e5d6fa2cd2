// ---- what consumers read, and their places in the rings ----
// A matrix of rows of ROW_BYTES, swizzled, whose groups of 8 rows lie `group_step` bytes apart. The swizzle acts on the bits
// of the address, so a matrix may begin at any row of the pattern.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, int group_step) {
  constexpr uint64_t kSwizzle = ROW_BYTES == 128 ? 1 : 2;
  return kSwizzle << 62 | uint64_t(group_step >> 4) << 32 | uint64_t(1) << 16 | (address & 0x3ffff) >> 4;
}

using Accumulators = Sum[OWN_SUBTILES][WGMMA_N / 2];

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
