// ---- a thread stores its pixels' channels as it holds them: in NHWC neighbours at once, in NCHW one by one ----
// Channels that are stored at once: each store is aligned, and is within K or beyond it as a whole.
constexpr int STORE_CHANNELS = K % 8 == 0 && CHANNEL_VECTOR >= 8 ? 8 : K % 4 == 0 && CHANNEL_VECTOR >= 4 ? 4 : K % 2 == 0 ? 2 : 1;

template <int COUNT>
__device__ __forceinline__ void store_channels(Element* y, const uint32_t* words, uint64_t policy) {
  if constexpr (COUNT * sizeof(Element) == 16) {
    const uint32_t unit[4] = {words[0], words[1], words[2], words[3]};
    if constexpr (kBursts)
      ptx::st_global_v4_hint(y, unit, policy);
    else
      ptx::st_global_v4(y, unit);
  } else {
    struct alignas(COUNT * sizeof(Element)) Vector {
      Element e[COUNT];
    };
    Vector vector;
    memcpy(&vector, words, sizeof vector);
    *reinterpret_cast<Vector*>(y) = vector;
  }
}

// The slot of half 0 or 1 of a tile that a lane holds; whether it is a pixel, and which.
struct Pixel {
  bool exists;
  int p, q;
};
__device__ __forceinline__ Pixel pixel_of(const Item& item, int tile, int half) {
  const int slot = item.first_slot + tile * 64 + item.warp * 16 + half * 8 + item.lane / 4;
  const int row = slot / ROW_SLOTS, q = slot % ROW_SLOTS;
  return {q < Q && row < item.segment.rows && (!kRowItems || slot < item.end_slot), item.segment.p + row, q};
}

template <int HALF>
__device__ __forceinline__ void store_pixel(const float (&acc)[WGMMA_N / 2], const Item& item, int tile, Element* y,
                                            Probe& probe, uint64_t policy) {
  constexpr int PAIRS = CHANNEL_VECTOR / 2, PER_WORD = 4 / sizeof(Element);
  const Pixel pixel = pixel_of(item, tile, HALF);
  if (!pixel.exists) return;
  y += output_offset(item.segment.n, pixel.p, pixel.q, item.channel);
#pragma unroll
  for (int group = 0; group < WGMMA_N / CHANNEL_GROUP; ++group) {
    const int first = group * CHANNEL_GROUP + item.lane % 4 * CHANNEL_VECTOR;
    uint32_t words[CHANNEL_VECTOR / PER_WORD];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const float* d = acc + (group * PAIRS + i) * 4 + HALF * 2;
      if constexpr (PER_WORD == 2) {
        words[i] = pack<Element>(d[0], d[1]);
      } else {
        words[2 * i] = __float_as_uint(relu(d[0]));
        words[2 * i + 1] = __float_as_uint(relu(d[1]));
      }
    }
#pragma unroll
    for (int i = 0; i < CHANNEL_VECTOR / PER_WORD; ++i) probe.look_at(words[i]);
#pragma unroll
    for (int i = 0; i < CHANNEL_VECTOR; i += STORE_CHANNELS) {
      if (K % WGMMA_N != 0 && item.channel + first + i >= K) continue;
      if constexpr (STORE_CHANNELS < PER_WORD) {
        const uint32_t one = i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16;
        store_channels<1>(y + first + i, &one, policy);
      } else {
        store_channels<STORE_CHANNELS>(y + first + i, words + i / PER_WORD, policy);
      }
    }
  }
}

// Elements of 4 bytes: at once a warp stores 8 pixels of 4 channels, which are whole sectors where rows and items begin so.
__device__ __forceinline__ void store_elements(const float (&acc)[WGMMA_N / 2], const Item& item, int tile, Element* y,
                                               Probe& probe, uint64_t policy) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Pixel pixel = pixel_of(item, tile, half);
    if (!pixel.exists) continue;
    const int first = item.channel + item.lane % 4 * 2;
    Element* const to = y + output_offset(item.segment.n, pixel.p, pixel.q, first);
#pragma unroll
    for (int i = 0; i < WGMMA_N / 4; ++i) {
      const int further = i / 2 * 8 + i % 2;  // channels
      const uint32_t word = __float_as_uint(relu(acc[i / 2 * 4 + half * 2 + i % 2]));
      if (K % WGMMA_N != 0 && first + further >= K) continue;
      probe.look_at(word);
      if constexpr (kBursts)
        ptx::st_global_hint(to + further * (int64_t(P) * Q), word, policy);
      else
        *reinterpret_cast<uint32_t*>(to + further * (int64_t(P) * Q)) = word;
    }
  }
}

// Calls act(pixel, channel) for the item's outputs that the thread has multiplied.
template <class Act>
__device__ __forceinline__ void for_each_output(const Item& item, Act act) {
  if constexpr (kChannelRows) {
#pragma unroll 1
    for (int i = 0; i < ITEM_SLOTS / 2; ++i) {  // the i-th sum
      const int slot = item.first_slot + i / 4 * 8 + item.lane % 4 * 2 + i % 2, row = slot / ROW_SLOTS, q = slot % ROW_SLOTS;
      const bool exists = q < Q && row < item.segment.rows && slot < item.end_slot;
      const int channel = channel_of_row(item.warp, i / 2 % 2 * 8 + item.lane / 4);
      if (exists && item.channel + channel < K) act(Pixel{true, item.segment.p + row, q}, channel);
    }
    return;
  }
  constexpr int GROUP = kOutputChannelsLast ? CHANNEL_GROUP : 8, VECTOR = GROUP / 4;
#pragma unroll 1
  for (int i = 0; i < 2 * ITEM_TILES; ++i) {
    const Pixel pixel = pixel_of(item, i / 2, i % 2);
    if (!pixel.exists) continue;
#pragma unroll 1
    for (int j = 0; j < WGMMA_N / 4; ++j) {
      const int channel = j / VECTOR * GROUP + item.lane % 4 * VECTOR + j % VECTOR;
      if (item.channel + channel < K) act(pixel, channel);
    }
  }
}

__device__ __noinline__ void repair_pixels(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
  for_each_output(item, [&](const Pixel& pixel, int channel) {
    repair_if_odd(x, w, bias, y, item.segment.n, pixel.p, pixel.q, item.channel + channel);
  });
}
