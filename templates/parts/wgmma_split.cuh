// ---- splitters: a patch's rows from 32 numbers of fp32 to [32 high halves | 32 low halves], in place ----
constexpr int SPLITTERS = 128 * kProducers - 32 * (FILTER_RINGS + 1), SPLITTERS_WARPS = SPLITTERS / 32;  // threads
constexpr int SPLITTERS_BARRIER = 7;                                                // named
constexpr int LOW = ROW_BYTES / 2;     // of a row: where the low halves begin
constexpr int PATCH_PIXELS = PATCH_BYTES / ROW_BYTES, PATCH_GROUPS = (PATCH_PIXELS + 7) / 8;

// Behind wgmma's shared memory.
struct Splitting {
  uint64_t* patch_split;  // barriers, per patch stage
  float* inverse_scale;   // likewise
  uint32_t* largest;      // (2, SPLITTERS_WARPS): bits of the largest magnitude that each warp has seen
  // kTransposed
  uint64_t *landed_full, *landed_empty;  // a barrier each
  float* landed;                         // LANDED_STAGE numbers
};
__device__ __forceinline__ Splitting splitting_memory(unsigned char* memory, const Smem& smem) {
  Splitting splitting;
  splitting.patch_split = reinterpret_cast<uint64_t*>(smem.saw_nan + 2 * kConsumers);
  splitting.landed_full = splitting.patch_split + kPatchStages;
  splitting.landed_empty = splitting.landed_full + 1;
  splitting.largest = reinterpret_cast<uint32_t*>(splitting.landed_empty + 1);
  splitting.inverse_scale = reinterpret_cast<float*>(splitting.largest + SPLITTERS_WARPS * 2);
  const int end = reinterpret_cast<unsigned char*>(splitting.inverse_scale + kPatchStages) - memory;
  splitting.landed = reinterpret_cast<float*>(memory + (end + 127) / 128 * 128);
  return splitting;
}
__device__ __forceinline__ void init_split_barriers(const Splitting& splitting) {
  for (int i = 0; i < kPatchStages; ++i) ptx::mbarrier_init(splitting.patch_split + i, SPLITTERS_WARPS);
  ptx::mbarrier_init(splitting.landed_full, 1);
  ptx::mbarrier_init(splitting.landed_empty, SPLITTERS_WARPS);
}

template <bool kFinite>
__device__ __forceinline__ float larger(float largest, float v) {
  return fmaxf(largest, kFinite ? __uint_as_float(finite_magnitude(v)) : fabsf(v));  // of NaN and v: v
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
  for (int group = warp; group < PATCH_GROUPS; group += SPLITTERS_WARPS) {
    if (group * 8 + part.pixel >= PATCH_PIXELS) break;
    float v[HALVES_UNIT];
    read_part(v, patch + group * (8 * ROW_BYTES), part);
#pragma unroll
    for (int i = 0; i < HALVES_UNIT; ++i) largest = larger<kFinite>(largest, v[i]);
  }
  return largest_of_warp(__float_as_uint(largest));
}

// Rows beyond the patch, up to a multiple of 8, lie in its stage: what becomes of them does not matter.
__device__ __forceinline__ void split_rows(unsigned char* patch, float scale, int warp, const Part& part) {
  constexpr int kBatch = kProducers == 2 ? 1 : 2, STEP = SPLITTERS_WARPS * 8 * ROW_BYTES;  // groups whose reads are under way together; two warpgroups have few registers
#pragma unroll 1
  for (int group = warp; group < PATCH_GROUPS; group += kBatch * SPLITTERS_WARPS) {
    unsigned char* const rows = patch + group * (8 * ROW_BYTES);
    float v[kBatch][HALVES_UNIT];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (group + i * SPLITTERS_WARPS < PATCH_GROUPS) read_part(v[i], rows + i * STEP, part);
    __syncwarp();  // all four lanes have read their quarters of the rows
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (group + i * SPLITTERS_WARPS >= PATCH_GROUPS) break;
      const Halves halves = split(v[i], scale);
      *reinterpret_cast<uint4*>(rows + i * STEP + part.place(part.quarter)) = halves.high;
      *reinterpret_cast<uint4*>(rows + i * STEP + part.place(4 + part.quarter)) = halves.low;
    }
  }
}
