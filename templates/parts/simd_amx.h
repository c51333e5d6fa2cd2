// AMX: a step multiplies 16 words of up to 16 neighbouring pixels by those words of a vector of output channels.
//
//   x       (pixels, TILE_WORDS)        rows of a tile lie SOURCE_Q words apart in x or in a copied window
//   filter  (TILE_WORDS, LANES)         as it is packed, tiles of a step's vectors side by side
//   sums    (pixels, LANES)             one for each row of pixels of the micro-kernel and each vector
//
// The eight tile registers hold the sums, the operand of which there is less, and one or more tiles of the other:
//
//   sums KEPT * STREAMED    kept  KEPT    streamed  the rest, by turns
//
// All tiles of the kernel have one shape, which a thread configures once: the last columns of a row are computed twice
// where Q is no multiple of TILE_Q's largest part.
constexpr int kTileRegisters = 8;
constexpr int largest_divisor(int number, int most) {
  while (number % most != 0) --most;
  return most;
}
constexpr bool kLongerRuns = kOneRun && largest_divisor(S * BLOCK_C, 16) > 3 * largest_divisor(BLOCK_C, 16) / 2;
constexpr int RUN_WORDS = kLongerRuns ? S * BLOCK_C : BLOCK_C;  // that follow each other in x and in the packed filter
constexpr int TILE_WORDS = largest_divisor(RUN_WORDS, 16);
constexpr int PIXEL_ROWS = kCutN.largest() * kCutP.largest(), VECTORS = kVectorCut.largest();
constexpr bool kRowsKept = PIXEL_ROWS <= VECTORS;
constexpr int KEPT = kRowsKept ? PIXEL_ROWS : VECTORS, STREAMED_AT = PIXEL_ROWS * VECTORS + KEPT;
static_assert(kProduct != Product::AMX || (kIsa == Isa::AVX512 && LANES == 16 && !kTapsInner && kWholeChunks),
              "AMX multiplies sixteen channels of outputs and steps over channels");
static_assert(kProduct != Product::AMX || (STREAMED_AT < kTileRegisters && kCutQ.largest() <= 16),
              "tiles of sums and operands must fit eight registers of sixteen rows");

#if defined(__x86_64__)
struct TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
constexpr TileShapes tile_shapes() {
  TileShapes shapes;
  for (int t = 0; t < kTileRegisters; ++t) {
    const bool sums = t < PIXEL_ROWS * VECTORS, pixels = !sums && (t < STREAMED_AT) == kRowsKept;
    shapes.rows[t] = sums || pixels ? kCutQ.largest() : TILE_WORDS;
    shapes.row_bytes[t] = (pixels ? TILE_WORDS : LANES) * sizeof(Word);
  }
  return shapes;
}
constexpr TileShapes kTileShapes = tile_shapes();
IM2WINGEN_INLINE void ldtilecfg(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
IM2WINGEN_INLINE void tilerelease() { asm volatile("tilerelease"); }
template <int tile>
IM2WINGEN_INLINE void tilezero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int tile>
IM2WINGEN_INLINE void tileloadd(const void* from, int64_t row_bytes) {
  asm volatile("tileloadd (%1,%2), %%tmm%c0" ::"i"(tile), "r"(from), "r"(row_bytes) : "memory");
}
template <int tile>
IM2WINGEN_INLINE void tilestored(void* to, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c0, (%1,%2)" ::"i"(tile), "r"(to), "r"(row_bytes) : "memory");
}
template <int sums, int pixels, int filter>
IM2WINGEN_INLINE void tdp() {
  if constexpr (kInt8)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(pixels), "i"(filter));
  else
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(pixels), "i"(filter));
}
// A process asks the kernel once for the registers. Statics of functions that other objects could share would keep an
// unloaded object in the process.
static void permit_tiles() {
  constexpr long kArchPrctl = 158, kRequest = 0x1023, kTileData = 18;
  static const long refused = syscall(kArchPrctl, kRequest, kTileData);
  if (refused) std::abort();
}
// A thread's registers during a call.
struct TileRegisters {
  TileRegisters() {
    if constexpr (kProduct == Product::AMX) ldtilecfg(kTileShapes);
  }
  ~TileRegisters() {
    if constexpr (kProduct == Product::AMX) tilerelease();
  }
  TileRegisters(const TileRegisters&) = delete;
};

