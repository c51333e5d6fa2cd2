// ---- a consumer's products ----
using Sums = float[SUBTILES][BLOCK_N / 2];
using Fragments = uint32_t[SUBTILES][STEPS][4];

// A warp has 16 rows of wgmma's A, a lane row lane / 4 and the one 8 further on. Rows of elements of 2 bytes are pixels in their
// order. Those of 4 bytes are in such an order that a warp reads from all banks at once:
//
//   stride 1   rows 0 to 3: 4 neighbouring pixels; 4 to 7: 4 of those 16 further on; 8 to 15: the next 4 of each
//   stride 2   likewise, 8 further on; between two pixels lies one that is skipped
constexpr bool kWords = sizeof(Element) == 4;
constexpr int FAR = kWords ? 16 / STRIDE_W : 4, APART = kWords ? 4 : 8;  // pixels between rows 0 and 4; 0 and 8
constexpr int WARP_PIXELS = kWords && STRIDE_W == 1 ? 8 : 16;            // from a warp's first pixel to the next one's in the line
__device__ __forceinline__ int line_of_warp(int warp) { return warp * 16 / LINE_PIXELS; }
__device__ __forceinline__ int first_pixel(int warp) { return warp % (LINE_PIXELS / 16) * WARP_PIXELS; }
__device__ __forceinline__ int pixel_of_row(int row) { return row % 4 + row / 4 % 2 * FAR + row / 8 * APART; }

// Where a thread reads an element, or names a row to ldmatrix, in the boxes of its line; of a wgmma's channels the first is 0.
__device__ __forceinline__ uint32_t place(int warp, int channel, int element) {
  const int byte = element * int(sizeof(Element));
  return line_of_warp(warp) * BOX_BYTES + channel * ROW_BYTES + (byte / 16 ^ channel % 8) * 16 + byte % 16;
}

__device__ __forceinline__ void read_fragments(Fragments& fragments, const unsigned char* lines, int warp, int lane) {
  const auto at = [&](int subtile, int step, uint32_t place) {
    return lines + subtile * SUBTILE_LINES * BOX_BYTES + step * STEP_K * ROW_BYTES + place;
  };
  const auto pixel = [&](int i) { return (first_pixel(warp) + pixel_of_row(lane / 4 + i % 2 * 8)) * STRIDE_W; };
  if constexpr (!kWords && STRIDE_W == 1) {
    const uint32_t row = place(warp, lane / 16 * 8 + lane % 8, first_pixel(warp) + lane / 8 % 2 * 8);
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int subtile = 0; subtile < SUBTILES; ++subtile)
        ptx::ldmatrix_x4_trans(fragments[subtile][step], at(subtile, step, row));
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int channel = kWords ? lane % 4 + i / 2 * 4 : lane % 4 * 2 + i / 2 * 8;
    const uint32_t own = place(warp, channel, pixel(i)), next = place(warp, channel + 1, pixel(i));
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int subtile = 0; subtile < SUBTILES; ++subtile) {
        const uint32_t word = *reinterpret_cast<const uint32_t*>(at(subtile, step, own));
        // of 2 bytes: with the pixel that is skipped; its channel and the next one make a word
        fragments[subtile][step][i] =
            kWords ? word : __byte_perm(word, *reinterpret_cast<const uint32_t*>(at(subtile, step, next)), 0x5410);
      }
  }
}

__device__ __forceinline__ void multiply_step(float (&sums)[BLOCK_N / 2], const uint32_t (&pixels)[4], uint64_t filters,
                                              bool accumulate) {
  if constexpr (sizeof(Element) == 4)
    ptx::wgmma_held_m64k8_f32_tf32(sums, pixels, filters, accumulate);
  else if constexpr (kBf16)
    ptx::wgmma_held_m64k16_f32_bf16(sums, pixels, filters, accumulate);
  else
    ptx::wgmma_held_m64k16_f32_f16(sums, pixels, filters, accumulate);
}

__device__ __forceinline__ void await_products(Sums& sums) {
  ptx::wgmma_wait_group<0>();
#pragma unroll
  for (int subtile = 0; subtile < SUBTILES; ++subtile) ptx::wgmma_fence_held(sums[subtile]);
}

// Sums of a tile's block of output channels. A chunk's pixels are read once the products before it are done (see
// wgmma_held.cuh): meanwhile other consumers multiply. The lines are given back where the block is the tile's last one.
__device__ __forceinline__ void multiply_block(Sums& sums, const Smem& smem, Ring<kStages>& ring, int block, int consumer, int warp,
                                               int lane) {
  uint64_t* read = nullptr;  // says that the stage before is empty, whose filters are multiplied
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const unsigned char* const stage = smem.stages + ring.stage * STAGE_BYTES;
    uint64_t* const empty = smem.empty + ring.stage;
    wait(smem.full + ring.stage, ring.parity);
    await_products(sums);
    if (!kFilterResident && chunk > 0 && lane == 0) ptx::mbarrier_arrive(read);
    read = empty;
    Fragments pixels;
    read_fragments(pixels, stage + consumer * CONSUMER_LINES * BOX_BYTES, warp, lane);
    if (kFilterResident && block == TILE_BLOCKS - 1) {
      __syncwarp();  // all lanes have read
      if (lane == 0) ptx::mbarrier_arrive(empty);
    }
    const unsigned char* const filters =
        kFilterResident ? smem.filters + (block * CHUNKS + chunk) * FILTER_BYTES : stage + INPUT_BYTES;
    const uint32_t first_filter = smem_address(filters);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int subtile = 0; subtile < SUBTILES; ++subtile)
        multiply_step(sums[subtile], pixels[subtile][step], descriptor(first_filter + step * 32, 8 * ROW_BYTES),
                      chunk > 0 || step > 0);
    ptx::wgmma_commit_group();
    ring.advance();
  }
  await_products(sums);
  if (!kFilterResident && lane == 0) ptx::mbarrier_arrive(read);
}
