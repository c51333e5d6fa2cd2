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

// fp64: the sizes of the operands tell the shape; two of m8n8k4 make one of 16 rows.
__device__ __forceinline__ void multiply(double (&acc)[4], const double (&a)[2], const double (&b)[1], double) {
  if constexpr (MMA_M == 8) {
    ptx::mma_m8n8k4_f64(acc[0], acc[1], a[0], b[0]);
    ptx::mma_m8n8k4_f64(acc[2], acc[3], a[1], b[0]);
  } else {
    ptx::mma_m16n8k4_f64(acc, a, b);
  }
}
__device__ __forceinline__ void multiply(double (&acc)[4], const double (&a)[4], const double (&b)[2], double) {
  ptx::mma_m16n8k8_f64(acc, a, b);
}
__device__ __forceinline__ void multiply(double (&acc)[4], const double (&a)[8], const double (&b)[4], double) {
  ptx::mma_m16n8k16_f64(acc, a, b);
}

// What mma.sync takes an operand's row in: 4 bytes or, of fp64, an element.
template <class T>
struct WordOf {
  using Type = uint32_t;
};
template <>
struct WordOf<double> {
  using Type = double;
};
using Word = WordOf<Element>::Type;

// Operands of one K step of a warp.
constexpr int LANE_WORDS = STEP_K / WORD / 4;  // that a lane holds of a row
struct Fragments {
  Word a[FRAGS_M][2 * LANE_WORDS];
  Word b[FRAGS_N][LANE_WORDS];
};

<% include "parts/mma_split.cuh" %>

// What a warp sums in. (Functions are templates of the fragments' type where other types would not compile.)
struct Sums {
  Number total[FRAGS_M][FRAGS_N][4] = {};
  float partial[kPartialSums ? FRAGS_M : 1][FRAGS_N][4] = {};  // kSplit: of the last steps

  template <class F>
  __device__ __forceinline__ void add_product(const F& f) {
    if constexpr (kSplit) {
      const Parts<FRAGS_N, 2> b(f.b);
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i) {
        const Parts<1, 4> a(&f.a[i]);
        float step[FRAGS_N][4] = {};
        if constexpr (kFourProducts) add_products(step, a.small[0], b.small, i, 0.0f);
        add_products(step, a.small[0], b.big, i, 0.0f);
        add_products(step, a.big[0], b.small, i, 0.0f);
        add_products(step, a.big[0], b.big, i, 0.0f);
        add_step(i, step);
      }
    } else {
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i) add_products(total[i], f.a[i], f.b, i, Element{});
    }
  }

  // The partial sums, if there are any, go to the total, and the next ones begin.
  __device__ __forceinline__ void promote() {
    if constexpr (!kPartialSums) return;
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          total[i][j][e] += partial[i][j][e] * kSumScale;
          partial[i][j][e] = 0.0f;
        }
  }

 private:
  // The products of the i-th 16 pixels.
  template <class Sum, class A, class B, class Multiplicand>
  __device__ __forceinline__ static void add_products(Sum& sum, const A& a, const B& b, int i, Multiplicand type) {
#pragma unroll
    for (int j0 = 0; j0 < FRAGS_N; ++j0) {
      const int j = kFragmentOrderZigzag && i % 2 == 1 ? FRAGS_N - 1 - j0 : j0;
      multiply(sum[j], a, b[j], type);
    }
  }

  __device__ __forceinline__ void add_step(int i, const float (&step)[FRAGS_N][4]) {
#pragma unroll
    for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (kPartialSums)
          partial[i][j][e] += step[j][e];
        else
          total[i][j][e] += step[j][e] * kSumScale;
      }
  }
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
// unit, then of the second; of B: first and second unit of channels 0-7, then of 8-15. In run order and of fp64 lanes load
// their own words.
struct Warp {
  int lane, m, n, k;     // m, n: first pixel and first channel; k: its turn among the warps of the tile
  int a_place[FRAGS_M];  // in bytes: the row of A that this lane addresses; if it loads words row lane / 4
  int a_next[FRAGS_M];   // in bytes, if it loads words: row lane / 4 + 8
  int b_place;           // in elements: the row of B that this lane addresses
  static constexpr bool kLoadsWords = kRunOrder || kFp64;
  static constexpr bool kPairInTap = kStaging != WINDOW || TAP_UNITS % 2 == 0;  // two units are of one tap

  __device__ __forceinline__ void prepare() {
    const int index = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    m = index / WARPS_N % WARPS_M * WARP_M;
    n = index % WARPS_N * WARP_N;
    k = index / (WARPS_N * WARPS_M);
#pragma unroll
    for (int j = 0; j < FRAGS_M; ++j) {
      a_place[j] = pixel_place(m + j * 16 + (kLoadsWords ? lane / 4 : lane % 16));
      a_next[j] = kLoadsWords ? pixel_place(m + j * 16 + 8 + lane / 4) : 0;
      if (!kLoadsWords && kPairInTap) a_place[j] += lane / 16 * UNIT;
      if (!kRunOrder && kFp64) {  // its element of two units or, where they are of different taps, of the one unit
        a_place[j] += kPairInTap ? lane % 4 : lane % UNIT;
        a_next[j] += kPairInTap ? lane % 4 : lane % UNIT;
      }
      a_place[j] *= sizeof(Element);
      a_next[j] *= sizeof(Element);
    }
    b_place = kFp64 ? (n + lane / 4) * B_PITCH + lane % 4
                    : (n + lane % 8 + lane / 16 * 8) * B_PITCH + lane / 8 % 2 * UNIT;
  }

