// A tile of the micro-kernel: units of images, rows, columns of outputs, vectors of output channels. What is called a
// pixel of it is, where vectors hold images or pixels, one of a vector of them.
template <int n_, int p_, int q_, int vectors_>
struct Tile {
  static constexpr int n = n_, p = p_, q = q_, vectors = vectors_, pixels = n * UNIT_VECTORS * p * q;
  static constexpr int64_t source(int pixel) {
    return vector_of_images(pixel / (p * q), SOURCE_N) + pixel / q % p * SOURCE_P +
           column_in_tile(pixel % q) * SOURCE_Q;
  }
  static constexpr int64_t output(int pixel) {
    return vector_of_images(pixel / (p * q), OUTPUT_IMAGE) +
           (pixel / q % p * Q + column_in_tile(pixel % q)) * OUTPUT_PIXEL;
  }
};
template <class T>
using Acc = Vector[T::pixels][T::vectors];

// Of both operands of a step one has vectors, the other single words, which go to all lanes.
using Filter = std::conditional_t<kChannelsInLanes, Words, Word>;
using Pixel = std::conditional_t<kChannelsInLanes, Word, Words>;
template <class V>
IM2WINGEN_INLINE V load_as(const Word* from) {
  if constexpr (std::is_same_v<V, Word>)
    return *reinterpret_cast<const LooseWord*>(from);
  else
    return load(from);
}
template <class T>
IM2WINGEN_INLINE void prefetch_filter(const Word* w) {
  constexpr int kStep = T::vectors * FILTER_LANES, kLine = 64 / int(sizeof(Word));
  if constexpr (PREFETCH > 0) {
    IM2WINGEN_UNROLL
    for (int at = 0; at < kStep; at += kLine) __builtin_prefetch(w + PREFETCH * kStep + at);
  }
}
// Of a tile's pixels those in columns [first, end) of rows [first_row, end_row).
template <class T, int first, int end, int first_row, int end_row>
constexpr bool has_pixel(int i) {
  return i % T::q >= first && i % T::q < end && i / T::q % T::p >= first_row && i / T::q % T::p < end_row;
}
// One step, for a part of the tile. The operand with fewer loads stays in registers.
template <class T, int first = 0, int end = T::q, int first_row = 0, int end_row = T::p>
IM2WINGEN_INLINE void step(Acc<T>& acc, const Word* x, const Word* w) {
  constexpr auto has = has_pixel<T, first, end, first_row, end_row>;
  prefetch_filter<T>(w);
  if constexpr (!kChannelsInLanes) {
    Words pixels[T::pixels];
    IM2WINGEN_UNROLL
    for (int i = 0; i < T::pixels; ++i)
      if (has(i)) pixels[i] = load(x + T::source(i));
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) {
      IM2WINGEN_UNROLL
      for (int i = 0; i < T::pixels; ++i)
        if (has(i)) acc[i][v] = multiply_add(acc[i][v], pixels[i], w[v]);
    }
  } else {
    Words filter[T::vectors];
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) filter[v] = load(w + v * LANES);
    IM2WINGEN_UNROLL
    for (int i = 0; i < T::pixels; ++i) {
      if (!has(i)) continue;
      IM2WINGEN_UNROLL
      for (int v = 0; v < T::vectors; ++v)
        acc[i][v] = multiply_add(acc[i][v], load_as<Word>(x + T::source(i)), filter[v]);
    }
  }
}
// A pointer whose origin the compiler can't see: else it spends registers on words of x that a later step reads.
IM2WINGEN_INLINE const Word* hidden(const Word* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}
// A tap's steps, or those of a whole filter row where they lie side by side.
constexpr bool kOneRun = !kTapsInner && kWholeChunks && SOURCE_S == BLOCK_C * SOURCE_C;
constexpr bool kManySteps = (kOneRun ? S * BLOCK_C : BLOCK_C) > 4 * UNROLL;
template <class T, int first = 0, int end = T::q, int first_row = 0, int end_row = T::p>
IM2WINGEN_INLINE void tap(Acc<T>& acc, const Word* x, const Word* w, int channels) {
  if constexpr (kManySteps) asm("" : "+r"(channels));  // else GCC, which knows their number, doesn't unroll a part
#pragma GCC unroll UNROLL
  for (int c = 0; c < channels; ++c)
    step<T, first, end, first_row, end_row>(acc, hidden(x + c * SOURCE_C), w + c * filter_c(T::vectors));
}

