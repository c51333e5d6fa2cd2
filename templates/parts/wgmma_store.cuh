// ---- epilogue: accumulators -> staging, 64 channels a pixel -> y by TMA, which leaves out what lies outside ----
__device__ __forceinline__ Output to_output(float v) { return from_float<Output>(v); }
__device__ __forceinline__ int32_t to_output(int32_t v) { return v; }

using OutputPair = BitsOf<2 * sizeof(Output)>::Type;
template <class T = Output>
__device__ __forceinline__ OutputPair output_pair(Sum low, Sum high) {
  OutputPair bits;
  if constexpr (sizeof(T) == 2) {
    bits = pack<T>(low, high);
  } else {
    const T pair[2] = {to_output(relu(low)), to_output(relu(high))};
    memcpy(&bits, pair, sizeof bits);
  }
  return bits;
}

// Groups FIRST ... FIRST + STORE_GROUPS - 1 of a subtile, swizzled as TMA reads them. A lane holds channels `lane / 4` and
// + 8 of its warp's 16, of pixels `lane % 4 * 2` and + 1 of each group.
template <int FIRST, int COUNT>
__device__ __forceinline__ void stage_groups(unsigned char* staging, const Sum (&acc)[COUNT], int warp, int lane) {
  if constexpr (sizeof(Output) == 4) {
#pragma unroll
    for (int j = 0; j < STORE_GROUPS; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int pixel = lane % 4 * 2 + e % 2, k = warp * 16 + lane / 4 + e / 2 * 8;
        const int unit = k % PART_CHANNELS / OUTPUT_UNIT ^ pixel;
        unsigned char* at = staging + k / PART_CHANNELS * PART_BYTES + j * 1024 + pixel * 128 + unit * 16 + k % OUTPUT_UNIT * 4;
        *reinterpret_cast<Sum*>(at) = relu(acc[(FIRST + j) * 4 + e]);
      }
  } else {
    const int pixel = lane % 8, unit = warp * 2 + lane / 8 % 2;
    unsigned char* row = staging + pixel * 128 + (unit ^ pixel) * 16;  // of the first of two groups
#pragma unroll
    for (int j = 0; j < STORE_GROUPS; j += 2) {
      uint32_t fragments[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (j + half == STORE_GROUPS) break;
        const Sum* d = acc + (FIRST + j + half) * 4;
        fragments[half * 2] = pack<Output>(d[0], d[1]);
        fragments[half * 2 + 1] = pack<Output>(d[2], d[3]);
      }
      if (j + 1 < STORE_GROUPS)
        ptx::stmatrix_x4_trans(row + (j + lane / 16) * 1024, fragments);
      else
        ptx::stmatrix_x2_trans(row + j * 1024, {fragments[0], fragments[1]});
    }
  }
}

// The same for an NCHW y: channels are rows of pixels.
template <int FIRST, int COUNT>
__device__ __forceinline__ void stage_rows(unsigned char* staging, const Sum (&acc)[COUNT], int warp, int lane) {
  Output* row = reinterpret_cast<Output*>(staging) + (warp * 16 + lane / 4) * STAGING_PITCH + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < STORE_GROUPS; ++j) {
    const Sum* d = acc + (FIRST + j) * 4;
    *reinterpret_cast<OutputPair*>(row + j * 8) = output_pair(d[0], d[1]);
    *reinterpret_cast<OutputPair*>(row + 8 * STAGING_PITCH + j * 8) = output_pair(d[2], d[3]);
  }
}

// Columns that are stored at a time, of all joined rows.
constexpr int STORE_COLUMNS = STORE_GROUPS < GROUPS_N ? STORE_GROUPS * 8 / TILE_N
                              : kMapping == BLOCK     ? WGMMA_N
                                                      : (JOINED_ROWS - 1) * PATCH_W + TILE_Q;
// Whether runs of so many columns are aligned in y, and stored whole or not at all.
__device__ constexpr bool stores_by(int columns) {
  return Q % columns == 0 && STORE_COLUMNS % columns == 0 &&
         (kMapping == BLOCK || TILE_Q % columns == 0 && (JOINED_ROWS == 1 || PATCH_W % columns == 0));
}