  // The operands of this warp's `turn`-th step in the slice.
  __device__ __forceinline__ void load_step(Fragments& f, const Smem& smem, const Slice& slice, int turn) const {
    const int step = WARPS_K == 1 ? turn : turn * WARPS_K + k;
    const Element *a = smem.a + slice.a_slot * A_STAGE, *b = smem.b + slice.b_slot * B_STAGE;
    const int tap_offset = kStaging == WINDOW && kSliceInTap ? tap_place(slice.tap()) + slice.channel() : 0;
    load_fragments(f, smem, a, b, slice, tap_offset, step);
  }

  // a, b: the slice's buffers; `tap_offset`: the slice's tap in the patch, where it has but one
  template <class F>
  __device__ __forceinline__ void load_fragments(F& f, const Smem& smem, const Element* a, const Element* b,
                                                 const Slice& slice, int tap_offset, int step) const {
    load_filter(f, b + b_place + step * STEP_K);
    if constexpr (kRunOrder) {
      load_runs(f, a, smem.runs + (slice.index * STEPS + step) * (STEP_K / WORD));
    } else {
      load_units(f, smem, a, slice, tap_offset, step);
    }
    if constexpr (kTf32) {
#pragma unroll
      for (int j = 0; j < FRAGS_M; ++j)
#pragma unroll
        for (int e = 0; e < 2 * LANE_WORDS; ++e) f.a[j][e] = ptx::cvt_rna_tf32(f.a[j][e]);
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int e = 0; e < LANE_WORDS; ++e) f.b[j][e] = ptx::cvt_rna_tf32(f.b[j][e]);
    }
  }

  // B of one step, by ldmatrix or word by word.
  template <class F>
  __device__ __forceinline__ static void load_filter(F& f, const Element* row) {
    if constexpr (kFp64) {
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
        for (int i = 0; i < LANE_WORDS; ++i) f.b[j][i] = word_at(row + j * 8 * B_PITCH + i * 4);
    } else {
#pragma unroll
      for (int j = 0; j < FRAGS_N; j += 2) {
        uint32_t r[4];
        ptx::ldmatrix_x4(r, row + j * 8 * B_PITCH);
        f.b[j][0] = r[0], f.b[j][1] = r[1], f.b[j + 1][0] = r[2], f.b[j + 1][1] = r[3];
      }
    }
  }

  __device__ __forceinline__ static Word word_at(const void* smem) { return *static_cast<const Word*>(smem); }

  // A of one step, word by word as mma.sync wants it: `runs` gives the places of the step's words.
  __device__ __forceinline__ void load_runs(Fragments& f, const Element* a, const int* runs) const {
    const char* patch = reinterpret_cast<const char*>(a);
#pragma unroll
    for (int i = 0; i < LANE_WORDS; ++i) {
      const int place = runs[lane % 4 + i * 4];
#pragma unroll
      for (int j = 0; j < FRAGS_M; ++j) {
        f.a[j][2 * i] = word_at(patch + (place + a_place[j]));
        f.a[j][2 * i + 1] = word_at(patch + (place + a_next[j]));
      }
    }
  }

  // A of one step, two units at a time: by ldmatrix, or words of fp64.
  template <class F>
  __device__ __forceinline__ void load_units(F& f, const Smem& smem, const Element* a, const Slice& slice,
                                             int tap_offset, int step) const {
#pragma unroll
    for (int i = 0; i < STEP_UNITS / 2; ++i) {
      bool exists = true;  // a unit beyond the last tap reads zeros, as its filter does
      int offset = tap_offset + step * STEP_K + i * (2 * UNIT);
      if constexpr (kStaging == WINDOW && !kSliceInTap) {
        const int lane_unit = kPairInTap ? 0 : kFp64 ? lane % 4 / UNIT : lane / 16;
        const int unit = (slice.index * STEPS + step) * STEP_UNITS + 2 * i + lane_unit;
        if constexpr (CHUNK_UNITS % (STEP_UNITS * STEPS) != 0) exists = unit < CHUNK_UNITS;
        offset = tap_place(unit / TAP_UNITS) + unit % TAP_UNITS * UNIT;
      }
      const char *base = reinterpret_cast<const char*>(a + offset), *zero = reinterpret_cast<const char*>(smem.zero);
#pragma unroll
      for (int j = 0; j < FRAGS_M; ++j) {
        if constexpr (kFp64) {
          f.a[j][2 * i] = word_at(exists ? base + a_place[j] : zero);
          f.a[j][2 * i + 1] = word_at(exists ? base + a_next[j] : zero);
        } else {
          ptx::ldmatrix_x4(f.a[j], exists ? base + a_place[j] : zero);
        }
      }
    }
  }
};
