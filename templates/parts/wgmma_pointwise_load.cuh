// ---- the warp that loads ----
__device__ __forceinline__ void load(const Smem& smem, const ptx::TensorMap& input, const ptx::TensorMap& filter, int lane) {
  constexpr int LAST_LANE = 31;
  if (kFilterResident && lane == LAST_LANE) {
    ptx::mbarrier_arrive_expect_tx(smem.filters_full, BLOCKS_K * CHUNKS * FILTER_BYTES);
    for (int i = 0; i < BLOCKS_K * CHUNKS; ++i)
      ptx::cp_async_bulk_tensor_3d_load(smem.filters + i * FILTER_BYTES, &filter, smem.filters_full, i % CHUNKS * BLOCK_K, 0,
                                        i / CHUNKS * BLOCK_N);
  }
  Ring<kStages> ring;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < TILE_COUNT; tile += gridDim.x) {
    const Line line = line_at(tile / TILES_K * TILE_LINES + lane);
    const int k = tile % TILES_K * BLOCK_N;
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      unsigned char* stage = smem.stages + ring.stage * STAGE_BYTES;
      uint64_t* full = smem.full + ring.stage;
      wait(smem.empty + ring.stage, ring.parity ^ 1);
      if (lane == 0) ptx::mbarrier_arrive_expect_tx(full, STAGE_BYTES);
      __syncwarp();  // the bytes are expected
      if (lane < TILE_LINES)
        ptx::cp_async_bulk_tensor_4d_load(stage + lane * BOX_BYTES, &input, full, line.pixel * STRIDE_W,
                                          line.row * (STRIDE_H / kRowsMerged), chunk * BLOCK_K, line.n);
      if (!kFilterResident && lane == LAST_LANE)
        ptx::cp_async_bulk_tensor_3d_load(stage + INPUT_BYTES, &filter, full, chunk * BLOCK_K, 0, k);
      ring.advance();
    }
  }
}
