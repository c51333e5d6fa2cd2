// ---- staging: global -> shared ----
constexpr int COPY = COPY_BYTES / int(sizeof(Element));  // elements of one copy of x
static_assert(kStaging == EXPLICIT || !kInputChannelsLast || kRunOrder || C % COPY == 0, "a copy stays in its pixel");
static_assert(!kRunOrder || (COPY <= WORD && W * C % COPY == 0 && PAD_LEFT * C % COPY == 0), "a run is whole copies");

// COPY elements of x, or zeros.
__device__ __forceinline__ void copy_x(Element* smem, const Element* gmem, bool valid) {
  if constexpr (COPY_BYTES == 16) {
    ptx::cp_async_cg_16(smem, gmem, valid);
  } else if constexpr (COPY_BYTES == 8) {
    ptx::cp_async_ca_8(smem, gmem, valid);
  } else if constexpr (COPY_BYTES == 4) {
    ptx::cp_async_ca_4(smem, gmem, valid);
  } else {
    *smem = valid ? *gmem : from_float<Element>(0.0f);
  }
}

// The same under a predicate, without a branch.
__device__ __forceinline__ void copy_x_if(bool wanted, Element* smem, const Element* gmem, bool valid) {
  if constexpr (COPY_BYTES == 16) {
    ptx::cp_async_cg_16_if(wanted, smem, gmem, valid);
  } else if constexpr (COPY_BYTES == 8) {
    ptx::cp_async_ca_8_if(wanted, smem, gmem, valid);
  } else if constexpr (COPY_BYTES == 4) {
    ptx::cp_async_ca_4_if(wanted, smem, gmem, valid);
  }
}

// A row and column of the image or of the padding around it.
struct InputPixel {
  int h, w;
  __device__ __forceinline__ bool inside() const { return h >= 0 && h < H && w >= 0 && w < W; }
};
constexpr int64_t IMAGE = int64_t(C) * H * W;  // elements; with its padding fewer than 2^31
__device__ __forceinline__ int image_offset(int h, int w, int c) {
  return kInputChannelsLast ? (h * W + w) * C + c : (c * H + h) * W + w;
}

// UNIT channels of one pixel of an NCHW input, transposed through registers; `channel(e)` gives the row offset and the
// channel of element e.
template <class Channel>
__device__ __forceinline__ void gather_unit(Element* smem, const Element* image, bool valid, int h, int w,
                                            Channel channel) {
  Unit values;
#pragma unroll
  for (int e = 0; e < UNIT; ++e) {
    const auto [row, c] = channel(e);
    const bool inside = valid && c < C && h + row >= 0 && h + row < H && w >= 0 && w < W;
    values.e[e] = inside ? image[image_offset(h + row, w, c)] : from_float<Element>(0.0f);
  }
  *reinterpret_cast<Unit*>(smem) = values;
}
struct RowAndChannel {
  int row, c;
};

// Place of patch column w inside its row.
__device__ __forceinline__ int patch_place(int w) { return w % STRIDE_W * PHASE_COLUMNS + w / STRIDE_W; }

// NCHW: a warp takes a row of the patch at a time, its lanes run along the columns, and each gathers the channels of a
// unit.
__device__ __forceinline__ void gather_patch(Element* patch, const Element* x, Origin origin, int chunk) {
  const int w0 = origin.q * STRIDE_W - PAD_LEFT, c0 = chunk * PATCH_K;
  for (int i = threadIdx.x / 32; i < TILE_N * PATCH_H; i += THREADS / 32) {
    const int n = origin.n + i / PATCH_H;
    const int h = origin.p * STRIDE_H - PAD_TOP + i % PATCH_H * (kColumnOrder ? STRIDE_H : 1);
    Element* to = patch + (i / PATCH_H * PATCH_IMAGE + i % PATCH_H * PATCH_ROW) * A_PITCH;
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < PATCH_W * TAP_UNITS; j += 32) {
      const int w = j % PATCH_W, unit = j / PATCH_W;
      gather_unit(to + patch_place(w) * A_PITCH + unit * UNIT, x + n * IMAGE, n < N, h, w0 + w, [&](int e) {
        const int channel = c0 + unit * UNIT + e;
        return kColumnOrder ? RowAndChannel{channel / C * DILATION_H, channel < R * C ? channel % C : C}
                            : RowAndChannel{0, channel};
      });
    }
  }
}

