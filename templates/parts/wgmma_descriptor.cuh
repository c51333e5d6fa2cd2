// A matrix of rows of ROW_BYTES, swizzled, whose groups of 8 rows lie `group_step` bytes apart. The swizzle acts on the bits
// of the address, so a matrix may begin at any row of the pattern.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, int group_step) {
  constexpr uint64_t kSwizzle = ROW_BYTES == 128 ? 1 : 2;
  return kSwizzle << 62 | uint64_t(group_step >> 4) << 32 | uint64_t(1) << 16 | (address & 0x3ffff) >> 4;
}

__device__ __forceinline__ uint32_t smem_address(const void* smem) {
  // from one lane: the compiler then knows that all lanes agree, and keeps descriptors in uniform registers
  return __shfl_sync(0xffffffffu, static_cast<uint32_t>(__cvta_generic_to_shared(smem)), 0);
}
