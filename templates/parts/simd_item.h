// What a thread keeps between chunks (partial sums of its item's tiles) and, where windows are copied, its rows of x.
constexpr int TILE_VECTORS = kCutN.largest() * UNIT_VECTORS * kCutP.largest() * kCutQ.largest() * kVectorCut.largest();
constexpr int ITEM_PIXEL_TILES = kRowBlocks.largest() * kCutQ.parts;
constexpr int64_t PARTIAL_VECTORS =
    CHUNKS > 1 ? int64_t(kFilterBlocks.largest()) * ITEM_PIXEL_TILES * TILE_VECTORS : 0;
constexpr int64_t COPIED_SIZE = !kCopied ? 0 : kLooseImages ? COPIED_ROWS * X_ROW : kCutN.largest() * X_IMAGE;
constexpr int64_t STAGED_SIZE = kStaged ? kCutN.largest() * OUTPUT_IMAGE : 0;
constexpr int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t kWindowAt = whole_lines(PARTIAL_VECTORS * sizeof(Vector));
constexpr int64_t kOutputsAt = kWindowAt + whole_lines(COPIED_SIZE * sizeof(Element));
constexpr int64_t THREAD_BYTES = kOutputsAt + whole_lines(STAGED_SIZE * sizeof(Element));
// From the heap for the time of a call, so that threads keep it for their next kernel, whichever that is.
class ThreadMemory {
 public:
  ThreadMemory() {
    if constexpr (THREAD_BYTES > 0)
      if ((memory_ = static_cast<char*>(std::aligned_alloc(64, THREAD_BYTES))) == nullptr) std::abort();
  }
  ~ThreadMemory() { std::free(memory_); }
  ThreadMemory(const ThreadMemory&) = delete;
  Vector* partial() const { return reinterpret_cast<Vector*>(memory_); }               // (tile of k, tile of pixels)
  Element* window() const { return reinterpret_cast<Element*>(memory_ + kWindowAt); }  // (image, row, then as in x)
  Element* outputs() const { return reinterpret_cast<Element*>(memory_ + kOutputsAt); }  // (image, k, pixel)

 private:
  char* memory_ = nullptr;
};

struct Item {
  int image_tile, row_block, group, filter_block;
};
IM2WINGEN_INLINE Item item_at(int64_t index) {
  constexpr int kFilters = GROUPS * kFilterBlocks.parts, kRows = kRowBlocks.parts, kImages = kCutN.parts;
  int filters, places;
  if constexpr (kImagesInner) {
    filters = int(index / (int64_t(kImages) * kRows)), places = int(index % (int64_t(kImages) * kRows));
    if (kTileOrderZigzag && filters % 2 == 1) places = kImages * kRows - 1 - places;
  } else {
    places = int(index / kFilters), filters = int(index % kFilters);
    if (kTileOrderZigzag && places % 2 == 1) filters = kFilters - 1 - filters;
  }
  return {places / kRows, places % kRows, filters / kFilterBlocks.parts, filters % kFilterBlocks.parts};
}

