// A tile's first image, `unit` from one unit of images to the next.
constexpr int64_t images_at(int tile, int64_t unit) {
  return kLooseImages ? first_image(tile) : kCutN.begin(tile) * unit;
}

// The multiplications of a tile and chunk on vectors; borders are skipped unless the window has them as pads.
template <class T>
IM2WINGEN_INLINE void multiply_vectors(Acc<T>& acc, const Word* x, const Word* w, int channels, int p, int q) {
  if constexpr (!kHasPadding || kPadded) {
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
}
// What a first chunk begins with.
template <class T>
IM2WINGEN_INLINE Vector first_sum(const Word* w, int v) {
  if constexpr (kBiased)
    return (Vector)load(w + (v - T::vectors) * HEADER_SIZE);
  else
    return Vector{};
}

// One tile and chunk. `x` is the chunk's first channel of the tile's first window, `y` and `bias` the first outputs.
template <class T>
__attribute__((noinline)) void compute_tile(const Word* x, const Word* w, int chunk, int p, int q, int lanes_of_last,
                                            bool shared, Vector* partial, const Output* bias, Output* y) {
  const int channels = kWholeChunks || chunk < CHUNKS - 1 ? BLOCK_C : GROUP_WORDS - (CHUNKS - 1) * BLOCK_C;
  const bool last = CHUNKS == 1 || chunk == CHUNKS - 1;
  Acc<T> acc;
  if constexpr (kProduct == Product::AMX) {
    multiply_tiles<T>(CHUNKS > 1 && chunk > 0 ? partial : nullptr, last ? &acc[0][0] : partial, x, w);
    if (!last) return;
  } else {
    IM2WINGEN_UNROLL
    for (int i = 0; i < T::pixels; ++i) {
      IM2WINGEN_UNROLL
      for (int v = 0; v < T::vectors; ++v)
        acc[i][v] = CHUNKS > 1 && chunk > 0 ? partial[i * T::vectors + v] : first_sum<T>(w, v);
    }
    multiply_vectors<T>(acc, x, w, channels, p, q);
    if (!last) {
      IM2WINGEN_UNROLL
      for (int i = 0; i < T::pixels; ++i) {
        IM2WINGEN_UNROLL
        for (int v = 0; v < T::vectors; ++v) partial[i * T::vectors + v] = acc[i][v];
      }
      return;
    }
  }
  finish<T>(acc, bias, lanes_of_last);
  const bool aligned = reinterpret_cast<uintptr_t>(y) % sizeof(Outputs) == 0;
  if constexpr (!kChannelsInLanes)
    store_vectors<T>(acc, y, shared, aligned);
  else if constexpr (kOutputChannelsLast)
    store_channels_last<T>(acc, y, lanes_of_last, aligned);
  else
    store_planes<T>(acc, y, lanes_of_last);
}

// Tile `k` of the item's group, tile `row` of its rows, tile `column`.
IM2WINGEN_INLINE void tile_of_item(const Item& item, int chunk, int k, int row, int column, const Element* source,
                                   const Word* packed, const Output* bias, Output* y, const ThreadMemory& memory) {
  const int first_row_tile = kRowBlocks.begin(item.row_block);
  const int p = kCutP.begin(row), q = first_column(column);
  const int vector = kVectorCut.begin(k), c = item.group * GROUP_WORDS + chunk * BLOCK_C;
  const Word* const x = kCopied ? memory.window() + (kPadded ? 0 : SOURCE_ORIGIN + PAD_TOP * X_ROW) +
                                      (p - kCutP.begin(first_row_tile)) * SOURCE_P + q * SOURCE_Q
                                : reinterpret_cast<const Word*>(source) + SOURCE_ORIGIN +
                                      images_at(item.image_tile, SOURCE_N) + p * SOURCE_P + q * SOURCE_Q + c * SOURCE_C;
  const Word* const w = packed + item.group * GROUP_SIZE + vector * VECTOR_SIZE +
                        (HEADER_SIZE + chunk * CHUNK_SIZE) * kVectorCut.size(k);
  const int slot = ((k - kFilterBlocks.begin(item.filter_block)) * ITEM_PIXEL_TILES) +
                   (row - first_row_tile) * kCutQ.parts + column;
  Vector* const partial = memory.partial() + (CHUNKS > 1 ? int64_t(slot) * TILE_VECTORS : 0);
  const int64_t channel = item.group * GROUP_K + vector * FILTER_LANES, pixel = int64_t(p) * Q + q;
  Output* const out = kStaged ? memory.outputs() + q
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
IM2WINGEN_INLINE void store_staged(const Item& item, int k, int row, const Output* outputs, Output* y) {
  const int first = kVectorCut.begin(k) * FILTER_LANES, left = GROUP_K - first;
  const int planes = left < kVectorCut.size(k) * FILTER_LANES ? left : kVectorCut.size(k) * FILTER_LANES;
  for (int image = 0; image < kCutN.size(item.image_tile); ++image) {
    const int64_t plane = (kCutN.begin(item.image_tile) + image) * int64_t(K) + item.group * GROUP_K + first;
    for (int i = 0; i < planes; ++i) {
      const Output* from = outputs + image * OUTPUT_IMAGE + i * OUTPUT_CHANNEL;
      asm("" : "+r"(from));  // GCC 12 crashes where it makes vectors of several planes' few elements
      store_run(y + (plane + i) * P * Q + int64_t(kCutP.begin(row)) * Q, from, kCutP.size(row) * Q);
    }
  }
}

inline void compute_item(int64_t index, const Element* source, const Word* packed, const Output* bias, Output* y,
                         const ThreadMemory& memory) {
  const Item item = item_at(index);
  const int k_begin = kFilterBlocks.begin(item.filter_block), k_end = k_begin + kFilterBlocks.size(item.filter_block);
  const int row_begin = kRowBlocks.begin(item.row_block), row_end = row_begin + kRowBlocks.size(item.row_block);
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if constexpr (kCopied) {
      const int c = chunk * BLOCK_C * WORD_C, left = GROUP_C - c;
      copy_window(item, source, item.group * GROUP_C + c, left < BLOCK_C * WORD_C ? left : BLOCK_C * WORD_C,
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
  if constexpr (kRepairs) repair(item, source, packed, bias, y);
}
