// ---- splitters: a patch's rows from 32 numbers of fp32 to [32 high halves | 32 low halves], in place ----
constexpr int SPLITTERS = 64;          // threads
constexpr int SPLITTERS_BARRIER = 7;   // named
constexpr int LOW = ROW_BYTES / 2;     // of a row: where the low halves begin
constexpr int PATCH_PIXELS = PATCH_BYTES / ROW_BYTES, PATCH_GROUPS = (PATCH_PIXELS + 7) / 8;

// Behind wgmma's shared memory, per patch stage.
struct Splitting {
  uint64_t* patch_split;     // barriers
  uint32_t* largest;         // (kPatchStages, 2): bits of the largest magnitude that each of the two warps has seen
  float* inverse_scale;
};
__device__ __forceinline__ Splitting splitting_memory(const Smem& smem) {
  Splitting splitting;
  splitting.patch_split = reinterpret_cast<uint64_t*>(smem.saw_nan + 2 * kConsumers);
  splitting.largest = reinterpret_cast<uint32_t*>(splitting.patch_split + kPatchStages);
  splitting.inverse_scale = reinterpret_cast<float*>(splitting.largest + 2 * kPatchStages);
  return splitting;
}
__device__ __forceinline__ void init_split_barriers(const Splitting& splitting) {
  for (int i = 0; i < kPatchStages; ++i) ptx::mbarrier_init(splitting.patch_split + i, SPLITTERS / 32);
}

// A lane's part of every group of 8 pixels: a quarter of one pixel, that is channels 8 * `quarter` on. Lanes l and l + 4
// take pixels p and p ^ 5, so that eight lanes in a row touch all banks once, when they read and when they write.
struct Part {
  int pixel, quarter;
  // of the row: where 16 bytes of it lie, swizzled
  __device__ __forceinline__ int place(int unit) const { return pixel * ROW_BYTES + (unit ^ pixel) * 16; }
};
__device__ __forceinline__ Part part_of(int lane) { return {lane / 8 ^ lane / 4 % 2 * 5, lane % 4}; }

__device__ __forceinline__ void read_part(float (&v)[HALVES_UNIT], const unsigned char* group, const Part& part) {
  const float4 first = *reinterpret_cast<const float4*>(group + part.place(2 * part.quarter));
  const float4 second = *reinterpret_cast<const float4*>(group + part.place(2 * part.quarter + 1));
  const float numbers[HALVES_UNIT] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
  for (int i = 0; i < HALVES_UNIT; ++i) v[i] = numbers[i];
}

// Bits of the largest magnitude in a warp's groups; kFinite leaves Inf out, which hides all else.
template <bool kFinite>
__device__ __forceinline__ uint32_t largest_in(const unsigned char* patch, int warp, const Part& part) {
  constexpr int kUnroll = kFinite ? 1 : 2;
  float largest = 0.0f;
#pragma unroll kUnroll
  for (int group = warp; group < PATCH_GROUPS; group += SPLITTERS / 32) {
    if (group * 8 + part.pixel >= PATCH_PIXELS) break;
    float v[HALVES_UNIT];
    read_part(v, patch + group * (8 * ROW_BYTES), part);
#pragma unroll
    for (int i = 0; i < HALVES_UNIT; ++i)
      largest = fmaxf(largest, kFinite ? __uint_as_float(finite_magnitude(v[i])) : fabsf(v[i]));  // of NaN and v: v
  }
  return largest_of_warp(__float_as_uint(largest));
}

// Both warps' together.
template <bool kFinite>
__device__ __forceinline__ uint32_t largest_of_both(const unsigned char* patch, uint32_t* largest, int warp, int lane,
                                                    const Part& part) {
  const uint32_t mine = largest_in<kFinite>(patch, warp, part);
  if (lane == 0) largest[warp] = mine;
  ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);
  return max(largest[0], largest[1]);
}

// Rows beyond the patch, up to a multiple of 8, lie in its stage: what becomes of them does not matter.
__device__ __forceinline__ void split_rows(unsigned char* patch, float scale, int warp, const Part& part) {
  constexpr int kBatch = 2, STEP = SPLITTERS / 32 * 8 * ROW_BYTES;  // groups whose reads are under way together
#pragma unroll 1
  for (int group = warp; group < PATCH_GROUPS; group += kBatch * (SPLITTERS / 32)) {
    unsigned char* const rows = patch + group * (8 * ROW_BYTES);
    float v[kBatch][HALVES_UNIT];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (group + i * (SPLITTERS / 32) < PATCH_GROUPS) read_part(v[i], rows + i * STEP, part);
    __syncwarp();  // all four lanes have read their quarters of the rows
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (group + i * (SPLITTERS / 32) >= PATCH_GROUPS) break;
      const Halves halves = split(v[i], scale);
      *reinterpret_cast<uint4*>(rows + i * STEP + part.place(part.quarter)) = halves.high;
      *reinterpret_cast<uint4*>(rows + i * STEP + part.place(4 + part.quarter)) = halves.low;
    }
  }
}

__device__ __forceinline__ void split_patches(const Smem& smem, const Splitting& splitting, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  const Part part = part_of(lane);
  Ring<kPatchStages> ring;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
#pragma unroll 1
    for (int i = 0; i < CHUNKS * PLANES; ++i) {
      unsigned char* const patch = smem.patches + ring.stage * PATCH_STAGE;
      uint32_t* const seen = splitting.largest + 2 * ring.stage;
      wait(smem.patch_full + ring.stage, ring.parity);
      uint32_t largest = largest_of_both<false>(patch, seen, warp, lane, part);
      if (largest >= 0x7f800000) {
        ptx::barrier_sync(SPLITTERS_BARRIER, SPLITTERS);  // both have read what both have seen
        largest = largest_of_both<true>(patch, seen, warp, lane, part);
      }
      split_rows(patch, scale_of(largest), warp, part);
      if (thread == 0) splitting.inverse_scale[ring.stage] = inverse_scale_of(largest);
      ptx::fence_proxy_async_shared_cta();  // wgmma reads what the thread wrote
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(splitting.patch_split + ring.stage);
      ring.advance();
    }
  }
}