// NHWC: a warp takes a row of x at a time, its lanes run along (column, channel) as x lies in memory. In column order
// the row goes to each output row whose window holds it.
struct RowCopy {
  static constexpr int ROWS = (TILE_P - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;  // of an image
  static constexpr int PIXEL_COPIES = (kColumnOrder && kInputChannelsLast && kStaging == WINDOW ? C : PATCH_K) / COPY;
  static constexpr int ROW_COPIES = kRunOrder ? RUN_ROW / COPY : PATCH_W * PIXEL_COPIES;
  int from, to;  // offsets in the row of x (-1: nothing there, zero) and in the patch's row (-1: nothing wanted)

  __device__ __forceinline__ void prepare(Origin origin, int c0, int copy) {
    if constexpr (kRunOrder) {
      from = (origin.q * STRIDE_W - PAD_LEFT) * C + copy * COPY;
      if (from < 0 || from >= W * C) from = -1;
      to = copy < ROW_COPIES ? copy * COPY : -1;
    } else {
      const int w = copy / PIXEL_COPIES, c = copy % PIXEL_COPIES * COPY, column = origin.q * STRIDE_W - PAD_LEFT + w;
      const bool channel_exists = kColumnOrder || C % PATCH_K == 0 || c0 + c < C;
      from = column >= 0 && column < W && channel_exists ? column * C + c0 + c : -1;
      to = copy < ROW_COPIES ? patch_place(w) * A_PITCH + c : -1;
    }
  }
};

// A row of x in the tile's receptive field; `begin` is null outside the image.
struct InputRow {
  const Element* begin;
  Element* image;  // the patch of its image
  int row;         // within the receptive field

  __device__ __forceinline__ InputRow(Element* patch, const Element* x, Origin origin, int index) {
    const int n = index / RowCopy::ROWS;
    row = index % RowCopy::ROWS;
    const int h = origin.p * STRIDE_H - PAD_TOP + row;
    begin = origin.n + n < N && h >= 0 && h < H ? x + (origin.n + n) * IMAGE + h * (W * C) : nullptr;
    image = patch + n * (kRunOrder ? PATCH_H * RUN_ROW : PATCH_IMAGE * A_PITCH);
  }

  // Calls `store` with the beginning of each of its rows in the patch.
  template <class Store>
  __device__ __forceinline__ void for_each_target(Store store) const {
    if constexpr (kColumnOrder) {
      constexpr int LAST_ROW = (R - 1) * DILATION_H, MOST = LAST_ROW / STRIDE_H + 1;
      const int last = min(row / STRIDE_H, TILE_P - 1);  // output row of the tile whose window begins last
#pragma unroll
      for (int i = 0; i < (MOST < TILE_P ? MOST : TILE_P); ++i) {
        const int p = last - i, r = row - p * STRIDE_H;
        if (p >= 0 && r <= LAST_ROW && r % DILATION_H == 0) store(image + p * PATCH_ROW * A_PITCH + r / DILATION_H * C);
      }
    } else {
      store(image + row * (kRunOrder ? RUN_ROW : PATCH_ROW * A_PITCH));
    }
  }
};

__device__ __forceinline__ void copy_patch(Element* patch, const Element* x, Origin origin, int chunk) {
  constexpr int WARPS = THREADS / 32, ROWS = TILE_N * RowCopy::ROWS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c0 = chunk * PATCH_K;
  if constexpr (COPY_BYTES >= 4) {
#pragma unroll 1
    for (int i = lane; i < RowCopy::ROW_COPIES; i += 32) {
      RowCopy copy;
      copy.prepare(origin, c0, i);
#pragma unroll 4
      for (int j = warp; j < ROWS; j += WARPS) {
        const InputRow row(patch, x, origin, j);
        const bool valid = row.begin != nullptr && copy.from >= 0;
        row.for_each_target([&](Element* to) { copy_x(to + copy.to, valid ? row.begin + copy.from : x, valid); });
      }
    }
  } else {  // through registers, with many loads in flight
    constexpr int LANE_COPIES = (RowCopy::ROW_COPIES + 31) / 32, GROUP = LANE_COPIES < 32 ? LANE_COPIES : 32;
    constexpr int BATCH = 32 / GROUP;  // rows
    for (int first = 0; first < LANE_COPIES; first += GROUP) {
      RowCopy copy[GROUP];
#pragma unroll
      for (int i = 0; i < GROUP; ++i) copy[i].prepare(origin, c0, (first + i) * 32 + lane);
      for (int j = warp; j < ROWS; j += WARPS * BATCH) {
        Element values[BATCH][GROUP];
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
          const InputRow row(patch, x, origin, j + k * WARPS);
#pragma unroll
          for (int i = 0; i < GROUP; ++i) {
            const bool valid = row.begin != nullptr && copy[i].from >= 0 && j + k * WARPS < ROWS;
            values[k][i] = valid ? row.begin[copy[i].from] : from_float<Element>(0.0f);
          }
        }
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
          if (j + k * WARPS >= ROWS) break;
          InputRow(patch, x, origin, j + k * WARPS).for_each_target([&](Element* to) {
#pragma unroll
            for (int i = 0; i < GROUP; ++i)
              if (copy[i].to >= 0) to[copy[i].to] = values[k][i];
          });
        }
      }
    }
  }
}