// Groups `first` ... by so many threads. Warps take channels in turn; neighbouring lanes take pixels that are neighbours in y.
template <int COPIERS>
__device__ __forceinline__ void store_rows(Output* y, const unsigned char* staging, int warp, int lane, Origin place,
                                           int first) {
  constexpr int WARPS = COPIERS / 32;
  constexpr int COLUMNS = stores_by(4) ? 4 : stores_by(2) ? 2 : 1;
  struct alignas(COLUMNS * sizeof(Output)) Run {
    Output e[COLUMNS];
  };
#pragma unroll 1
  for (int at = lane * COLUMNS; at < STORE_COLUMNS * TILE_N; at += 32 * COLUMNS) {
    const int pixel = at % STORE_COLUMNS * TILE_N + at / STORE_COLUMNS;  // its place in staging
    int n = 0;
    const int offset = pixel_offset(first * 8 + pixel, place, n);
    if (offset < 0) continue;
    const Output* from = reinterpret_cast<const Output*>(staging) + warp * STAGING_PITCH + pixel;
    Output* to = y + (int64_t(n) * K + place.k + warp) * (P * Q) + offset;
#pragma unroll 4
    for (int k = warp; k < 64 && place.k + k < K; k += WARPS) {
      Run run;
      if constexpr (TILE_N == 1) {
        run = *reinterpret_cast<const Run*>(from);
      } else {
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) run.e[i] = from[i * TILE_N];
      }
      *reinterpret_cast<Run*>(to) = run;
      from += WARPS * STAGING_PITCH;
      to += WARPS * int64_t(P * Q);
    }
  }
}

template <int FIRST>
__device__ __forceinline__ void store_groups(unsigned char* staging, const Sum (&acc)[WGMMA_N / 2], int consumer,
                                             int thread, const ptx::TensorMap* output, Output* y, Origin place) {
  const int warp = thread / 32, lane = thread % 32;
  if (kOutputChannelsLast && thread == 0) ptx::cp_async_bulk_wait_group_read<0>();
  ptx::barrier_sync(1 + consumer, 128);  // staging may be written
  if constexpr (kOutputChannelsLast) {
    stage_groups<FIRST>(staging, acc, warp, lane);
    ptx::fence_proxy_async_shared_cta();
  } else {
    stage_rows<FIRST>(staging, acc, warp, lane);
  }
  ptx::barrier_sync(1 + consumer, 128);  // staging is complete
  if constexpr (!kOutputChannelsLast) {
    store_rows<128>(y, staging, warp, lane, place, FIRST);
  } else if (thread == 0) {
#pragma unroll
    for (int part = 0; part < STORE_PARTS; ++part) {
      unsigned char* from = staging + part * PART_BYTES;
      const int k = place.k + part * PART_CHANNELS;
      if constexpr (kMapping == BLOCK) {
        ptx::cp_async_bulk_tensor_4d_store(output, from, k, place.n, place.q, place.p + FIRST);
      } else {
#pragma unroll
        for (int row = 0; row < JOINED_ROWS; ++row)
          ptx::cp_async_bulk_tensor_4d_store(output, from + row * PATCH_W * TILE_N * 128, k, place.n,
                                             place.q + FIRST * 8 / TILE_N, place.p + row);
      }
    }
    ptx::cp_async_bulk_commit_group();
  }
  if constexpr (FIRST + STORE_GROUPS < GROUPS_N)
    store_groups<FIRST + STORE_GROUPS>(staging, acc, consumer, thread, output, y, place);
}

// Whether a NaN may have come from the padding: an Inf or a NaN in the filter, with which no pixel's sum is finite. One
// pixel of each of the thread's channels tells.
__device__ __forceinline__ bool has_nan(const Accumulators& acc) {
  const float probe = fmaf(acc[0][0], 0.0f, acc[0][2] * 0.0f);  // NaN if one of them is not finite
  return probe != probe;
}

// What came out as NaN is computed again, over the taps inside the image alone.
__device__ __noinline__ void repair_tile(const Element* x, const Element* w, const Output* bias, Output* y, Origin origin,
                                         int thread) {
  constexpr int CHANNELS = 64;
  for (int i = thread; i < TILE_N * OWN_P * OWN_Q * CHANNELS; i += 128) {
    const int k = origin.k + i % CHANNELS, pixel = i / CHANNELS;
    const int q = origin.q + pixel % OWN_Q, p = origin.p + pixel / OWN_Q % OWN_P, n = origin.n + pixel / (OWN_Q * OWN_P);
    if (k >= K || q >= Q || p >= P || n >= N) continue;
    const float stored = to_float(y[output_offset(n, p, q, k)]);
    if (stored != stored) repair_output(x, w, bias, y, n, p, q, k);
  }
}
