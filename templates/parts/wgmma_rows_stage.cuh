// ---- the transformers: raw rows -> slots, in chunks of 16 bytes ----
// A raw buffer holds lines: the block's input rows, in NCHW those of every channel. A slot has RUN neighbouring elements of
// each line, SLOT_ADVANCE elements further on than the slot before.
constexpr int LINES = BLOCK_ROWS * RAW_PARTS;
constexpr int PIXEL_ELEMENTS = kInputChannelsLast ? C : 1;  // from one column of a line to the next
constexpr int RUN = SLOT_COLUMNS * PIXEL_ELEMENTS, SLOT_ADVANCE = STRIDE_W * PIXEL_ELEMENTS;
struct Source {
  int line, offset;  // elements from the slot's first one
};
__device__ constexpr Source source_of(Tap tap) {
  return kInputChannelsLast ? Source{tap.row, tap.column * C + tap.c} : Source{tap.c * BLOCK_ROWS + tap.row, tap.column};
}

// Slots FIRST_INNER ... LAST_INNER - 1 lie within the image's columns.
__device__ constexpr int inner_slots_end(int end_column) {  // of slots that end at or before the column of the padded image
  const int end = end_column < SLOT_COLUMNS ? 0 : (end_column - SLOT_COLUMNS) / STRIDE_W + 1;
  return end < ROW_SLOTS ? end : ROW_SLOTS;
}
constexpr int FIRST_INNER = ceil_div(PAD_LEFT, STRIDE_W) < ROW_SLOTS ? ceil_div(PAD_LEFT, STRIDE_W) : ROW_SLOTS;
constexpr int LAST_INNER = inner_slots_end(PAD_LEFT + W) > FIRST_INNER ? inner_slots_end(PAD_LEFT + W) : FIRST_INNER;
constexpr int BORDER_SLOTS = ROW_SLOTS - (LAST_INNER - FIRST_INNER);

// Elements that the beginnings of all lines and slots are multiples of, up to 16 bytes.
__device__ constexpr int line_alignment() {
  int alignment = UNIT;
  while (W * PIXEL_ELEMENTS % alignment != 0 || SLOT_ADVANCE % alignment != 0 || PAD_LEFT * PIXEL_ELEMENTS % alignment != 0)
    alignment /= 2;
  return alignment;
}
constexpr int LINE_ALIGNMENT = line_alignment();

// A raw buffer, as a transformer sees it.
struct Raw {
  const unsigned char* bytes;
  int offset;  // of line 0, from `bytes`

  // Bytes from the buffer's beginning to a line.
  __device__ __forceinline__ int line(int i) const {
    if constexpr (kInputChannelsLast) return offset + i * INPUT_ROW_BYTES;
    const int part = i / BLOCK_ROWS;  // whose first row has its own place within 16 bytes
    constexpr int PART_SHIFT = int64_t(H) * INPUT_ROW_BYTES % 16;
    return part * RAW_PART_BYTES + ((offset + part * PART_SHIFT) & 15) + i % BLOCK_ROWS * INPUT_ROW_BYTES;
  }
};
__device__ __forceinline__ int slot_offset(int slot) {
  return (slot * STRIDE_W - PAD_LEFT) * PIXEL_ELEMENTS * int(sizeof(Element));
}

struct alignas(16) Words {
  uint32_t w[4];
};

template <int COUNT>
__device__ __forceinline__ void load_words(uint32_t* words, const unsigned char* from) {
  struct alignas(4 * COUNT) Vector {
    uint32_t w[COUNT];
  };
  const Vector vector = *reinterpret_cast<const Vector*>(from);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) words[i] = vector.w[i];
}

// What a group of planes needs of each line: `count` elements from `first` on.
constexpr int PLANE_GROUPS = ceil_div(PLANES, 4), GROUP_PLANES = ceil_div(PLANES, PLANE_GROUPS);
struct Needs {
  int first[LINES], count[LINES];
};
__device__ constexpr Needs needs_of(int first_plane) {
  Needs needs = {};
  for (int i = 0; i < GROUP_PLANES * UNIT; ++i) {
    const int position = first_plane * UNIT + i;
    if (position >= SLOT_ELEMENTS) break;
    const Source source = source_of(tap_at(position));
    int &first = needs.first[source.line], &count = needs.count[source.line];
    const int end = count > 0 && first + count > source.offset ? first + count : source.offset + 1;
    if (count == 0 || source.offset < first) first = source.offset;
    count = end - first;
  }
  return needs;
}

