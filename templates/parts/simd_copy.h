// Windows that an item copies into its thread's memory.

// Numbers of a window that are zero, or 128 too large.
IM2WINGEN_INLINE void fill_zeros(void* parts, int64_t count) {
  std::memset(parts, kBiased ? 0x80 : 0, count * sizeof(Part));
}
IM2WINGEN_INLINE void copy_parts(const Element* from, int64_t count, Part* to) {
  if constexpr (std::is_same_v<Part, Element> && !kBiased)
    std::memcpy(to, from, count * sizeof(Part));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = part_of<true>(from[i]);
}
// The word of one pixel that begins with channel c; `channel` is the step to the next one in x.
using Bits = std::conditional_t<sizeof(Part) == 1, uint8_t, uint16_t>;  // of a part of several
template <int64_t channel>
IM2WINGEN_INLINE Word word_of(const Element* from, int c, int channels) {
  const auto part = [&](int i) { return part_of<true>(c + i < channels ? from[(c + i) * channel] : Element(0)); };
  if constexpr (WORD_C == 1) return Word(part(0));
  uint32_t word = 0;
  IM2WINGEN_UNROLL
  for (int i = 0; i < WORD_C; ++i) word |= uint32_t(Bits(part(i))) << (8 * sizeof(Part) * i);
  return Word(word);
}
// Words of a row of pixels: BLOCK_C of them for each, channels that aren't there zero. Steps in elements of x.
template <int64_t column, int64_t channel>
IM2WINGEN_INLINE void copy_words(const Element* from, int channels, Word* to) {
  constexpr int kPixel = BLOCK_C * WORD_C;
  if constexpr (CHUNKS == 1) channels = GROUP_C;  // which the compiler knows
  Part* const parts = reinterpret_cast<Part*>(to);
  if constexpr (channel == 1 && column == kPixel && GROUPS == 1 && CHUNKS == 1) {
    copy_parts(from, int64_t(W) * kPixel, parts);
  } else if constexpr (channel == 1 && BLOCK_C > 4) {
    for (int w = 0; w < W; ++w) {
      Part* const pixel = parts + int64_t(w) * kPixel;
      copy_parts(from + w * column, channels, pixel);
      fill_zeros(pixel + channels, kPixel - channels);
    }
  } else {
    for (int i = 0; i < BLOCK_C; ++i) {
      if ((i + 1) * WORD_C <= channels)
        for (int w = 0; w < W; ++w)
          to[int64_t(w) * BLOCK_C + i] = word_of<channel>(from + w * column, i * WORD_C, (i + 1) * WORD_C);
      else
        for (int w = 0; w < W; ++w)
          to[int64_t(w) * BLOCK_C + i] = word_of<channel>(from + w * column, i * WORD_C, channels);
    }
  }
}
// Rows [h_begin, h_end) of an image and of its pads.
IM2WINGEN_INLINE void copy_padded(const Element* from, int c, int channels, int h_begin, int h_end, Word* to) {
  constexpr int64_t kColumn = kInputChannelsLast ? C : 1, kChannel = kInputChannelsLast ? 1 : int64_t(H) * W;
  constexpr int64_t kPixel = X_COLUMN * WORD_C;  // parts
  for (int h = h_begin; h < h_end; ++h, to += X_ROW) {
    if (h < 0 || h >= H) {
      fill_zeros(to, PADDED_W * kPixel);
      continue;
    }
    fill_zeros(to, PAD_LEFT * kPixel);
    copy_words<kColumn, kChannel>(from + h * W * kColumn + c * kChannel, channels, to + PAD_LEFT * X_COLUMN);
    fill_zeros(to + (PAD_LEFT + W) * X_COLUMN, (PADDED_W - W - PAD_LEFT) * kPixel);
  }
}

// The item's input rows of a chunk of channels: of elements those that the image has, of words all.
IM2WINGEN_INLINE void copy_window(const Item& item, const Element* x, int c, int channels, Word* window) {
  const int first_tile = kRowBlocks.begin(item.row_block);
  const int first = kCutP.begin(first_tile);
  const int end = kCutP.begin(first_tile + kRowBlocks.size(item.row_block));
  const int h_begin = first * STRIDE_H - PAD_TOP, h_end = (end - 1) * STRIDE_H - PAD_TOP + (R - 1) * DILATION_H + 1;
  constexpr int64_t kImage = int64_t(H) * W * C * IMAGES;  // of x
  for (int image = 0; image < (kLooseImages ? 1 : kCutN.size(item.image_tile)); ++image) {
    const Element* const from =
        kLooseImages ? x + first_image(item.image_tile) : x + (kCutN.begin(item.image_tile) + image) * kImage;
    Word* const to = window + image * X_IMAGE;
    if constexpr (kPadded) {
      copy_padded(from, c, channels, h_begin, h_end, to);
      continue;
    }
    for (int h = h_begin < 0 ? 0 : h_begin; h < (h_end < H ? h_end : H); ++h) {
      Word* const row = to + (h - h_begin) * X_ROW;
      if constexpr (kInputChannelsLast) {
        for (int w = 0; w < W; ++w)
          std::memcpy(row + w * X_COLUMN, from + (int64_t(h) * W + w) * C + c, channels * sizeof(Element));
      } else {
        for (int i = 0; i < channels; ++i) {
          const Element* const plane_row = from + (int64_t(c + i) * H + h) * W * IMAGES;
          if constexpr (COPIED_IMAGES == IMAGES)
            std::memcpy(row + i * X_CHANNEL, plane_row, W * X_COLUMN * sizeof(Element));
          else
            for (int w = 0; w < W; ++w)
              std::memcpy(row + i * X_CHANNEL + w * X_COLUMN, plane_row + int64_t(w) * IMAGES,
                          kCutN.size(item.image_tile) * LANES * sizeof(Element));
        }
      }
    }
  }
}
