// ---- an NCHW x, transposed while it is staged (kTransposed) ----
// All of the producers' warps but one fill a patch. A thread reads VECTOR neighbouring pixels of each of UNIT channels and writes a unit of 16
// bytes for each pixel, swizzled as TMA would; zeros outside the image. Neighbouring lanes have neighbouring units, so
// that they write to different banks. BATCH such tasks of a thread are under way together.
constexpr int TRANSPOSERS = 128 * kProducers - 32;  // threads
constexpr int VECTOR = sizeof(Element) == 1 ? 4 /* not written for them */ : STRIDE_W > 1 ? 1 : W % 4 == 0 ? 4 : W % 2 == 0 ? 2 : 1;
constexpr int BATCH = (VECTOR == 4 ? 2 : 4) / kProducers;
constexpr int UNITS = BLOCK_K / UNIT;
constexpr int VECTORS_W = (PATCH_W + VECTOR - 2) / VECTOR + 1;  // that hold a row of the patch, wherever it begins
constexpr int TASKS = TILE_N * PATCH_H * VECTORS_W * UNITS;

// VECTOR pixels of a channel in whole words: a single one of 16 bits has the lower half.
using Word = BitsOf<VECTOR == 1 ? sizeof(Element) : 4>::Type;
struct alignas(VECTOR * sizeof(Element)) Pixels {
  Word words[(VECTOR * sizeof(Element) + 3) / 4];
};

// Of a task: which pixels of x, and where the first of them lies in the patch.
struct Place {
  int unit, n, row, column;  // of the patch; the column may lie left of it
};
__device__ __forceinline__ Place place_of(int task, int first_column) {
  const int v = task / UNITS;
  return {task % UNITS, v / (VECTORS_W * PATCH_H), v / VECTORS_W % PATCH_H, v % VECTORS_W * VECTOR - first_column};
}

// The unit of 16 bytes of pixel `e`.
__device__ __forceinline__ uint4 unit_of(const Pixels (&pixels)[UNIT], int e) {
  uint32_t unit[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(Element) == 4) {
      unit[i] = ptx::cvt_rna_tf32(pixels[i].words[e]);
    } else {
      const uint32_t low = pixels[2 * i].words[e / 2], high = pixels[2 * i + 1].words[e / 2];
      unit[i] = e % 2 == 0 ? (low & 0xffff) | high << 16 : low >> 16 | (high & 0xffff0000);
    }
  }
  return {unit[0], unit[1], unit[2], unit[3]};
}

// A CTA's patches, in the order in which they are multiplied.
struct Patches {
  int tile = blockIdx.x, chunk = 0, plane = 0;

  __device__ __forceinline__ void advance() {
    if (++plane < PLANES) return;
    plane = 0;
    if (++chunk < CHUNKS) return;
    chunk = 0;
    tile += gridDim.x;
  }
};
// Where a patch begins in x: image, row, column, channel.
struct Corner {
  int n, h, w, c;
};
__device__ __forceinline__ Corner corner_of(const Patches& at) {
  const Origin origin = origin_of(at.tile);
  const Plane plane = plane_at(at.plane);
  return {origin.n, origin.p * STRIDE_H + plane.first_r * DILATION_H - PAD_TOP,
          origin.q * STRIDE_W + plane.first_s * DILATION_W - PAD_LEFT, at.chunk * BLOCK_K};
}

__device__ __forceinline__ void transpose_patch(unsigned char* patch, const Element* x, Corner corner, int thread) {
  const int first_column = VECTOR == 1 ? 0 : corner.w & (VECTOR - 1);  // reads begin so many pixels before
  const Element* const image = x + (int64_t(corner.n) * C + corner.c) * (H * W);
#pragma unroll 1
  for (int first = thread; first < TASKS; first += BATCH * TRANSPOSERS) {
    Pixels pixels[BATCH][UNIT];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const Place place = place_of(first + i * TRANSPOSERS, first_column);
      const int h = corner.h + place.row * STRIDE_H, w = corner.w + place.column * STRIDE_W;
      const int c = place.unit * UNIT;
      const bool inside = place.n < TILE_N && corner.n + place.n < N && h >= 0 && h < H && w >= 0 && w < W;
      const Element* from = image + (int64_t(place.n) * C + c) * (H * W) + h * W + w;
#pragma unroll
      for (int j = 0; j < UNIT; ++j)
        pixels[i][j] = inside && corner.c + c + j < C ? *reinterpret_cast<const Pixels*>(from + j * (H * W)) : Pixels{};
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const Place place = place_of(first + i * TRANSPOSERS, first_column);
      if (place.n >= TILE_N) break;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        const int column = place.column + e;
        if (column < 0 || column >= PATCH_W) continue;
        const int at = ((place.row * PATCH_W + column) * TILE_N + place.n) * ROW_BYTES + place.unit * 16;
        *reinterpret_cast<uint4*>(patch + (at ^ (at >> 7 & ROW_BYTES / 16 - 1) << 4)) = unit_of(pixels[i], e);
      }
    }
  }
}

// Every line of 128 bytes that holds pixels of the patch.
__device__ __forceinline__ void prefetch_patch(const Element* x, Corner corner, int thread) {
  constexpr int LINE = 128 / sizeof(Element);
  const int begin = corner.w > 0 ? corner.w : 0;
  const int last = corner.w + (PATCH_W - 1) * STRIDE_W < W ? corner.w + (PATCH_W - 1) * STRIDE_W : W - 1;
#pragma unroll 1
  for (int i = thread; i < TILE_N * BLOCK_K * PATCH_H; i += TRANSPOSERS) {
    const int n = corner.n + i / (BLOCK_K * PATCH_H), c = corner.c + i / PATCH_H % BLOCK_K;
    const int h = corner.h + i % PATCH_H * STRIDE_H;
    if (n >= N || c >= C || h < 0 || h >= H) continue;
    const Element* row = x + ((int64_t(n) * C + c) * H + h) * W;
    for (int w = begin; w <= last; w += LINE) ptx::prefetch_global_l2(row + w);
    if (begin <= last) ptx::prefetch_global_l2(row + last);
  }
}

__device__ __forceinline__ void transpose_patches(const Smem& smem, const Element* x, int thread) {
  Ring<kPatchStages> ring;
#pragma unroll 1
  for (Patches at, next; at.tile < TILE_COUNT; at = next) {
    next.advance();
    if (kPrefetched && next.tile < TILE_COUNT) prefetch_patch(x, corner_of(next), thread);
    wait(smem.patch_empty + ring.stage, ring.parity ^ 1);
    transpose_patch(smem.patches + ring.stage * PATCH_STAGE, x, corner_of(at), thread);
    ptx::fence_proxy_async_shared_cta();  // wgmma reads what the thread wrote
    __syncwarp();
    if (thread % 32 == 0) ptx::mbarrier_arrive(smem.patch_full + ring.stage);
    ring.advance();
  }
}
