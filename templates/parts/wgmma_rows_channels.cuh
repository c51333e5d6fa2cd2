// ---- channels as wgmma's M (kChannelRows): it reads the windows alone from shared memory, filters stay in registers ----
// A thread has two channels of an item's slots, two neighbouring slots of each eight.
using Sums = float[ITEM_SLOTS / 2];
using HeldFilters = uint32_t[STEPS][4];

// Where a channel's filter lies among the packed ones.
__device__ constexpr int column_of_channel(int channel) {
  if (!kOutputChannelsLast) return channel;
  const int lane = channel % CHANNEL_GROUP / CHANNEL_VECTOR, part = channel % CHANNEL_VECTOR / 2;
  return channel / CHANNEL_GROUP * CHANNEL_GROUP + part * 8 + lane * 2 + channel % 2;
}
__device__ __forceinline__ void hold_filters(HeldFilters& held, const unsigned char* filters, int warp, int lane) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = column_of_channel(channel_of_row(warp, i % 2 * 8 + lane / 4)), chunk = 2 * step + i / 2;
      held[step][i] = *reinterpret_cast<const uint32_t*>(filters + (chunk * WGMMA_N + column) * 16 + lane % 4 * 4);
    }
}

__device__ __forceinline__ void multiply_held(Sums& sums, const Windows& windows, const HeldFilters& held) {
  constexpr Chunks chunks = window_chunks();
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    if (kTurns && step == STEPS - LAST_STEPS) ptx::wgmma_commit_group();
    const uint64_t window = descriptor(windows.chunks_at(chunks.at[2 * step], chunks.at[2 * step + 1], 0));
    if constexpr (sizeof(Element) == 4)
      ptx::wgmma_held_m64k8_f32_tf32(sums, held[step], window, step > 0);
    else if constexpr (kBf16)
      ptx::wgmma_held_m64k16_f32_bf16(sums, held[step], window, step > 0);
    else
      ptx::wgmma_held_m64k16_f32_f16(sums, held[step], window, step > 0);
  }
  ptx::wgmma_commit_group();
}

// The bias of the thread's two channels.
using RowBiases = float[2];
__device__ __forceinline__ void read_row_biases(RowBiases& biases, const Element* bias, int first_channel, int warp, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    biases[half] = epilogue_bias(bias, first_channel + channel_of_row(warp, half * 8 + lane / 4));
}
__device__ __forceinline__ void add_row_biases(Sums& sums, const RowBiases& biases) {
  if constexpr (!kHasBias) return;
#pragma unroll
  for (int i = 0; i < ITEM_SLOTS / 2; ++i) sums[i] += biases[i / 2 % 2];
}

// ---- an NCHW y: pixels of a channel are neighbours in staging ----
// Two at once; one by one, where the item begins at an odd place; or so around the end of the ring.
enum Placing { PAIRS, SINGLES, AROUND };
template <Placing PLACING>
__device__ __forceinline__ void stage_rows(const Sums& sums, Bits* const (&runs)[2], const int (&places)[2], int lane, int pixels,
                                           Probe& probe) {
#pragma unroll
  for (int i = 0; i < ITEM_SLOTS / 8; ++i) {
    const int pixel = i * 8 + lane % 4 * 2;
    const bool exist = i * 8 + 8 <= LEAST_PIXELS, first = exist || pixel < pixels, second = exist || pixel + 1 < pixels;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* pair = sums + i * 4 + half * 2;
      const auto place = [&](int e) {
        return runs[half] + (PLACING == AROUND ? around(places[half] + pixel + e) : places[half] + pixel + e);
      };
      if constexpr (sizeof(Element) == 4) {
        const uint32_t words[2] = {__float_as_uint(relu(pair[0])), __float_as_uint(relu(pair[1]))};
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          probe.look_at(words[e]);
          if (e == 0 ? first : second) *place(e) = words[e];
        }
      } else {
        const uint32_t both = pack<Element>(pair[0], pair[1]);
        probe.look_at(both);
        if (PLACING == PAIRS && second) {
          *reinterpret_cast<uint32_t*>(place(0)) = both;
        } else {
          if (first) *place(0) = Bits(both);
          if (second) *place(1) = Bits(both >> 16);
        }
      }
    }
  }
}

