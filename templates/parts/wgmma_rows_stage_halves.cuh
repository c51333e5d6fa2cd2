// ---- slots of 16-bit elements: pairs of them, shifted and picked out of a line's words ----
// What a group of planes needs of each line: `count` elements from `first` on.
struct Needs {
  int first[LINES], count[LINES];
};
__device__ constexpr Needs needs_of(int first_plane) {
  Needs needs = {};
  for (int i = 0; i < GROUP_PLANES * CHUNK_ELEMENTS; ++i) {
    const int position = first_plane * CHUNK_ELEMENTS + i;
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
      const int position = plane * CHUNK_ELEMENTS + pair * 2;
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
    write_chunk(chunk, to + plane * PLANE_SLOTS * 16, mirror);
  }
}
