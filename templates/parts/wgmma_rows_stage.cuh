// ---- the transformers: raw rows -> slots, in chunks of 16 bytes ----
// An element of a slot in the lower bits; 0 where it lies beside the image, or beyond the slot's last one.
__device__ __forceinline__ uint32_t border_element(const Raw& raw, int slot, int position) {
  const Tap tap = tap_at(position);
  const int column = slot * STRIDE_W - PAD_LEFT + tap.column;
  if (position >= SLOT_ELEMENTS || column < 0 || column >= W) return 0;
  const Source source = source_of(tap);
  const int at = raw.line(source.line) + slot_offset(slot) + source.offset * int(sizeof(Element));
  return *reinterpret_cast<const Bits*>(raw.bytes + at);
}
// A chunk of a slot some of whose columns lie beside the image.
__device__ __forceinline__ void stage_border_chunk(const Raw& raw, int slot, int plane, unsigned char* to, int mirror, float up) {
  if constexpr (sizeof(Element) == 4) {
    uint32_t elements[CHUNK_ELEMENTS];
    for (int e = 0; e < CHUNK_ELEMENTS; ++e) elements[e] = border_element(raw, slot, plane * CHUNK_ELEMENTS + e);
    write_words(elements, to, mirror, up);
  } else {
    Words chunk = {};
    for (int e = 0; e < CHUNK_ELEMENTS; ++e)
      chunk.w[e / 2] |= border_element(raw, slot, plane * CHUNK_ELEMENTS + e) << e % 2 * 16;
    write_chunk(chunk, to, mirror);
  }
}

// A thread's place in its team.
struct Member {
  int team, warp, lane;  // warp of the team

  __device__ __forceinline__ int thread() const { return warp * 32 + lane; }
  // The team's threads wait for each other.
  __device__ __forceinline__ void sync() const {
    if constexpr (kTeamWarps == 1)
      __syncwarp();
    else
      ptx::barrier_sync(1 + kConsumers + team, 32 * kTeamWarps);
  }
};

// The team's warps take 32 slots each in turn, and go on so from one group of planes to the next.
constexpr int SLOT_ROUNDS = ceil_div(LAST_INNER - FIRST_INNER, 32);
template <int GROUP>
__device__ __forceinline__ void stage_inner_slots(const Raw& raw, unsigned char* to, int mirror, const Member& member, float up) {
  const int round = (member.warp + kTeamWarps - GROUP * SLOT_ROUNDS % kTeamWarps) % kTeamWarps;
#pragma unroll 2
  for (int slot = FIRST_INNER + member.lane + 32 * round; slot < LAST_INNER; slot += 32 * kTeamWarps)
    if constexpr (sizeof(Element) == 4)
      stage_words_of_slot<GROUP * GROUP_PLANES>(raw, slot, to + slot * 16, mirror, member.lane, up);
    else
      stage_inner_slot<GROUP * GROUP_PLANES>(raw, slot, to + slot * 16, mirror);
  if constexpr (GROUP + 1 < PLANE_GROUPS) stage_inner_slots<GROUP + 1>(raw, to, mirror, member, up);
}

// A block: `to` is its slot 0 in the first plane, `up` what split elements are multiplied by.
__device__ __forceinline__ void stage_block(const Raw& raw, unsigned char* to, int mirror, const Member& member, float up) {
  stage_inner_slots<0>(raw, to, mirror, member, up);
  if constexpr (BORDER_SLOTS > 0) {
#pragma unroll 1
    for (int i = member.thread(); i < BORDER_SLOTS * PLANES; i += 32 * kTeamWarps) {
      const int border = i % BORDER_SLOTS, plane = i / BORDER_SLOTS;
      const int slot = border < FIRST_INNER ? border : border + (LAST_INNER - FIRST_INNER);
      stage_border_chunk(raw, slot, plane, to + (plane * PLANE_SLOTS + slot) * 16, mirror, up);
    }
  }
}

// Rows of the block above or below the image become zeros.
__device__ __forceinline__ void clear_outside(unsigned char* buffer, const Raw& raw, const Rows& rows, const Member& member) {
  if (rows.count == BLOCK_ROWS) return;
#pragma unroll 1
  for (int line = 0; line < LINES; ++line) {
    const int row = line % BLOCK_ROWS;
    if (row >= rows.first && row < rows.first + rows.count) continue;
    for (int i = member.thread(); i < INPUT_ROW_BYTES / int(sizeof(Element)); i += 32 * kTeamWarps)
      reinterpret_cast<Element*>(buffer + raw.line(line))[i] = from_float<Element>(0.0f);
  }
  member.sync();
}

// Of a split block's elements; `ranges` are those of the transformers for this block.
__device__ __forceinline__ Range range_of_block(const Raw& raw, Range* ranges, const Member& member) {
  Range range = range_of_lines(raw, member.thread());
  if constexpr (kTeamWarps > 1) {
    ranges += member.team * kTeamWarps;
    if (member.lane == 0) ranges[member.warp] = range;
    member.sync();
#pragma unroll
    for (int i = 0; i < kTeamWarps; ++i) range.join(ranges[i]);
  }
  return range;
}

// A team takes every kTeams-th block of the CTA.
__device__ __forceinline__ void transform(const Smem& smem, const Member& member) {
  Walk walk;
  Segment segment;
  Ring<kRawStages> ring;
  int first_block = 0;  // of the segment, in the CTA's count
  int turn = 0;         // of the ranges
#pragma unroll 1
  while (walk.take(segment)) {
    const int skipped = (member.team - first_block % kTeams + kTeams) % kTeams;
#pragma unroll 1
    for (int block = skipped; block < segment.blocks(); block += kTeams) {
      const int place = (first_block + block) % kRingBlocks, round = (first_block + block) / kRingBlocks;
      const int buffer = member.team * kRawStages + ring.stage;
      unsigned char* bytes = smem.raw + buffer * RAW_BYTES;
      wait(smem.raw_full + buffer, ring.parity);
      const Rows rows = rows_of_block(segment.n, segment.p + block, 0);
      const Raw raw = {bytes, rows.offset()};
      clear_outside(bytes, raw, rows, member);
      Scaling scaling = {};
      if constexpr (kSplit) scaling = scaling_of(range_of_block(raw, smem.ranges + turn * kTransformers, member));
      turn ^= 1;
      wait(smem.block_empty + place, (round & 1) ^ 1);
      stage_block(raw, smem.ring + place * (ROW_SLOTS * 16), place < MIRRORED_BLOCKS ? kRingBlocks * ROW_SLOTS * 16 : 0,
                  member, scaling.up);
      ptx::fence_proxy_async_shared_cta();  // wgmma reads the block, a bulk copy overwrites the buffer
      __syncwarp();
      if (member.lane == 0) {
        if (kSplit && member.warp == 0) {
          smem.scales[place] = scale_of(scaling);
          if (place < MIRRORED_BLOCKS) smem.scales[place + kRingBlocks] = scale_of(scaling);
        }
        ptx::mbarrier_arrive(smem.block_full + place);
      }
      ptx::mbarrier_arrive(smem.raw_empty + buffer);
      ring.advance();
    }
    first_block += segment.blocks();
  }
}
