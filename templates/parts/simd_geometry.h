// An extent in the fewest parts of at most `most`, as equal as can be: the first `longer` of them have one more.
struct Cut {
  int parts, least, longer;
  constexpr int begin(int part) const { return part * least + (part < longer ? part : longer); }
  constexpr int size(int part) const { return least + (part < longer); }
  constexpr int largest() const { return least + (longer > 0); }
};
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr Cut cut(int extent, int most) {
  const int parts = ceil_div(extent, most);
  return {parts, extent / parts, extent % parts};
}
// f of an integral_constant, for a size that is `least` or, where there are `longer` parts, one more.
template <int least, int longer, class F>
IM2WINGEN_INLINE void with_size(int size, F f) {
  if constexpr (longer > 0) {
    if (size != least) return f(std::integral_constant<int, least + 1>{});
  }
  f(std::integral_constant<int, least>{});
}
template <int... j, class F>
IM2WINGEN_INLINE void for_each_of(std::integer_sequence<int, j...>, F f) {
  (f(std::integral_constant<int, j>{}), ...);
}

constexpr int GROUP_C = C / GROUPS, GROUP_K = K / GROUPS, GROUP_WORDS = ceil_div(GROUP_C, WORD_C);
constexpr Cut kVectorCut = cut(ceil_div(GROUP_K, FILTER_LANES), VECTORS_K);  // of a group's output channels, in vectors
constexpr int LAST_LANES = GROUP_K % FILTER_LANES;  // of a group's last vector; 0: all
constexpr int CHUNKS = ceil_div(GROUP_WORDS, BLOCK_C);
// The last chunk has as many words as the others, on AMX's tiles made up of zeros.
constexpr bool kWholeChunks = GROUP_WORDS % BLOCK_C == 0 || kProduct == Product::AMX;

// Packed filter, in words: from one r, s, c to the next within a tile of `vectors`; a chunk of a vector. Before a
// tile's chunks stands, for bf16 and int8, a word for each output channel: what its sums begin with if windows are
// biased, else whether its filter has an Inf or a NaN.
constexpr int64_t filter_c(int vectors) { return int64_t(vectors) * FILTER_LANES * (kTapsInner ? R * S : 1); }
constexpr int64_t filter_s(int vectors) { return int64_t(vectors) * FILTER_LANES * (kTapsInner ? 1 : BLOCK_C); }
constexpr int64_t filter_r(int vectors) { return S * filter_s(vectors); }
constexpr int64_t HEADER_SIZE = kWords ? FILTER_LANES : 0, CHUNK_SIZE = int64_t(R) * S * BLOCK_C * FILTER_LANES;
constexpr int64_t VECTOR_SIZE = HEADER_SIZE + CHUNKS * CHUNK_SIZE;
constexpr int64_t GROUP_SIZE = ceil_div(GROUP_K, FILTER_LANES) * VECTOR_SIZE;