// Filter rows [r_begin, r_end) of a tile whose columns all lie inside the image.
template <class T>
IM2WINGEN_INLINE void multiply_inside(Acc<T>& acc, const Word* x, const Word* w, int channels, int r_begin,
                                      int r_end) {
  if constexpr (kTapsInner) {
    for (int c = 0; c < channels; ++c)
      for (int r = r_begin; r < r_end; ++r) {
        const Word* const x_row = x + c * SOURCE_C + r * SOURCE_R;
        const Word* const w_row = w + c * filter_c(T::vectors) + r * filter_r(T::vectors);
#pragma GCC unroll UNROLL
        for (int s = 0; s < S; ++s)
          step<T>(acc, hidden(x_row + s * SOURCE_S), w_row + s * filter_s(T::vectors));
      }
  } else {
    for (int r = r_begin; r < r_end; ++r) {
      const Word* const x_row = x + r * SOURCE_R;
      const Word* const w_row = w + r * filter_r(T::vectors);
      if constexpr (kOneRun) {
        tap<T>(acc, x_row, w_row, S * BLOCK_C);
      } else {
        for (int s = 0; s < S; ++s) tap<T>(acc, x_row + s * SOURCE_S, w_row + s * filter_s(T::vectors), channels);
      }
    }
  }
}

// One tap for the pixels of the tile that it has inside the image: as straight code where few rows or columns are
// missing at one side, or both where at most one can be.
constexpr int kMostMissing = 4;
constexpr int most_missing(Reach inside, int outputs) {
  return inside.first > outputs - inside.end ? inside.first : outputs - inside.end;
}
constexpr int kMissingRows = most_missing(kInsideRows, P), kMissingColumns = most_missing(kInsideColumns, Q);
template <class T, int first_row, int end_row, int missing = 0>
IM2WINGEN_INLINE bool tap_of_columns(Acc<T>& acc, const Word* x, const Word* w, int channels, Reach columns) {
  constexpr bool kAny = (first_row == 0 && end_row == T::p) || (kMissingRows <= 1 && kMissingColumns <= 1);
  if constexpr (missing < T::q && missing <= kMissingColumns && missing <= (kAny ? kMostMissing : 0)) {
    if (columns.first == missing && columns.end == T::q)
      return tap<T, missing, T::q, first_row, end_row>(acc, x, w, channels), true;
    if constexpr (missing > 0)
      if (columns.first == 0 && columns.end == T::q - missing)
        return tap<T, 0, T::q - missing, first_row, end_row>(acc, x, w, channels), true;
    return tap_of_columns<T, first_row, end_row, missing + 1>(acc, x, w, channels, columns);
  }
  return false;
}
template <class T, int missing = 0>
IM2WINGEN_INLINE bool tap_of_rows(Acc<T>& acc, const Word* x, const Word* w, int channels, Reach rows,
                                  Reach columns) {
  if constexpr (missing < T::p && missing <= kMissingRows && missing <= kMostMissing) {
    if (rows.first == missing && rows.end == T::p)
      return tap_of_columns<T, missing, T::p>(acc, x, w, channels, columns);
    if constexpr (missing > 0)
      if (rows.first == 0 && rows.end == T::p - missing)
        return tap_of_columns<T, 0, T::p - missing>(acc, x, w, channels, columns);
    return tap_of_rows<T, missing + 1>(acc, x, w, channels, rows, columns);
  }
  return false;
}
template <class T>
IM2WINGEN_INLINE void tap_of_some(Acc<T>& acc, const Word* x, const Word* w, int channels, Reach rows,
                                  Reach columns) {
  for (int c = 0; c < channels; ++c) {
    Filter filter[T::vectors];
    IM2WINGEN_UNROLL
    for (int v = 0; v < T::vectors; ++v) filter[v] = load_as<Filter>(w + c * filter_c(T::vectors) + v * FILTER_LANES);
    IM2WINGEN_UNROLL
    for (int i = 0; i < T::pixels; ++i) {
      const int row = i / T::q % T::p, column = i % T::q;
      if (row < rows.first || row >= rows.end || column < columns.first || column >= columns.end) continue;
      const Pixel pixel = load_as<Pixel>(x + c * SOURCE_C + T::source(i));
      IM2WINGEN_UNROLL
      for (int v = 0; v < T::vectors; ++v) acc[i][v] = multiply_add(acc[i][v], pixel, filter[v]);
    }
  }
}
// A tile at row p and column q of the output, some of whose taps lie outside the image.
template <class T>
IM2WINGEN_INLINE void multiply_border(Acc<T>& acc, const Word* x, const Word* w, int channels, int p, int q) {
  for (int r = 0; r < R; ++r) {
    const Reach rows{clamp(row_reach(r).first - p, 0, T::p), clamp(row_reach(r).end - p, 0, T::p)};
    if (rows.first >= rows.end) continue;
    for (int s = 0; s < S; ++s) {
      Reach columns{0, T::q};
      if (!kPixelsInLanes)
        columns = {clamp(column_reach(s).first - q, 0, T::q), clamp(column_reach(s).end - q, 0, T::q)};
      if (columns.first >= columns.end) continue;
      const Word* const x_tap = x + r * SOURCE_R + s * SOURCE_S;
      const Word* const w_tap = w + r * filter_r(T::vectors) + s * filter_s(T::vectors);
      if (!tap_of_rows<T>(acc, x_tap, w_tap, channels, rows, columns))
        tap_of_some<T>(acc, x_tap, w_tap, channels, rows, columns);
    }
  }
}
