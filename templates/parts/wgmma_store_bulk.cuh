// ---- an NCHW y by bulk copies (kBulkStored), while the consumer goes on ----
// Staged as (64, BULK_PITCH), so that the rows of a channel are one run as in y. A run begins in staging as far beyond a multiple
// of 16 bytes as in y. Of each run one bulk copy takes what lies between a multiple of 32 bytes of y and one of 16, so that
// it writes whole sectors; threads copy the few pixels in front and behind. Each warp stages and stores its own 16 channels.
constexpr int RUN_ELEMENTS = OWN_P * Q;  // of y
constexpr int SECTOR = 32 / sizeof(Output), BULK_UNIT = 16 / sizeof(Output);
static_assert(!kBulkStored || (sizeof(Output) == 2 && kMapping == ROWS && TILE_N == 1 && TILE_Q == Q && Q % 2 == 0 && K % 8 == 0), "a run is whole rows of an image, in whole words");
static_assert(!kBulkStored || (PATCH_W >= 8 && (JOINED_ROWS == 1 || PATCH_W % 2 == 0)), "a pair of pixels lies in one row, a group in two at most");
static_assert(!kBulkStored || (!kOutputChannelsLast && !kRepair && !kStoredByProducers && kClusterK == 1), "consumers store an NCHW y of unpadded x");

// The warp's sums of its 16 channels; the first of the lane's two begins at `row`.
__device__ __forceinline__ void stage_run(Output* row, const Accumulators& acc, int lane) {
#pragma unroll
  for (int i = 0; i < OWN_SUBTILES; ++i)
#pragma unroll
    for (int j = 0; j < GROUPS_N; ++j) {
      const int column = j * 8 % PATCH_W, joined = j * 8 / PATCH_W;  // of the group's first pixel
      const int q = column + lane % 4 * 2;
      const bool next = column + 8 > PATCH_W && q >= PATCH_W;
      const bool stored = column + 8 <= Q || ((next ? q - PATCH_W : q) < Q && joined + next < JOINED_ROWS);
      if (joined >= JOINED_ROWS || !stored) continue;
      Output* const to = row + (i * JOINED_ROWS + joined) * Q + q - (next ? PATCH_W - Q : 0);
      const Sum* d = acc[i] + j * 4;
      *reinterpret_cast<OutputPair*>(to) = output_pair(d[0], d[1]);
      *reinterpret_cast<OutputPair*>(to + 8 * BULK_PITCH) = output_pair(d[2], d[3]);
    }
}

// A channel's run: elements [begin, end) of y. A bulk copy takes [body, tail), if any.
struct Run {
  int64_t begin;
  int body, tail, end;  // from `begin` on

  __device__ __forceinline__ Run(int64_t first, int length) : begin(first), end(length) {
    const int skew = int(first) & (SECTOR - 1), whole = (skew + length) & -BULK_UNIT;
    body = min((SECTOR - skew) & (SECTOR - 1), length);
    tail = max(body, whole - skew);
  }
};

__device__ __forceinline__ void store_in_bulk(unsigned char* staging, const Accumulators& acc, int warp, int lane, Output* y,
                                              const Origin& place) {
  Output* const own = reinterpret_cast<Output*>(staging) + warp * 16 * BULK_PITCH;
  const int64_t first = ((int64_t(place.n) * K + place.k + warp * 16) * P + place.p) * Q;
  const int channels = K - place.k - warp * 16, length = (P - place.p < OWN_P ? P - place.p : OWN_P) * Q;
  ptx::cp_async_bulk_wait_group_read<0>();
  __syncwarp();  // all have read the last tile's runs
  stage_run(own + lane / 4 * BULK_PITCH + (int(first) + lane / 4 * (P * Q)) % BULK_UNIT, acc, lane);
  ptx::fence_proxy_async_shared_cta();
  __syncwarp();  // the runs are complete
  if (length <= 0) return;
  if (lane < 16 && lane < channels) {
    const Run run(first + lane * (P * Q), length);
    if (run.tail > run.body)
      ptx::cp_async_bulk_store(y + run.begin + run.body, own + lane * BULK_PITCH + run.begin % BULK_UNIT + run.body,
                               (run.tail - run.body) * sizeof(Output));
  }
  ptx::cp_async_bulk_commit_group();
#pragma unroll
  for (int i = 0; i < 6; ++i) {  // 8 lanes for what lies in front of a run, 4 for what lies behind it
    const bool front = i < 4;
    const int channel = front ? i * 4 + lane / 8 : (i - 4) * 8 + lane / 4;
    const Run run(first + channel * (P * Q), length);
    const int at = front ? lane % 8 * 2 : run.tail + lane % 4 * 2;
    if (at < (front ? run.body : run.end) && channel < channels)
      *reinterpret_cast<OutputPair*>(y + run.begin + at) =
          *reinterpret_cast<const OutputPair*>(own + channel * BULK_PITCH + run.begin % BULK_UNIT + at);
  }
}