// One slot of planes FIRST_PLANE ... + GROUP_PLANES - 1, `to` in the first plane of all, and again `mirror` bytes further.
template <int FIRST_PLANE>
__device__ __forceinline__ void stage_inner_slot(const Raw& raw, int slot, unsigned char* to, int mirror) {
  constexpr Needs needs = needs_of(FIRST_PLANE);
  const int from = slot_offset(slot);
  uint32_t words[LINES][RUN / 2 + 1];  // elements of a line in pairs, from the first that is needed on
#pragma unroll
  for (int line = 0; line < LINES; ++line) {
    const int first = needs.first[line], count = needs.count[line];
    const int at = raw.line(line) + from + first * 2;
    if (count == 1) {
      words[line][0] = *reinterpret_cast<const uint16_t*>(raw.bytes + at);
    } else if (count > 1) {
      const bool even = LINE_ALIGNMENT % 2 == 0 && first % 2 == 0;  // known to the compiler, as is all but `at` here
      const unsigned char* aligned = raw.bytes + (even ? at : at & ~3);
      const int wanted = (count + 1) / 2, loads = even ? wanted : count / 2 + 1;
      const int vector = !even ? 1 : LINE_ALIGNMENT % 8 == 0 && first % 8 == 0 ? 4 : LINE_ALIGNMENT % 4 == 0 && first % 4 == 0 ? 2 : 1;
      uint32_t loaded[RUN / 2 + 2];
#pragma unroll
      for (int i = 0; i < RUN / 2 + 1; ++i) {
        const int left = loads - i, in_vector = i % vector;
        if (left <= 0 || (in_vector != 0 && left + in_vector >= vector)) continue;  // the latter came with a vector
        if (in_vector == 0 && vector == 4 && left >= 4)
          load_words<4>(loaded + i, aligned + i * 4);
        else if (in_vector == 0 && vector == 2 && left >= 2)
          load_words<2>(loaded + i, aligned + i * 4);
        else
          load_words<1>(loaded + i, aligned + i * 4);
      }
      const uint32_t shift = even ? 0 : (at & 2) * 8;
#pragma unroll
      for (int i = 0; i < RUN / 2 + 1; ++i)
        if (i < wanted)
          words[line][i] = even ? loaded[i] : i < count / 2 ? __funnelshift_r(loaded[i], loaded[i + 1], shift) : loaded[i] >> shift;
    }
  }
#pragma unroll
  for (int plane = FIRST_PLANE; plane < FIRST_PLANE + GROUP_PLANES && plane < PLANES; ++plane) {
    Words chunk;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const int position = plane * UNIT + pair * 2;
      uint32_t halves[2] = {0, 0};
      int selectors[2] = {0, 0};
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (position + e < SLOT_ELEMENTS) {
          const Source source = source_of(tap_at(position + e));
          const int i = source.offset - needs.first[source.line];
          halves[e] = words[source.line][i / 2];
          selectors[e] = i % 2 == 0 ? 0x10 : 0x32;
        }
      chunk.w[pair] = __byte_perm(halves[0], halves[1], selectors[0] | (selectors[1] + 0x44) << 8);
    }
    unsigned char* place = to + plane * PLANE_SLOTS * 16;
    *reinterpret_cast<Words*>(place) = chunk;
    if (mirror != 0) *reinterpret_cast<Words*>(place + mirror) = chunk;
  }
}

// A chunk of a slot some of whose columns lie beside the image.
__device__ __forceinline__ Words border_chunk(const Raw& raw, int slot, int plane) {
  Words chunk = {};
  for (int e = 0; e < UNIT; ++e) {
    const int position = plane * UNIT + e;
    const Tap tap = tap_at(position);
    const int column = slot * STRIDE_W - PAD_LEFT + tap.column;
    if (position >= SLOT_ELEMENTS || column < 0 || column >= W) continue;
    const Source source = source_of(tap);
    const int at = raw.line(source.line) + slot_offset(slot) + source.offset * 2;
    chunk.w[e / 2] |= uint32_t(*reinterpret_cast<const uint16_t*>(raw.bytes + at)) << e % 2 * 16;
  }
  return chunk;
}