// The share of a slice in copying the next chunk's patch: as copy_patch, but a few copies for each of the chunk's
// slices, issued between products. The first kNumStages - 1 slices have no share: the buffer is still read while they
// are copied.
struct PatchShare {
  static constexpr int WARPS = THREADS / 32, ROWS = TILE_N * RowCopy::ROWS, WARP_ROWS = (ROWS + WARPS - 1) / WARPS;
  static constexpr int COPIES = (RowCopy::ROW_COPIES + 31) / 32 * WARP_ROWS;  // of a thread, for the whole patch
  static constexpr int SHARES = kSpreadCopies ? CHUNK_SLICES - kNumStages + 1 : 1;
  static constexpr int COUNT = kSpreadCopies ? (COPIES + SHARES - 1) / SHARES : 0;

  __device__ __forceinline__ static void load(const Smem& smem, const Element* x, Origin origin, const Slice& slice) {
    const int share = slice.index - (kNumStages - 1), chunk = slice.chunk + 1;
    Element* patch = smem.a + slice.next_a_slot() * A_STAGE;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int copy = share * COUNT + i, row_index = threadIdx.x / 32 + copy % WARP_ROWS * WARPS;
      RowCopy lane_copy;
      lane_copy.prepare(origin, chunk * PATCH_K, threadIdx.x % 32 + copy / WARP_ROWS * 32);
      const InputRow row(patch, x, origin, row_index);
      const bool wanted = share >= 0 && chunk < CHUNKS && copy < COPIES && row_index < ROWS && lane_copy.to >= 0;
      const bool valid = row.begin != nullptr && lane_copy.from >= 0;
      row.for_each_target([&](Element* to) {
        copy_x_if(wanted, to + lane_copy.to, valid ? row.begin + lane_copy.from : x, valid);
      });
    }
  }
};

// Zeroes the last unit of every column, whose tail no copy fills.
__device__ __forceinline__ void clear_tails(Element* patch) {
  for (int i = threadIdx.x; i < TILE_N * TILE_P * PATCH_W; i += THREADS) {
    const int w = i % PATCH_W, row = i / PATCH_W;
    Element* column = patch + (row / TILE_P * PATCH_IMAGE + row % TILE_P * PATCH_ROW + patch_place(w)) * A_PITCH;
    *reinterpret_cast<Unit*>(column + CHANNELS - UNIT) = Unit{};
  }
}

// The patch of `chunk`: the tile's receptive field (in column order, each output row's).
__device__ __forceinline__ void load_patch(Element* patch, const Element* x, Origin origin, int chunk) {
  if constexpr (kInputChannelsLast)
    copy_patch(patch, x, origin, chunk);
  else
    gather_patch(patch, x, origin, chunk);
}

// What a thread copies for one slice of A, from x (tap by tap) or from the window tensor: a vector of each pixel.
struct PixelLoader {
  static constexpr bool kAlongK = kInputChannelsLast || kStaging == EXPLICIT;  // lanes run along K, else along pixels
  static constexpr int VECTOR = kStaging == EXPLICIT || !kInputChannelsLast ? UNIT : COPY;
  static constexpr int ROW_VECTORS = BLOCK_K / VECTOR;
  static constexpr int COUNT = (BLOCK_M * ROW_VECTORS + THREADS - 1) / THREADS;
  const Element* from[COUNT];  // at tap 0, channel 0; only read where the tap is inside
  InputPixel corner[COUNT];    // of the window; far outside for pixels that don't exist

  __device__ __forceinline__ static int pixel(int i) { return kAlongK ? i / ROW_VECTORS : i % BLOCK_M; }
  __device__ __forceinline__ static int vector(int i) { return kAlongK ? i % ROW_VECTORS : i / BLOCK_M; }

