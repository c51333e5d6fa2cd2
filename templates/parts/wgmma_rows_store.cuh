// ---- y in NHWC: a thread stores its pixels' channels as it holds them ----
// Channels that are stored at once: each store is aligned, and is within K or beyond it as a whole.
constexpr int STORE_CHANNELS = K % 8 == 0 && CHANNEL_VECTOR >= 8 ? 8 : K % 4 == 0 && CHANNEL_VECTOR >= 4 ? 4 : K % 2 == 0 ? 2 : 1;

template <int COUNT>
__device__ __forceinline__ void store_channels(Element* y, const uint32_t* pairs, uint64_t policy) {
  if constexpr (COUNT == 8) {
    const uint32_t words[4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    if constexpr (kBursts)
      ptx::st_global_v4_hint(y, words, policy);
    else
      ptx::st_global_v4(y, words);
  } else {
    struct alignas(2 * COUNT) Vector {
      Element e[COUNT];
    };
    Vector vector;
    memcpy(&vector, pairs, sizeof vector);
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
  return {q < Q && row < item.segment.rows, item.segment.p + row, q};
}

template <int HALF>
__device__ __forceinline__ void store_pixel(const float (&acc)[WGMMA_N / 2], const Item& item, int tile, const float* bias,
                                            Element* y, Probe& probe, uint64_t policy) {
  constexpr int PAIRS = CHANNEL_VECTOR / 2;
  const Pixel pixel = pixel_of(item, tile, HALF);
  if (!pixel.exists) return;
  y += output_offset(item.segment.n, pixel.p, pixel.q, item.channel);
#pragma unroll
  for (int group = 0; group < WGMMA_N / CHANNEL_GROUP; ++group) {
    const int first = group * CHANNEL_GROUP + item.lane % 4 * CHANNEL_VECTOR;
    uint32_t pairs[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const float* d = acc + (group * PAIRS + i) * 4 + HALF * 2;
      const float bias0 = kHasBias ? bias[first + 2 * i] : 0.0f, bias1 = kHasBias ? bias[first + 2 * i + 1] : 0.0f;
      pairs[i] = pack(epilogue(d[0], bias0), epilogue(d[1], bias1));
      probe.look_at(pairs[i]);
    }
#pragma unroll
    for (int i = 0; i < CHANNEL_VECTOR; i += STORE_CHANNELS) {
      if (K % WGMMA_N != 0 && item.channel + first + i >= K) continue;
      if constexpr (STORE_CHANNELS == 1) {
        const uint32_t one = i % 2 == 0 ? pairs[i / 2] : pairs[i / 2] >> 16;
        store_channels<1>(y + first + i, &one, policy);
      } else {
        store_channels<STORE_CHANNELS>(y + first + i, pairs + i / 2, policy);
      }
    }
  }
}

__device__ __noinline__ void repair_pixels(const Element* x, const Element* w, const Element* bias, Element* y, Item item) {
#pragma unroll 1
  for (int i = 0; i < 2 * ITEM_TILES; ++i) {
    const Pixel pixel = pixel_of(item, i / 2, i % 2);
    if (!pixel.exists) continue;
#pragma unroll 1
    for (int j = 0; j < WGMMA_N / 4; ++j) {
      const int k = item.channel + j / CHANNEL_VECTOR * CHANNEL_GROUP + item.lane % 4 * CHANNEL_VECTOR + j % CHANNEL_VECTOR;
      if (k < K) repair_if_nan(x, w, bias, y, item.segment.n, pixel.p, pixel.q, k);
    }
  }
}
