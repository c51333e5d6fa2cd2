// ---- fp32 by split numbers ----
// An element is the sum of two TF32 numbers of 11 bits, big + small: 22 bits, and the product of two elements is
// small * big + big * small + big * big; small * small counts where few are added. Elements are scaled first, so that every fp32 number, denormals too, becomes a
// multiple of 2^-125 and its parts are no denormals; sums are scaled back. What overflows on the way, as what isn't
// finite itself, comes out as Inf or NaN and is computed again.
constexpr float kSplitScale = 0x1p24f, kSumScale = 0x1p-48f;
// Tensor cores truncate their sums, each time by up to 2^-23: a step's begin with zero, the small products first, and
// are added in fp32, first to partial sums of PROMOTE_STEPS steps, whose rounding is finer than the total's.
constexpr bool kFourProducts = R * S * C <= 64;
constexpr int PROMOTE_STEPS = kSplit ? PROMOTE_K / STEP_K : 1;  // of one warp
constexpr bool kPartialSums = PROMOTE_STEPS > 1;
constexpr int PROMOTE_SLICES = PROMOTE_STEPS > WARP_STEPS ? PROMOTE_STEPS / WARP_STEPS : 1;
static_assert(!kSplit || WARP_STEPS % PROMOTE_STEPS == 0 || PROMOTE_STEPS % WARP_STEPS == 0,
              "partial sums end with a slice, or a slice with a partial sum");

// Whether a partial sum ends with this step of this slice.
__device__ constexpr bool ends_partial_sum(int slice, int step) {
  if (PROMOTE_STEPS < WARP_STEPS) return (step + 1) % PROMOTE_STEPS == 0;
  return step + 1 == WARP_STEPS && (slice + 1) % PROMOTE_SLICES == 0;
}

// big is rounded as by cvt.rna.tf32 but for a NaN, which small is then, too.
__device__ __forceinline__ void split(uint32_t x, uint32_t& big, uint32_t& small) {
  const float scaled = __uint_as_float(x) * kSplitScale;
  big = (__float_as_uint(scaled) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(scaled - __uint_as_float(big));  // mma.sync takes no notice of its low 13 bits
}

// The parts of an operand's registers: of one fragment of A, or of all of B.
template <int kCount, int kWords>
struct Parts {
  uint32_t big[kCount][kWords], small[kCount][kWords];

  __device__ __forceinline__ explicit Parts(const uint32_t (*words)[kWords]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
#pragma unroll
      for (int e = 0; e < kWords; ++e) split(words[j][e], big[j][e], small[j][e]);
  }
};
