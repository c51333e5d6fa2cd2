// NCHW by bulk copies of the runs' whole sectors, which go on while the threads compute the next box. The threads store
// what a run has before its first and after its last boundary of 32 bytes.

__device__ __forceinline__ void copy_sectors(const Run& run, int q, const Element* smem, Element* y) {
  const int begin = (run.shift + SECTOR - 1) / SECTOR * SECTOR, end = run.end() / SECTOR * SECTOR;
  if (begin < end)
    ptx::cp_async_bulk_store(run.in_y(y, q) + begin, run.in(smem) + begin, (end - begin) * sizeof(Element));
}

// Two sectors' worth of lanes, END_WIDTH elements each: the run's first and its last ones.
constexpr int END_WIDTH = aligned_width(RUN_ALIGNMENT), END_LANES = 2 * SECTOR / END_WIDTH;

// The thread's earlier copies have read shared memory.
__device__ __forceinline__ void store_by_bulk_copies(const Element (&acc)[THREAD_M][THREAD_N], const Fragment& fragment,
                                                     const Tile& tile, Element* smem, Element* y) {
  constexpr int WARPS = THREADS / 32, ITEMS = BLOCK_N * RUNS;
  __syncthreads();  // the stages, the slices' sums, or the outputs of the box before are read
  write_runs<THREAD_N>(acc, fragment, tile, 0, smem);
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();  // the runs are written
#pragma unroll 1
  for (int i = threadIdx.x % 32 * WARPS + threadIdx.x / 32; i < ITEMS; i += THREADS)
    copy_sectors(Run(tile, 0, i / RUNS, i % RUNS), tile.q, smem, y);
  ptx::cp_async_bulk_commit_group();
  if constexpr (RUN_ALIGNMENT < SECTOR) {
#pragma unroll 1
    for (int i = threadIdx.x / END_LANES; i < ITEMS; i += THREADS / END_LANES)
      store_end<SECTOR, END_WIDTH>(Run(tile, 0, i / RUNS, i % RUNS), threadIdx.x % END_LANES, tile.q, smem, y);
  }
}
