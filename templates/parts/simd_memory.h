// What a thread keeps between chunks (partial sums of its item's tiles) and, where windows are copied, its rows of x.
constexpr int TILE_VECTORS = kCutN.largest() * UNIT_VECTORS * kCutP.largest() * kCutQ.largest() * kVectorCut.largest();
constexpr int ITEM_PIXEL_TILES = kRowBlocks.largest() * kCutQ.parts;
constexpr int64_t PARTIAL_VECTORS =
    CHUNKS > 1 ? int64_t(kFilterBlocks.largest()) * ITEM_PIXEL_TILES * TILE_VECTORS : 0;
constexpr int64_t COPIED_SIZE = !kCopied ? 0 : kLooseImages ? COPIED_ROWS * X_ROW : kCutN.largest() * X_IMAGE;
constexpr int64_t STAGED_SIZE = kStaged ? kCutN.largest() * OUTPUT_IMAGE : 0;
constexpr int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr int64_t kWindowAt = whole_lines(PARTIAL_VECTORS * sizeof(Vector));
constexpr int64_t kOutputsAt = kWindowAt + whole_lines(COPIED_SIZE * sizeof(Word));
constexpr int64_t THREAD_BYTES = kOutputsAt + whole_lines(STAGED_SIZE * sizeof(Output));
// From the heap for the time of a call, so that threads keep it for their next kernel, whichever that is.
class ThreadMemory {
 public:
  ThreadMemory() {
    if constexpr (THREAD_BYTES > 0)
      if ((memory_ = static_cast<char*>(std::aligned_alloc(64, THREAD_BYTES))) == nullptr) std::abort();
  }
  ~ThreadMemory() { std::free(memory_); }
  ThreadMemory(const ThreadMemory&) = delete;
  Vector* partial() const { return reinterpret_cast<Vector*>(memory_); }               // (tile of k, tile of pixels)
  Word* window() const { return reinterpret_cast<Word*>(memory_ + kWindowAt); }  // (image, row, then as in x)
  Output* outputs() const { return reinterpret_cast<Output*>(memory_ + kOutputsAt); }  // (image, k, pixel)

 private:
  char* memory_ = nullptr;
};

struct Item {
  int image_tile, row_block, group, filter_block;
};
IM2WINGEN_INLINE Item item_at(int64_t index) {
  constexpr int kFilters = GROUPS * kFilterBlocks.parts, kRows = kRowBlocks.parts, kImages = kCutN.parts;
  int filters, places;
  if constexpr (kImagesInner) {
    filters = int(index / (int64_t(kImages) * kRows)), places = int(index % (int64_t(kImages) * kRows));
    if (kTileOrderZigzag && filters % 2 == 1) places = kImages * kRows - 1 - places;
  } else {
    places = int(index / kFilters), filters = int(index % kFilters);
    if (kTileOrderZigzag && places % 2 == 1) filters = kFilters - 1 - filters;
  }
  return {places / kRows, places % kRows, filters / kFilterBlocks.parts, filters % kFilterBlocks.parts};
}
