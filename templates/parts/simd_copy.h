// Windows that an item copies into its thread's memory.

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
  if constexpr (channel == 1 && column == kPixel) {
    for (int64_t i = 0; i < int64_t(W) * kPixel; ++i) parts[i] = part_of<true>(from[i]);
  } else if constexpr (channel == 1 && BLOCK_C > 4) {
    for (int w = 0; w < W; ++w) {
      Part* const pixel = parts + int64_t(w) * kPixel;
      for (int c = 0; c < channels; ++c) pixel[c] = part_of<true>(from[w * column + c]);
      for (int c = channels; c < kPixel; ++c) pixel[c] = part_of<true>(0);
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
IM2WINGEN_INLINE void copy_pads(Word* to, int pixels) {
  for (int64_t i = 0; i < int64_t(pixels) * BLOCK_C * WORD_C; ++i) reinterpret_cast<Part*>(to)[i] = part_of<true>(0);
}
// Rows [h_begin, h_end) of an image and of its pads.
IM2WINGEN_INLINE void copy_padded(const Element* from, int c, int channels, int h_begin, int h_end, Word* to) {
  constexpr int64_t kColumn = kInputChannelsLast ? C : 1, kChannel = kInputChannelsLast ? 1 : int64_t(H) * W;
  for (int h = h_begin; h < h_end; ++h, to += X_ROW) {
    if (h < 0 || h >= H) {
      copy_pads(to, PADDED_W);
      continue;
    }
    copy_pads(to, PAD_LEFT);
    copy_words<kColumn, kChannel>(from + h * W * kColumn + c * kChannel, channels, to + PAD_LEFT * X_COLUMN);
    copy_pads(to + (PAD_LEFT + W) * X_COLUMN, PADDED_W - W - PAD_LEFT);
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