  __device__ __forceinline__ void prepare(const Element* source, Origin origin) {
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
      const int m = pixel(j * THREADS + threadIdx.x);
      const int n = origin.n + m / (TILE_P * TILE_Q), p = origin.p + m / TILE_Q % TILE_P, q = origin.q + m % TILE_Q;
      const bool exists = m < TILE_PIXELS && n < N && p < P && q < Q;
      if constexpr (kStaging == EXPLICIT) {
        corner[j] = {exists ? 0 : -2 * (H + R * DILATION_H), 0};
        from[j] = source + ((int64_t(n) * P + p) * PADDED_W + q * STRIDE_W) * CHANNELS;
      } else {
        corner[j] = {exists ? p * STRIDE_H - PAD_TOP : -2 * (H + R * DILATION_H), q * STRIDE_W - PAD_LEFT};
        from[j] = source + n * IMAGE;
        if constexpr (kInputChannelsLast) from[j] += (int64_t(corner[j].h) * W + corner[j].w) * C;
      }
    }
  }

  __device__ __forceinline__ void load(Element* tile, const Element* source, const Slice& slice) const {
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
      const int i = j * THREADS + threadIdx.x;
      if (BLOCK_M * ROW_VECTORS % THREADS != 0 && i >= BLOCK_M * ROW_VECTORS) break;
      const int element = slice.index * BLOCK_K + vector(i) * VECTOR;
      const int tap = kSliceInTap ? slice.tap() : element / CHANNELS;
      const int c = kSliceInTap ? slice.channel() + vector(i) * VECTOR : element % CHANNELS;
      const bool exists = kSliceInTap || tap < TAPS;
      Element* to = tile + pixel(i) * A_PITCH + vector(i) * VECTOR;
      if constexpr (kStaging == EXPLICIT) {
        const bool valid = exists && corner[j].h >= 0;
        ptx::cp_async_cg_16(to, valid ? from[j] + tap * DILATION_W * CHANNELS + c : source, valid);
      } else {
        const int row = tap / S * DILATION_H, column = tap % S * DILATION_W;
        const InputPixel input{corner[j].h + row, corner[j].w + column};
        if constexpr (kInputChannelsLast) {
          const bool valid = exists && (C % BLOCK_K == 0 || c < C) && input.inside();
          copy_x(to, valid ? from[j] + (row * W + column) * C + c : source, valid);
        } else {
          gather_unit(to, from[j], exists, input.h, input.w, [&](int e) { return RowAndChannel{0, c + e}; });
        }
      }
    }
  }
};

// What a thread copies for one slice of B: the same unit of every kRowStride-th filter.
struct FilterLoader {
  static constexpr int ROW_UNITS = BLOCK_K / UNIT, kRowStride = THREADS / ROW_UNITS;
  static_assert(THREADS % ROW_UNITS == 0, "a thread keeps its unit");
  const Element* from;  // its unit of its first filter
  int k, unit;          // its first filter, and the unit within a slice

  __device__ __forceinline__ void prepare(const Element* filter, int k0) {
    unit = threadIdx.x % ROW_UNITS;
    k = k0 + threadIdx.x / ROW_UNITS;
    from = filter + int64_t(k) * (TAPS * CHANNELS) + unit * UNIT;
  }

  // Without a branch, so that the copies are issued between the products of the step that they stand in.
  __device__ __forceinline__ void load(Element* tile, const Element* filter, const Slice& slice, bool wanted) const {
    const int offset = CHUNKS == 1 ? slice.index * BLOCK_K
                                   : slice.tap() * CHANNELS + slice.chunk * PATCH_K + slice.channel();
    bool inside = true;
    if constexpr (TAPS * CHANNELS % BLOCK_K != 0 && CHUNKS == 1) inside = offset + unit * UNIT < TAPS * CHANNELS;
    if constexpr (CHANNELS % PATCH_K != 0)
      inside = slice.chunk * PATCH_K + slice.channel() + unit * UNIT < CHANNELS;
    Element* to = tile + threadIdx.x / ROW_UNITS * B_PITCH + unit * UNIT;
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += kRowStride) {
      if (BLOCK_N % kRowStride != 0 && row + int(threadIdx.x) / ROW_UNITS >= BLOCK_N) break;
      const bool valid = inside && (K % BLOCK_N == 0 || k + row < K);
      const Element* at = valid ? from + offset + row * (TAPS * CHANNELS) : filter;
      ptx::cp_async_cg_16_if(wanted, to + row * B_PITCH, at, valid);
    }
  }
};

// All that a slice needs and no earlier one has loaded; the patch of chunk 0 is loaded before all slices.
struct Loader {
  FilterLoader filter;
  PixelLoader pixels;  // not used where the window is staged

  __device__ __forceinline__ void load_filter(const Smem& smem, const Element* base, const Slice& slice,
                                              bool wanted) const {
    filter.load(smem.b + slice.b_slot * B_STAGE, base, slice, wanted);
  }

  __device__ __forceinline__ void load_input(const Smem& smem, const Element* source, Origin origin,
                                             const Slice& slice) const {
    if constexpr (kStaging == WINDOW) {
      if (CHUNKS > 1 && !kSpreadCopies && slice.index == 0 && slice.chunk > 0)
        load_patch(smem.a + slice.a_slot * A_STAGE, source, origin, slice.chunk);
    } else {
      pixels.load(smem.a + slice.a_slot * A_STAGE, source, slice);
    }
  }
};
