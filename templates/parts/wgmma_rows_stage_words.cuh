// ---- slots of 4-byte elements: rounded to tf32, or halves ----
// A chunk of elements to its place, and their low parts to the same place of the low planes.
__device__ __forceinline__ void write_words(const uint32_t (&elements)[CHUNK_ELEMENTS], unsigned char* place, int mirror,
                                            float up) {
  Words high, low;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kSplit) {
      const Halves halves = split(__uint_as_float(elements[2 * i]) * up, __uint_as_float(elements[2 * i + 1]) * up);
      high.w[i] = halves.high;
      low.w[i] = halves.low;
    } else {
      high.w[i] = ptx::cvt_rna_tf32(elements[i]);
    }
  }
  write_chunk(high, place, mirror);
  if constexpr (PARTS == 2) write_chunk(low, place + PART_PLANES * 16, mirror);
}

// Lanes whose slots begin in the same bank take turns at the words of four neighbouring elements: TURNS of them.
constexpr int BANK_LANES = common_divisor(SLOT_ADVANCE, 32), TURNS = common_divisor(BANK_LANES, 4);

// Elements `position` and the next three of a slot, from word `from` on; `left` elements of a line lie in the image.
__device__ __forceinline__ void load_quad(uint32_t* quad, const Raw& raw, const unsigned char* from, int left, int position,
                                          int turn) {
  const Source first = source_of(tap_at(position));
  bool run = position + 3 < SLOT_ELEMENTS;  // known to the compiler
#pragma unroll
  for (int e = 1; e < 4; ++e) {
    const Source source = source_of(tap_at(position + e));
    run = run && source.line == first.line && source.offset == first.offset + e;
  }
  const unsigned char* words = from + raw.line(first.line) + first.offset * 4;
  if (run && LINE_ALIGNMENT == 4 && first.offset % 4 == 0) {
    if (first.offset < LEAST_LEFT || first.offset < left)
      load_words<4>(quad, words);
    else
      quad[0] = quad[1] = quad[2] = quad[3] = 0;
  } else if (run && TURNS > 1) {
    uint32_t turned[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool exists = first.offset + 3 < LEAST_LEFT || first.offset + (e ^ turn) < left;
      turned[e] = exists ? *reinterpret_cast<const uint32_t*>(words + (e ^ turn) * 4) : 0;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) quad[e] = turn & 1 ? turned[e ^ 1] : turned[e];
#pragma unroll
    for (int e = 0; e < 4; ++e) turned[e] = TURNS == 4 && turn & 2 ? quad[e ^ 2] : quad[e];
#pragma unroll
    for (int e = 0; e < 4; ++e) quad[e] = turned[e];
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Source source = source_of(tap_at(position + e));
      const unsigned char* word = from + raw.line(source.line) + source.offset * 4;
      const bool exists = source.offset < LEAST_LEFT || source.offset < left;
      quad[e] = position + e < SLOT_ELEMENTS && exists ? *reinterpret_cast<const uint32_t*>(word) : 0;
    }
  }
}

// One slot of planes FIRST_PLANE ... + GROUP_PLANES - 1, `to` in the first plane of all.
template <int FIRST_PLANE>
__device__ __forceinline__ void stage_words_of_slot(const Raw& raw, int slot, unsigned char* to, int mirror, int lane, float up) {
  const unsigned char* from = raw.bytes + slot_offset(slot);
  const int left = elements_left(slot), turn = lane / (32 / BANK_LANES) % TURNS;
  constexpr int COUNT = GROUP_PLANES < PLANES - FIRST_PLANE ? GROUP_PLANES : PLANES - FIRST_PLANE;
  uint32_t elements[COUNT][CHUNK_ELEMENTS];
#pragma unroll
  for (int i = 0; i < COUNT * CHUNK_ELEMENTS; i += 4)  // all before the first is written, or the reads would not overlap
    load_quad(&elements[i / CHUNK_ELEMENTS][i % CHUNK_ELEMENTS], raw, from, left, FIRST_PLANE * CHUNK_ELEMENTS + i, turn);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) write_words(elements[i], to + (FIRST_PLANE + i) * PLANE_SLOTS * 16, mirror, up);
}

// Of a split block's elements: of each part those of a thread of the team, then of its warp.
__device__ __forceinline__ Range range_of_lines(const Raw& raw, int thread) {
  constexpr int WORDS = BLOCK_ROWS * INPUT_ROW_BYTES / 4, STEP = 32 * kTeamWarps;
  Range range;
#pragma unroll 1
  for (int part = 0; part < RAW_PARTS; ++part) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(raw.bytes + raw.line(part * BLOCK_ROWS));
#pragma unroll 16
    for (int round = 0; round < WORDS / STEP; ++round) range.look_at(words[thread + round * STEP]);
    if constexpr (WORDS % STEP != 0) range.look_at(words[min(thread + WORDS / STEP * STEP, WORDS - 1)]);
  }
  return range.of_warp();
}
