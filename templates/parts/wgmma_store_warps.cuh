// ---- an NCHW y that the producers' idle warps copy from staging (kStoredByProducers), while the consumers go on ----
constexpr int COPIERS = 64;  // threads of them
constexpr int PARTS = SUM_GROUPS / STORE_GROUPS, SUBTILE_PARTS = kRuns ? 1 : GROUPS_N / STORE_GROUPS;

// A consumer's part of a tile and those after it, each to its own staging, once what lay there is copied.
template <int PART>
__device__ __forceinline__ void stage_parts(const Smem& smem, const Accumulators& acc, int index, int thread, uint32_t parity) {
  const int slot = index * PARTS + PART, warp = thread / 32, lane = thread % 32;
  unsigned char* staging = smem.staging + slot * STAGING_BYTES;
  wait(smem.staging_empty + slot, parity ^ 1);
  if constexpr (kRuns)
    stage_runs<PART * RUN_ROWS>(staging, acc, warp, lane);
  else
    stage_rows<PART % SUBTILE_PARTS * STORE_GROUPS>(staging, acc[PART / SUBTILE_PARTS], warp, lane);
  __syncwarp();
  if (lane == 0) ptx::mbarrier_arrive(smem.staging_full + slot);
  if constexpr (PART + 1 < PARTS) stage_parts<PART + 1>(smem, acc, index, thread, parity);
}

__device__ __forceinline__ void copy_part(Output* y, const unsigned char* staging, int part, int thread, Origin origin) {
  if constexpr (kRuns) {
    store_runs<COPIERS>(y, staging, thread, origin, part * RUN_ROWS);
  } else {
    const int subtile = part / SUBTILE_PARTS;
    const Origin place = {origin.n, origin.p + (kMapping == ROWS ? subtile * JOINED_ROWS : 0),
                          origin.q + (kMapping == BLOCK ? subtile * 8 : 0), origin.k};
    store_rows<COPIERS>(y, staging, thread / 32, thread % 32, place, part % SUBTILE_PARTS * STORE_GROUPS);
  }
}

template <bool USED>
__device__ __forceinline__ void copy_tiles(const Smem& smem, Output* y, int thread) {
  if constexpr (USED) {
    int round = 0;  // of the barriers
    int next = 0;   // consumer of split tiles
#pragma unroll 1
    for (int tile = first_tile(); tile < TILE_COUNT; tile += tile_step()) {
#pragma unroll 1
      for (int i = 0; i < PARTS * (kSplit == TILES ? 1 : kConsumers); ++i) {
        const int part = kSplit == TILES ? i : i / kConsumers, index = kSplit == TILES ? next : i % kConsumers;
        const int slot = index * PARTS + part;
        wait(smem.staging_full + slot, round & 1);
        copy_part(y, smem.staging + slot * STAGING_BYTES, part, thread, consumer_origin(tile, index));
        __syncwarp();
        if (thread % 32 == 0) ptx::mbarrier_arrive(smem.staging_empty + slot);
      }
      if (kSplit != TILES || ++next == kConsumers) {
        next = 0;
        ++round;
      }
    }
  }
}
