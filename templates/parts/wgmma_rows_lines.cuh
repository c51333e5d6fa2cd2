// ---- raw rows as lines, and what a slot takes of them ----
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

// Slots FIRST_INNER ... LAST_INNER - 1 lie within the image's columns. Split ones only begin there: they are staged like
// others, with zeros beyond.
__device__ constexpr int inner_slots_end(int end_column) {  // of slots that end at or before the column of the padded image
  const int end = end_column < SLOT_COLUMNS ? 0 : (end_column - SLOT_COLUMNS) / STRIDE_W + 1;
  return end < ROW_SLOTS ? end : ROW_SLOTS;
}
constexpr int FIRST_INNER = ceil_div(PAD_LEFT, STRIDE_W) < ROW_SLOTS ? ceil_div(PAD_LEFT, STRIDE_W) : ROW_SLOTS;
constexpr int INNER_END = kSplit ? ROW_SLOTS : inner_slots_end(PAD_LEFT + W);
constexpr int LAST_INNER = INNER_END > FIRST_INNER ? INNER_END : FIRST_INNER;
constexpr int BORDER_SLOTS = ROW_SLOTS - (LAST_INNER - FIRST_INNER);
// Elements of a line, from the slot's first one on, that lie in the image; and those that do so for every inner slot.
__device__ constexpr int elements_left(int slot) { return (PAD_LEFT + W - slot * STRIDE_W) * PIXEL_ELEMENTS; }
constexpr int LEAST_LEFT = kSplit ? elements_left(ROW_SLOTS - 1) : RUN;

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

// A chunk to its place, and again `mirror` bytes further if that is not 0.
__device__ __forceinline__ void write_chunk(const Words& chunk, unsigned char* place, int mirror) {
  *reinterpret_cast<Words*>(place) = chunk;
  if (mirror != 0) *reinterpret_cast<Words*>(place + mirror) = chunk;
}

// Planes are written in groups of a few: a loop over the slots for each group.
constexpr int PLANE_GROUPS = ceil_div(PLANES, 4), GROUP_PLANES = ceil_div(PLANES, PLANE_GROUPS);
