// Outputs whose windows meet the pads, for output channels with an Inf or a NaN in their filter: anew, without the taps
// outside the image. Zeros of the pads times those are NaN.
constexpr bool kRepairs = kBf16 && kPadded && kHasPadding;

IM2WINGEN_INLINE Sum number_of(Element bits) {
  const uint32_t word = uint32_t(bits) << 16;
  float number;
  std::memcpy(&number, &word, sizeof number);
  return Sum(number);
}
// w[k][c][r][s] of a tile of the packed filter, k counted from its first.
IM2WINGEN_INLINE Sum packed_number(const Word* tile, int vectors, int k, int c, int r, int s) {
  const int word = c / WORD_C, chunk = word / BLOCK_C;
  const Word* const found = tile + vectors * (HEADER_SIZE + chunk * CHUNK_SIZE) + r * filter_r(vectors) +
                            s * filter_s(vectors) + word % BLOCK_C * filter_c(vectors) + k;
  const Part part = reinterpret_cast<const Part*>(found)[c % WORD_C];
  if constexpr (kProduct == Product::FMA)
    return part;
  else
    return number_of(part);
}
__attribute__((noinline)) inline void repair_channel(const Item& item, const Element* x, const Word* tile, int vectors,
                                                     int k, int channel, const Output* bias, Output* y) {
  const int first = kRowBlocks.begin(item.row_block), end = first + kRowBlocks.size(item.row_block);
  for (int n = kCutN.begin(item.image_tile); n < kCutN.begin(item.image_tile) + kCutN.size(item.image_tile); ++n)
    for (int p = kCutP.begin(first); p < kCutP.begin(end); ++p)
      for (int q = 0; q < Q; ++q) {
        const bool inside = p >= kInsideRows.first && p < kInsideRows.end && q >= kInsideColumns.first &&
                            q < kInsideColumns.end;
        if (inside) continue;
        Sum sum = 0;
        for (int r = 0; r < R; ++r)
          for (int s = 0; s < S; ++s) {
            const int h = p * STRIDE_H - PAD_TOP + r * DILATION_H, w = q * STRIDE_W - PAD_LEFT + s * DILATION_W;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            for (int c = 0; c < GROUP_C; ++c) {
              const int x_c = item.group * GROUP_C + c;
              const int64_t at = kInputChannelsLast ? ((int64_t(n) * H + h) * W + w) * C + x_c
                                                    : ((int64_t(n) * C + x_c) * H + h) * W + w;
              sum += number_of(x[at]) * packed_number(tile, vectors, k, c, r, s);
            }
          }
        if constexpr (kHasBias) sum += number_of(bias[channel]);
        if constexpr (kHasRelu) sum = sum < 0 ? 0 : sum;
        const int64_t to = kOutputChannelsLast ? ((int64_t(n) * P + p) * Q + q) * K + channel
                                               : ((int64_t(n) * K + channel) * P + p) * Q + q;
        y[to] = outputs_of(Vector{} + sum)[0];
      }
}
IM2WINGEN_INLINE void repair(const Item& item, const Element* x, const Word* packed, const Output* bias, Output* y) {
  const int begin = kFilterBlocks.begin(item.filter_block), end = begin + kFilterBlocks.size(item.filter_block);
  for (int tile = begin; tile < end; ++tile) {
    const int first = kVectorCut.begin(tile) * LANES, vectors = kVectorCut.size(tile);
    const Word* const filter = packed + item.group * GROUP_SIZE + kVectorCut.begin(tile) * VECTOR_SIZE;
    for (int k = 0; k < vectors * LANES && first + k < GROUP_K; ++k)
      if (filter[k] != 0)
        repair_channel(item, x, filter, vectors, k, item.group * GROUP_K + first + k, bias, y);
  }
}
