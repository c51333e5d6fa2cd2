// ---- the producer: rows of x to raw buffers, as they lie in global memory ----
__device__ __forceinline__ void load_bytes(void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier, uint64_t policy) {
  if constexpr (kBursts)
    ptx::cp_async_bulk_load_hint(smem, gmem, bytes, barrier, policy);
  else
    ptx::cp_async_bulk_load(smem, gmem, bytes, barrier);
}

// Where in x the rows of a block lie: those of one run of its raw buffer. Rows outside the image are left out.
struct Rows {
  int first, count;  // rows of the block that lie in the image
  int64_t origin;    // byte of x where row 0 of the block would begin; below 0 or beyond the end if it is outside

  // Bytes of the block's row 0 from the beginning of the buffer: copies keep the place within 16 bytes.
  __device__ __forceinline__ int offset() const { return int(origin & 15); }
};
__device__ __forceinline__ Rows rows_of_block(int n, int block, int part) {
  const int row = block * STRIDE_H - PAD_TOP;
  const int first = min(max(-row, 0), BLOCK_ROWS), last = max(min(H - row, BLOCK_ROWS), first);
  const int64_t plane = kInputChannelsLast ? n : int64_t(n) * C + part;
  return {first, last - first, (plane * H + row) * INPUT_ROW_BYTES};
}

// Copies the rows: what lies in x's last bytes, short of 16, by hand, which no bulk copy overwrites, since these rows come
// last; whole 16 bytes in bulk if kBulk. Returns the bytes of the bulk copy, which must be expected before it is issued.
template <bool kBulk>
__device__ __forceinline__ uint32_t load_rows(const Rows& rows, unsigned char* buffer, const unsigned char* x,
                                              uint64_t* barrier, uint64_t policy) {
  if (rows.count == 0) return 0;
  const int64_t begin = rows.origin + int64_t(rows.first) * INPUT_ROW_BYTES, end = begin + int64_t(rows.count) * INPUT_ROW_BYTES;
  const int64_t unit = begin & ~int64_t(15), units_end = min((end + 15) & ~int64_t(15), INPUT_UNITS_END);
  const int64_t before = rows.origin & ~int64_t(15);  // byte of x that would come first in the buffer
  if constexpr (kBulk) {
    if (units_end > unit) load_bytes(buffer + (unit - before), x + unit, uint32_t(units_end - unit), barrier, policy);
  } else if (INPUT_UNITS_END < INPUT_BYTES && end > INPUT_UNITS_END) {
    for (int64_t i = INPUT_UNITS_END; i < end; i += sizeof(Element))
      *reinterpret_cast<Element*>(buffer + (i - before)) = *reinterpret_cast<const Element*>(x + i);
  }
  return uint32_t(units_end - unit);
}

// Brings x to L2 in bursts that all CTAs issue at about the same time: reads that trickle between writes of y cost more.
struct Prefetch {
  static constexpr int BURSTS = 4, LEAD = 2;  // segments ahead of the next one
  static constexpr int PIECE = 8192;          // bytes of a copy; CTAs take the pieces of a burst in turn
  static constexpr int64_t BURST_BYTES = INPUT_UNITS_END / BURSTS / 16 * 16;
  int issued = 0;

  // Once a segment's own rows are on their way: a short kernel waits for its first ones. Nothing is divided by the size of the
  // grid, which would take as long.
  __device__ __forceinline__ void after_segment(const Walk& walk, const unsigned char* x, uint64_t policy) {
    while (issued < BURSTS && (issued == 0 || walk.next + LEAD * walk.step >= issued * (Walk::UNIT_COUNT / BURSTS))) {
      const int64_t end = issued + 1 == BURSTS ? INPUT_UNITS_END : BURST_BYTES * (issued + 1);
      for (int64_t at = BURST_BYTES * issued + blockIdx.x * PIECE; at < end; at += gridDim.x * PIECE)
        ptx::cp_async_bulk_prefetch_l2_hint(x + at, uint32_t(min(end - at, int64_t(PIECE))), policy);
      ++issued;
    }
  }
};

// One warp. The kernel that packs the filters may still run; whatever came before it in the stream has ended.
__device__ __forceinline__ void load_filters(const Smem& smem, int lane, const unsigned char* packed) {
  if constexpr (kProgrammaticLaunch) ptx::griddepcontrol_wait();
  if (lane != 0) return;
  ptx::mbarrier_arrive_expect_tx(smem.filters_full, FILTER_BYTES);
  ptx::cp_async_bulk_load(smem.filters, packed + int64_t(blockIdx.x % K_BLOCKS) * FILTER_BYTES, FILTER_BYTES,
                          smem.filters_full);
}

// The consumers' threads.
__device__ __forceinline__ void pack_filters(const Smem& smem, const Element* w, int lane) {
  const int first = blockIdx.x % K_BLOCKS * FILTER_CHUNKS;
  for (int i = threadIdx.x; i < FILTER_CHUNKS; i += 128 * kConsumers) {
    const int unit = i % CHUNKS * WGMMA_N + i / CHUNKS;  // neighbours are chunks of a filter: they share its cache lines
    reinterpret_cast<Unit*>(smem.filters)[unit] = packed_unit(w, first + unit);
  }
  ptx::fence_proxy_async_shared_cta();  // wgmma reads what the thread wrote
  __syncwarp();
  if (kChannelRows || lane == 0) ptx::mbarrier_arrive(smem.filters_full);  // every lane, where threads read them
}

__device__ __forceinline__ void load(const Smem& smem, const unsigned char* x) {
  uint64_t policy = 0;
  if constexpr (kBursts) policy = ptx::createpolicy_evict_last();
  Walk walk;
  Segment segment;
  Prefetch prefetch;
  Ring<kRawStages> ring;  // of the team whose turn it is
  int turn = 0;
#pragma unroll 1
  while (walk.take(segment)) {
#pragma unroll 1
    for (int block = 0; block < segment.blocks(); ++block) {
      const int buffer = turn * kRawStages + ring.stage;
      unsigned char* raw = smem.raw + buffer * RAW_BYTES;
      uint64_t* full = smem.raw_full + buffer;
      wait(smem.raw_empty + buffer, ring.parity ^ 1);
      uint32_t bytes = 0;
      for (int part = 0; part < RAW_PARTS; ++part)
        bytes += load_rows<false>(rows_of_block(segment.n, segment.p + block, part), raw + part * RAW_PART_BYTES, x, full,
                                  policy);
      ptx::mbarrier_arrive_expect_tx(full, bytes);
      for (int part = 0; part < RAW_PARTS; ++part)
        load_rows<true>(rows_of_block(segment.n, segment.p + block, part), raw + part * RAW_PART_BYTES, x, full, policy);
      if (++turn == kTeams) {
        turn = 0;
        ring.advance();
      }
    }
    if constexpr (kBursts) prefetch.after_segment(walk, x, policy);
  }
}