template <int GROUP>
__device__ __forceinline__ void stage_inner_slots(const Raw& raw, unsigned char* to, int mirror, int lane) {
#pragma unroll 2
  for (int slot = FIRST_INNER + lane; slot < LAST_INNER; slot += 32)
    stage_inner_slot<GROUP * GROUP_PLANES>(raw, slot, to + slot * 16, mirror);
  if constexpr (GROUP + 1 < PLANE_GROUPS) stage_inner_slots<GROUP + 1>(raw, to, mirror, lane);
}

// A block: `to` is its slot 0 in the first plane.
__device__ __forceinline__ void stage_block(const Raw& raw, unsigned char* to, int mirror, int lane) {
  stage_inner_slots<0>(raw, to, mirror, lane);
  if constexpr (BORDER_SLOTS > 0) {
#pragma unroll 1
    for (int i = lane; i < BORDER_SLOTS * PLANES; i += 32) {
      const int border = i % BORDER_SLOTS, plane = i / BORDER_SLOTS;
      const int slot = border < FIRST_INNER ? border : border + (LAST_INNER - FIRST_INNER);
      const Words chunk = border_chunk(raw, slot, plane);
      unsigned char* place = to + (plane * PLANE_SLOTS + slot) * 16;
      *reinterpret_cast<Words*>(place) = chunk;
      if (mirror != 0) *reinterpret_cast<Words*>(place + mirror) = chunk;
    }
  }
}

// Rows of the block above or below the image become zeros.
__device__ __forceinline__ void clear_outside(unsigned char* buffer, const Raw& raw, const Rows& rows, int lane) {
  if (rows.count == BLOCK_ROWS) return;
#pragma unroll 1
  for (int line = 0; line < LINES; ++line) {
    const int row = line % BLOCK_ROWS;
    if (row >= rows.first && row < rows.first + rows.count) continue;
    for (int i = lane; i < INPUT_ROW_BYTES / int(sizeof(Element)); i += 32)
      reinterpret_cast<Element*>(buffer + raw.line(line))[i] = from_float<Element>(0.0f);
  }
  __syncwarp();
}

// Transformer `team` takes every kTransformers-th block of the CTA.
__device__ __forceinline__ void transform(const Smem& smem, int team, int lane) {
  Walk walk;
  Segment segment;
  Ring<kRawStages> ring;
  int first_block = 0;  // of the segment, in the CTA's count
#pragma unroll 1
  while (walk.take(segment)) {
    const int skipped = (team - first_block % kTransformers + kTransformers) % kTransformers;
#pragma unroll 1
    for (int block = skipped; block < segment.blocks(); block += kTransformers) {
      const int place = (first_block + block) % kRingBlocks, round = (first_block + block) / kRingBlocks;
      const int buffer = team * kRawStages + ring.stage;
      unsigned char* bytes = smem.raw + buffer * RAW_BYTES;
      wait(smem.raw_full + buffer, ring.parity);
      const Rows rows = rows_of_block(segment.n, segment.p + block, 0);
      const Raw raw = {bytes, rows.offset()};
      clear_outside(bytes, raw, rows, lane);
      wait(smem.block_empty + place, (round & 1) ^ 1);
      stage_block(raw, smem.ring + place * (ROW_SLOTS * 16), place < MIRRORED_BLOCKS ? kRingBlocks * ROW_SLOTS * 16 : 0, lane);
      ptx::fence_proxy_async_shared_cta();  // wgmma reads the block, a bulk copy overwrites the buffer
      __syncwarp();
      if (lane == 0) {
        ptx::mbarrier_arrive(smem.block_full + place);
        ptx::mbarrier_arrive(smem.raw_empty + buffer);
      }
      ring.advance();
    }
    first_block += segment.blocks();
  }
}
