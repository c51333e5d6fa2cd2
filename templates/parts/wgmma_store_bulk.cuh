// ---- an NCHW y by bulk copies (kBulkStored), while the consumer goes on ----
// Staged as (64, BULK_PITCH), so that the rows of a channel are one run as in y. A run begins in staging as far beyond a multiple
// of 16 bytes as in y. Of each run one bulk copy takes what lies between a multiple of 32 bytes of y and one of 16, so that
// it writes whole sectors; threads copy the few pixels in front and behind. Each warp stages and stores its own 16 channels.
constexpr int SECTOR = 32 / sizeof(Output);  // elements
// Pixels that are staged, and copied by threads, at a time: two where they never lie in two rows and are aligned.
constexpr int WORD = sizeof(Output) == 2 && Q % 2 == 0 && (JOINED_ROWS == 1 || PATCH_W % 2 == 0) ? 2 : 1;
using OutputWord = BitsOf<WORD * sizeof(Output)>::Type;
static_assert(!kBulkStored || (kMapping == ROWS && TILE_N == 1 && TILE_Q == Q && PATCH_W >= 8), "a run is whole rows of an image, a group lies in two at most");
static_assert(!kBulkStored || (!kOutputChannelsLast && !kHasPadding && !kStoredByProducers && kClusterK == 1), "consumers store an NCHW y of unpadded x");

__device__ __forceinline__ OutputWord output_word(const Sum* sums) {
  if constexpr (WORD == 2) {
    return output_pair(sums[0], sums[1]);
  } else {
    OutputWord bits;
    const Output element = to_output(relu(sums[0]));
    memcpy(&bits, &element, sizeof bits);
    return bits;
  }
}

// The warp's sums of its 16 channels; the first of the lane's two begins at `row`.
__device__ __forceinline__ void stage_run(Output* row, const Accumulators& acc, int lane) {
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < GROUPS_N; ++j)
#pragma unroll
      for (int e = 0; e < 2; e += WORD) {
        const int column = j * 8 % PATCH_W, joined = j * 8 / PATCH_W;  // of the group's first pixel
        const int q = column + lane % 4 * 2 + e;
        const bool next = column + 8 > PATCH_W && q >= PATCH_W;
        const bool stored = column + 8 <= Q || ((next ? q - PATCH_W : q) < Q && joined + next < JOINED_ROWS);
        if (joined >= JOINED_ROWS || !stored) continue;
        Output* const to = row + (i * JOINED_ROWS + joined) * Q + q - (next ? PATCH_W - Q : 0);
        const Sum* d = acc[i] + j * 4 + e;
        *reinterpret_cast<OutputWord*>(to) = output_word(d);
        *reinterpret_cast<OutputWord*>(to + 8 * BULK_PITCH) = output_word(d + 2);
      }
}

// A channel's run: elements of y from `begin` on. A bulk copy takes [body, tail) of it, if any.
struct Run {
  int64_t begin;
  int body, tail, end;

  __device__ __forceinline__ Run(int64_t first, int length) : begin(first), end(length) {
    const int skew = int(first) & (SECTOR - 1);
    body = min(-skew & (SECTOR - 1), length);
    tail = max(body, ((skew + length) & -OUTPUT_UNIT) - skew);
  }
};

// Elements [at, at + WORD) of the runs, by one thread.
__device__ __forceinline__ void copy_word(Output* y, const Output* staged, const Run& run, int at) {
  *reinterpret_cast<OutputWord*>(y + run.begin + at) = *reinterpret_cast<const OutputWord*>(staged + run.begin % OUTPUT_UNIT + at);
}

__device__ __forceinline__ void store_in_bulk(unsigned char* staging, const Accumulators& acc, int warp, int lane, Output* y,
                                              const Origin& place) {
  constexpr int FRONT = SECTOR / WORD, BEHIND = OUTPUT_UNIT / WORD;  // lanes of a channel
  Output* const own = reinterpret_cast<Output*>(staging) + warp * 16 * BULK_PITCH;
  const int64_t first = ((int64_t(place.n) * K + place.k + warp * 16) * P + place.p) * Q;
  const int channels = K - place.k - warp * 16, length = (P - place.p < OWN_P ? P - place.p : OWN_P) * Q;
  ptx::cp_async_bulk_wait_group_read<0>();
  __syncwarp();  // all have read the last tile's runs
  stage_run(own + lane / 4 * BULK_PITCH + (int(first) + lane / 4 * (P * Q)) % OUTPUT_UNIT, acc, lane);
  ptx::fence_proxy_async_shared_cta();
  __syncwarp();  // the runs are complete
  if (length <= 0) return;
  if (lane < 16 && lane < channels) {
    const Run run(first + lane * (P * Q), length);
    if (run.tail > run.body)
      ptx::cp_async_bulk_store(y + run.begin + run.body, own + lane * BULK_PITCH + run.begin % OUTPUT_UNIT + run.body,
                               (run.tail - run.body) * sizeof(Output));
  }
  ptx::cp_async_bulk_commit_group();
#pragma unroll
  for (int i = 0; i < 16; i += 32 / FRONT) {
    const int channel = i + lane / FRONT, at = lane % FRONT * WORD;
    const Run run(first + channel * (P * Q), length);
    if (at < run.body && channel < channels) copy_word(y, own + channel * BULK_PITCH, run, at);
  }
#pragma unroll
  for (int i = 0; i < 16; i += 32 / BEHIND) {
    const int channel = i + lane / BEHIND;
    const Run run(first + channel * (P * Q), length);
    const int at = run.tail + lane % BEHIND * WORD;
    if (at < run.end && channel < channels) copy_word(y, own + channel * BULK_PITCH, run, at);
  }
}
