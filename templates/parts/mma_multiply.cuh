// ---- arithmetic ----
__device__ __forceinline__ void multiply(float (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __half) {
  ptx::mma_m16n8k16_f32_f16(acc, a, b);
}
__device__ __forceinline__ void multiply(float (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                         __nv_bfloat16) {
  ptx::mma_m16n8k16_f32_bf16(acc, a, b);
}
__device__ __forceinline__ void multiply(float (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float) {
  ptx::mma_m16n8k8_f32_tf32(acc, a, b);
}

// Operands of one K step of a warp.
struct Fragments {
  uint32_t a[FRAGS_M][4];
  uint32_t b[FRAGS_N][2];
};

// The place in shared memory (element offset) of a pixel's row of A; of its tap 0 in a patch.
__device__ __forceinline__ int pixel_place(int m) {
  if (kStaging != WINDOW) return m * A_PITCH;
  const int pixel = m < TILE_PIXELS ? m : 0;
  const int image = pixel / (TILE_P * TILE_Q), p = pixel / TILE_Q % TILE_P, q = pixel % TILE_Q;
  if (kRunOrder) return (image * PATCH_H + p * STRIDE_H) * RUN_ROW + q * STRIDE_W * C;
  return (image * PATCH_IMAGE + p * ROW_STEP * PATCH_ROW + q) * A_PITCH;
}

// The window moved by a tap: element offset from a pixel's place.
__device__ __forceinline__ int tap_place(int tap) {
  const int s = kColumnOrder ? tap : tap % S, r = kColumnOrder ? 0 : tap / S;
  const int column = s * DILATION_W % STRIDE_W * PHASE_COLUMNS + s * DILATION_W / STRIDE_W;
  return (r * DILATION_H * PATCH_ROW + column) * A_PITCH;
}

// A warp's tile. ldmatrix: lane l gives row l % 8 of matrix l / 8. Matrices of A: pixels 0-7 and 8-15 of the first
// unit, then of the second; of B: first and second unit of channels 0-7, then of 8-15.
struct Warp {
  int lane, m, n, k;     // m, n: first pixel and first channel; k: its turn among the warps of the tile
  int a_place[FRAGS_M];  // in bytes: the row of A that this lane addresses; in run order row lane / 4, which it reads
  int a_next[FRAGS_M];   // in bytes, in run order: row lane / 4 + 8, which it reads too
  int b_place;           // in elements: the row of B that this lane addresses

  __device__ __forceinline__ void prepare() {
    const int index = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    m = index / WARPS_N % WARPS_M * WARP_M;
    n = index % WARPS_N * WARP_N;
    k = index / (WARPS_N * WARPS_M);
#pragma unroll
    for (int j = 0; j < FRAGS_M; ++j) {
      a_place[j] = pixel_place(m + j * 16 + (kRunOrder ? lane / 4 : lane % 16));
      a_next[j] = kRunOrder ? pixel_place(m + j * 16 + 8 + lane / 4) : 0;
      if (!kRunOrder && (kStaging != WINDOW || TAP_UNITS % 2 == 0)) a_place[j] += lane / 16 * UNIT;
      a_place[j] *= sizeof(Element);
      a_next[j] *= sizeof(Element);
    }
    b_place = (n + lane % 8 + lane / 16 * 8) * B_PITCH + lane / 8 % 2 * UNIT;
  }

  // The operands of this warp's `turn`-th step in the slice.
  __device__ __forceinline__ void load_step(Fragments& f, const Smem& smem, const Slice& slice, int turn) const {
    const int step = WARPS_K == 1 ? turn : turn * WARPS_K + k;
    const Element *a = smem.a + slice.a_slot * A_STAGE, *b = smem.b + slice.b_slot * B_STAGE;
    const int tap_offset = kStaging == WINDOW && kSliceInTap ? tap_place(slice.tap()) + slice.channel() : 0;
    load_fragments(f, smem, a, b, slice, tap_offset, step);
  }

  // a, b: the slice's buffers; `tap_offset`: the slice's tap in the patch, where it has but one
  __device__ __forceinline__ void load_fragments(Fragments& f, const Smem& smem, const Element* a, const Element* b,
                                                 const Slice& slice, int tap_offset, int step) const {
#pragma unroll
    for (int j = 0; j < FRAGS_N; j += 2) {
      uint32_t r[4];
      ptx::ldmatrix_x4(r, b + b_place + step * STEP_K + j * 8 * B_PITCH);
      f.b[j][0] = r[0], f.b[j][1] = r[1], f.b[j + 1][0] = r[2], f.b[j + 1][1] = r[3];
    }
    if constexpr (kRunOrder) {
      load_runs(f, a, smem.runs + (slice.index * STEPS + step) * (STEP_K / WORD));
    } else {
      load_units(f, smem, a, slice, tap_offset, step);
    }
    if constexpr (kTf32) {
#pragma unroll
      for (int j = 0; j < FRAGS_M; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) f.a[j][e] = ptx::cvt_rna_tf32(f.a[j][e]);
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) f.b[j][e] = ptx::cvt_rna_tf32(f.b[j][e]);
    }
  }

  // A of one step, word by word as mma.sync wants it: `runs` gives the places of the step's 8 words.
  __device__ __forceinline__ void load_runs(Fragments& f, const Element* a, const int* runs) const {
    const char* patch = reinterpret_cast<const char*>(a);
    const int first = runs[lane % 4], second = runs[lane % 4 + 4];
#pragma unroll
    for (int j = 0; j < FRAGS_M; ++j) {
      f.a[j][0] = *reinterpret_cast<const uint32_t*>(patch + (first + a_place[j]));
      f.a[j][1] = *reinterpret_cast<const uint32_t*>(patch + (first + a_next[j]));
      f.a[j][2] = *reinterpret_cast<const uint32_t*>(patch + (second + a_place[j]));
      f.a[j][3] = *reinterpret_cast<const uint32_t*>(patch + (second + a_next[j]));
    }
  }

  // A of one step by ldmatrix.
  __device__ __forceinline__ void load_units(Fragments& f, const Smem& smem, const Element* a, const Slice& slice,
                                             int tap_offset, int step) const {
    bool exists = true;  // a unit beyond the last tap reads zeros, as its filter does
    int offset = tap_offset + step * STEP_K;
    if constexpr (kStaging == WINDOW && !kSliceInTap) {
      constexpr bool kStepInTap = TAP_UNITS % 2 == 0;
      const int unit = (slice.index * STEPS + step) * 2 + (kStepInTap ? 0 : lane / 16);
      if constexpr (CHUNK_UNITS % (2 * STEPS) != 0) exists = unit < CHUNK_UNITS;
      offset = tap_place(unit / TAP_UNITS) + unit % TAP_UNITS * UNIT;
    }
#pragma unroll
    for (int j = 0; j < FRAGS_M; ++j) {
      const char* row = reinterpret_cast<const char*>(a + offset) + a_place[j];
      ptx::ldmatrix_x4(f.a[j], exists ? row : reinterpret_cast<const char*>(smem.zero));
    }
  }

  __device__ __forceinline__ static void multiply_all(float (&acc)[FRAGS_M][FRAGS_N][4], const Fragments& f) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j0 = 0; j0 < FRAGS_N; ++j0) {
        const int j = kFragmentOrderZigzag && i % 2 == 1 ? FRAGS_N - 1 - j0 : j0;
        multiply(acc[i][j], f.a[i], f.b[j], Element{});
      }
  }
};