template <class T, class F>
IM2WINGEN_INLINE void for_each_sum(F f) {
  for_each_of(std::make_integer_sequence<int, T::n * T::p>{}, [&](auto row) {
    for_each_of(std::make_integer_sequence<int, T::vectors>{}, [&](auto v) {
      f(std::integral_constant<int, row * VECTORS + v>{}, row * T::q * T::vectors + v);
    });
  });
}
template <class T>
IM2WINGEN_INLINE void multiply_step(const Word* x, const Word* w) {
  constexpr int kRows = T::n * T::p, kStreams = kTileRegisters - STREAMED_AT;
  constexpr int kOuter = kRowsKept ? T::vectors : kRows, kInner = kRowsKept ? kRows : T::vectors;
  if constexpr (PREFETCH > 0) {
    IM2WINGEN_UNROLL
    for (int at = 0; at < T::vectors * TILE_WORDS; ++at)
      __builtin_prefetch(w + (PREFETCH * T::vectors + at) * int64_t(LANES));
  }
  const auto load_row = [&](auto tile, auto row) {
    tileloadd<tile>(x + T::source(row * T::q), SOURCE_Q * sizeof(Word));
  };
  const auto load_filter = [&](auto tile, auto v) {
    tileloadd<tile>(w + v * LANES, filter_c(T::vectors) * sizeof(Word));
  };
  const auto load = [&](auto of_rows, auto tile, auto index) {
    if constexpr (of_rows)
      load_row(tile, index);
    else
      load_filter(tile, index);
  };
  for_each_of(std::make_integer_sequence<int, kOuter>{}, [&](auto outer) {
    using Outer = decltype(outer);
    const std::integral_constant<int, STREAMED_AT + Outer::value % kStreams> streamed;
    load(std::bool_constant<!kRowsKept>{}, streamed, outer);
    for_each_of(std::make_integer_sequence<int, kInner>{}, [&](auto inner) {
      constexpr int kStreamed = STREAMED_AT + Outer::value % kStreams, kKept = PIXEL_ROWS * VECTORS + inner;
      if constexpr (Outer::value == 0) load(std::bool_constant<kRowsKept>{}, std::integral_constant<int, kKept>{}, inner);
      if constexpr (kRowsKept)
        tdp<inner * VECTORS + Outer::value, kKept, kStreamed>();
      else
        tdp<Outer::value * VECTORS + inner, kStreamed, kKept>();
    });
  });
}
// A tile's chunk; sums are (pixel, vector) in memory, before a first chunk zero.
template <class T>
IM2WINGEN_INLINE void multiply_tiles(const Vector* before, Vector* after, const Word* x, const Word* w) {
  for_each_sum<T>([&](auto tile, int at) {
    if (before == nullptr)
      tilezero<tile>();
    else
      tileloadd<tile>(before + at, T::vectors * sizeof(Vector));
  });
  for (int r = 0; r < R; ++r)
    for (int s = 0; s < (kLongerRuns ? 1 : S); ++s) {
      const Word* const x_tap = x + r * SOURCE_R + s * SOURCE_S;
      const Word* const w_tap = w + r * filter_r(T::vectors) + s * filter_s(T::vectors);
      for (int c = 0; c < RUN_WORDS; c += TILE_WORDS) multiply_step<T>(x_tap + c, w_tap + c * filter_c(T::vectors));
    }
  for_each_sum<T>([&](auto tile, int at) { tilestored<tile>(after + at, T::vectors * sizeof(Vector)); });
}
#else
struct TileRegisters {};
static void permit_tiles() {}
template <class T>
IM2WINGEN_INLINE void multiply_tiles(const Vector*, Vector*, const Word*, const Word*) {}
#endif