__device__ __forceinline__ void stage_channels(const Sums& sums, Element* staging, const Item& item, const StagedItem& staged,
                                               Probe& probe) {
  Bits* runs[2];
  int places[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int channel = channel_of_row(item.warp, half * 8 + item.lane / 4);
    runs[half] = reinterpret_cast<Bits*>(staging) + ring_of(channel);
    places[half] = staged.place + elements_into_sector(item.segment, item.channel + channel);
  }
  const int pixels = staged.end - staged.begin;
  if (staged.place + SECTOR + ITEM_SLOTS > STAGED_PIXELS)
    stage_rows<AROUND>(sums, runs, places, item.lane, pixels, probe);
  else if (sizeof(Element) == 4 || __any_sync(0xffffffffu, (places[0] | places[1]) % 2 != 0))
    stage_rows<SINGLES>(sums, runs, places, item.lane, pixels, probe);
  else
    stage_rows<PAIRS>(sums, runs, places, item.lane, pixels, probe);
}

// ---- an NHWC y (kOutputMap): channels of a pixel are neighbours in staging, where each consumer has an item; TMA stores it ----
constexpr int BOX_CHANNELS = 128 / sizeof(Element), BOX_BYTES = ITEM_SLOTS * 128;
__device__ __forceinline__ unsigned char* staging_of(const Smem& smem, int consumer) {
  return reinterpret_cast<unsigned char*>(smem.staging) + consumer * ITEM_BYTES;
}
// Where an item's element is, swizzled as TMA reads it.
__device__ __forceinline__ Element* staged_place(unsigned char* staging, int pixel, int channel) {
  const int unit = channel % BOX_CHANNELS / UNIT ^ pixel % 8;
  unsigned char* const place = staging + channel / BOX_CHANNELS * BOX_BYTES + pixel * 128 + unit * 16;
  return reinterpret_cast<Element*>(place) + channel % UNIT;
}

// Until the consumer's last item has left staging.
__device__ __forceinline__ void await_staging(int consumer, int warp, int lane) {
  if (warp == 0 && lane == 0) ptx::cp_async_bulk_wait_group_read<0>();
  ptx::barrier_sync(1 + consumer, 128);
}

__device__ __forceinline__ void stage_pixels(const Sums& sums, unsigned char* staging, int warp, int lane, Probe& probe) {
  if constexpr (sizeof(Element) == 4) {
    Element* places[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      places[e] = staged_place(staging, lane % 4 * 2 + e % 2, channel_of_row(warp, e / 2 * 8 + lane / 4));
#pragma unroll
    for (int i = 0; i < ITEM_SLOTS / 2; ++i) {
      const uint32_t word = __float_as_uint(relu(sums[i]));
      probe.look_at(word);
      *reinterpret_cast<uint32_t*>(places[i % 4] + i / 4 * (8 * 128 / int(sizeof(Element)))) = word;
    }
  } else {
    // matrices of eight channels of eight pixels: lanes 0 to 7 give the first, the next ones other channels, then pixels
    Element* const row = staged_place(staging, lane / 16 * 8 + lane % 8, channel_of_row(warp, lane / 8 % 2 * 8));
#pragma unroll
    for (int group = 0; group < ITEM_SLOTS / 8; group += 2) {
      uint32_t fragments[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        fragments[i] = pack<Element>(sums[group * 4 + i * 2], sums[group * 4 + i * 2 + 1]);
        probe.look_at(fragments[i]);
      }
      ptx::stmatrix_x4_trans(row + group * (8 * 128 / int(sizeof(Element))), fragments);
    }
  }
}

// The thread's own outputs in staging, those that are NaN: they are computed again.
__device__ __noinline__ void repair_pixels_staged(const Element* x, const Element* w, const Element* bias, unsigned char* staging,
                                                  Item item) {
  for_each_output(item, [&](const Pixel& pixel, int channel) {
    const int n = item.segment.n, k = item.channel + channel;
    Element* const place = staged_place(staging, pixel.q - item.first_slot % ROW_SLOTS, channel);
    // as if y lay where this output is at `place`
    repair_if_odd(x, w, bias, place - output_offset(n, pixel.p, pixel.q, k), n, pixel.p, pixel.q, k);
  });
}

// What lies beyond the row or the channels is left out.
__device__ __forceinline__ void store_item(const unsigned char* staging, int consumer, const Item& item, const ptx::TensorMap* output) {
  ptx::fence_proxy_async_shared_cta();  // TMA reads what the thread wrote
  ptx::barrier_sync(1 + consumer, 128);  // the item is complete
  if (item.warp != 0 || item.lane != 0) return;
  const int row = item.segment.n * P + item.segment.p + item.first_slot / ROW_SLOTS;
#pragma unroll
  for (int box = 0; box < WGMMA_N / BOX_CHANNELS; ++box)
    ptx::cp_async_bulk_tensor_3d_store(output, staging + box * BOX_BYTES, item.channel + box * BOX_CHANNELS,
                                       item.first_slot % ROW_SLOTS, row);
  ptx::cp_async_bulk_commit_group();
}