// The item's input rows of a chunk of channels, those of them that the image has.
IM2WINGEN_INLINE void copy_window(const Item& item, const Element* x, int c, int channels, Element* window) {
  const int first_tile = kRowBlocks.begin(item.row_block);
  const int first = kCutP.begin(first_tile);
  const int end = kCutP.begin(first_tile + kRowBlocks.size(item.row_block));
  const int h_begin = first * STRIDE_H - PAD_TOP, h_end = (end - 1) * STRIDE_H - PAD_TOP + (R - 1) * DILATION_H + 1;
  constexpr int64_t kImage = int64_t(H) * W * C * IMAGES;  // of x
  for (int image = 0; image < (kLooseImages ? 1 : kCutN.size(item.image_tile)); ++image) {
    const Element* const from =
        kLooseImages ? x + first_image(item.image_tile) : x + (kCutN.begin(item.image_tile) + image) * kImage;
    Element* const to = window + image * X_IMAGE;
    for (int h = h_begin < 0 ? 0 : h_begin; h < (h_end < H ? h_end : H); ++h) {
      Element* const row = to + (h - h_begin) * X_ROW;
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

// A tile's first image, `unit` from one unit of images to the next.
constexpr int64_t images_at(int tile, int64_t unit) {
  return kLooseImages ? first_image(tile) : kCutN.begin(tile) * unit;
}

// One tile and chunk. `x` is the chunk's first channel of the tile's first window, `y` and `bias` the first outputs.
template <class T>
__attribute__((noinline)) void compute_tile(const Element* x, const Element* w, int chunk, int p, int q,
                                            int lanes_of_last, bool shared, Vector* partial, const Element* bias,
                                            Element* y) {
  const int channels = kWholeChunks || chunk < CHUNKS - 1 ? BLOCK_C : GROUP_C - (CHUNKS - 1) * BLOCK_C;
  Acc<T> acc;
  IM2WINGEN_UNROLL
  for (int i = 0; i < T::pixels; ++i) {
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v)
      acc[i][v] = CHUNKS > 1 && chunk > 0 ? partial[i * T::vectors + v] : Vector{};
  }
  if constexpr (!kHasPadding) {
    multiply_inside<T>(acc, x, w, channels, 0, R);
  } else {
    const bool inside_columns =
        kPixelsInLanes || (q >= kInsideColumns.first && q + T::q <= kInsideColumns.end);
    const bool inside_rows = p >= kInsideRows.first && p + T::p <= kInsideRows.end;
    if (inside_columns && (T::p == 1 || inside_rows)) {
      int r_begin = 0, r_end = R;
      if (!inside_rows) {
        while (r_begin < R && row_reach(r_begin).first > p) ++r_begin;
        while (r_end > r_begin && row_reach(r_end - 1).end <= p) --r_end;
      }
      multiply_inside<T>(acc, x, w, channels, r_begin, r_end);
    } else {
      multiply_border<T>(acc, x, w, channels, p, q);
    }
  }
  if (CHUNKS > 1 && chunk < CHUNKS - 1) {
    IM2WINGEN_UNROLL
    for (int i = 0; i < T::pixels; ++i) {
      IM2WINGEN_UNROLL
      for (int v = 0; v < T::vectors; ++v) partial[i * T::vectors + v] = acc[i][v];
    }
    return;
  }
  finish<T>(acc, bias, lanes_of_last);
  const bool aligned = reinterpret_cast<uintptr_t>(y) % sizeof(Vector) == 0;
  if constexpr (!kChannelsInLanes)
    store_vectors<T>(acc, y, shared, aligned);
  else if constexpr (kOutputChannelsLast)
    store_channels_last<T>(acc, y, lanes_of_last, aligned);
  else
    store_planes<T>(acc, y, lanes_of_last);
}

// Tile `k` of the item's group, tile `row` of its rows, tile `column`.
IM2WINGEN_INLINE void tile_of_item(const Item& item, int chunk, int k, int row, int column, const Element* source,
                                   const Element* packed, const Element* bias, Element* y,
                                   const ThreadMemory& memory) {
  const int first_row_tile = kRowBlocks.begin(item.row_block);
  const int p = kCutP.begin(row), q = first_column(column);
  const int vector = kVectorCut.begin(k), c = item.group * GROUP_C + chunk * BLOCK_C;
  const Element* const x = kCopied ? memory.window() + SOURCE_ORIGIN + PAD_TOP * X_ROW +
                                       (p - kCutP.begin(first_row_tile)) * SOURCE_P + q * SOURCE_Q
                                 : source + SOURCE_ORIGIN + images_at(item.image_tile, SOURCE_N) + p * SOURCE_P +
                                       q * SOURCE_Q + c * SOURCE_C;
  const Element* const w = packed + item.group * GROUP_SIZE + vector * VECTOR_SIZE +
                         chunk * CHUNK_SIZE * kVectorCut.size(k);
  const int slot = ((k - kFilterBlocks.begin(item.filter_block)) * ITEM_PIXEL_TILES) +
                   (row - first_row_tile) * kCutQ.parts + column;
  Vector* const partial = memory.partial() + (CHUNKS > 1 ? int64_t(slot) * TILE_VECTORS : 0);
  const int64_t channel = item.group * GROUP_K + vector * FILTER_LANES, pixel = int64_t(p) * Q + q;
  Element* const out = kStaged ? memory.outputs() + q
                             : y + images_at(item.image_tile, OUTPUT_IMAGE) + channel * OUTPUT_CHANNEL +
                                   pixel * OUTPUT_PIXEL;
  const int lanes = LAST_LANES > 0 && k == kVectorCut.parts - 1 ? LAST_LANES : FILTER_LANES;
  const bool shared = OVERLAP > 0 && item.image_tile == kCutN.parts - 1;
  with_size<kCutN.least, kCutN.longer>(kCutN.size(item.image_tile), [&](auto tile_n) {
    with_size<kCutP.least, kCutP.longer>(kCutP.size(row), [&](auto tile_p) {
      with_size<kCutQ.least, kCutQ.longer>(kCutQ.size(column), [&](auto tile_q) {
        with_size<kVectorCut.least, kVectorCut.longer>(kVectorCut.size(k), [&](auto vectors) {
          using T = Tile<tile_n, tile_p, tile_q, vectors>;
          compute_tile<T>(x, w, chunk, p, q, lanes, shared, partial, bias + channel, out);
        });
      });
    });
  });
}

// The staged rows of a tile of output channels, complete, to y.
IM2WINGEN_INLINE void store_staged(const Item& item, int k, int row, const Element* outputs, Element* y) {
  const int first = kVectorCut.begin(k) * FILTER_LANES, left = GROUP_K - first;
  const int planes = left < kVectorCut.size(k) * FILTER_LANES ? left : kVectorCut.size(k) * FILTER_LANES;
  for (int image = 0; image < kCutN.size(item.image_tile); ++image) {
    const int64_t plane = (kCutN.begin(item.image_tile) + image) * int64_t(K) + item.group * GROUP_K + first;
    for (int i = 0; i < planes; ++i)
      store_run(y + (plane + i) * P * Q + int64_t(kCutP.begin(row)) * Q,
                outputs + image * OUTPUT_IMAGE + i * OUTPUT_CHANNEL, kCutP.size(row) * Q);
  }
}

inline void compute_item(int64_t index, const Element* source, const Element* packed, const Element* bias, Element* y,
                         const ThreadMemory& memory) {
  const Item item = item_at(index);
  const int k_begin = kFilterBlocks.begin(item.filter_block), k_end = k_begin + kFilterBlocks.size(item.filter_block);
  const int row_begin = kRowBlocks.begin(item.row_block), row_end = row_begin + kRowBlocks.size(item.row_block);
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if constexpr (kCopied) {
      const int c = chunk * BLOCK_C;
      copy_window(item, source, item.group * GROUP_C + c, GROUP_C - c < BLOCK_C ? GROUP_C - c : BLOCK_C,
                  memory.window());
    }
    if constexpr (kPixelsInner) {
      for (int k = k_begin; k < k_end; ++k)
        for (int row = row_begin; row < row_end; ++row) {
          for (int column = 0; column < kCutQ.parts; ++column)
            tile_of_item(item, chunk, k, row, column, source, packed, bias, y, memory);
          if (kStaged && chunk == CHUNKS - 1) store_staged(item, k, row, memory.outputs(), y);
        }
    } else {
      for (int row = row_begin; row < row_end; ++row)
        for (int column = 0; column < kCutQ.parts; ++column)
          for (int k = k_begin; k < k_end; ++k)
            tile_of_item(item, chunk, k, row, column, source, packed, bias, y, memory);
    }
  }
  if constexpr (kStorePastCaches) fence_stores();
}
