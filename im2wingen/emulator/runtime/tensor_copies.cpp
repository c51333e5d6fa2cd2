// Copies of boxes. A store reads when it is waited for; bytes that differ from those at the issue are stored as poison, so
// that neither a source written too late nor one overwritten too early goes unseen. For loads see loads.h.
#include "tensor_copies.h"

#include <algorithm>
#include <cstring>

#include "block.h"
#include "loads.h"
#include "report.h"

namespace emulator {
namespace {

constexpr size_t kSmemAlignment = 128;
constexpr int kInnermostStep = 16;  // bytes

Box make_box(const char* name, const void* map, const void* smem, unsigned rank, const int* coordinates) {
  Box box = {name, known_tensor_map(name, map), {}, const_cast<char*>(static_cast<const char*>(smem))};
  if (box.map.rank != rank) fail("%s with a tensor map of rank %u", name, box.map.rank);
  if (reinterpret_cast<uintptr_t>(smem) % kSmemAlignment) fail("%s: shared memory is not aligned to 128 bytes", name);
  if (box.map.swizzle_bytes && box.map.box_row_bytes() != box.map.swizzle_bytes)
    fail("%s: rows of %zu bytes in a swizzle of %u are not emulated", name, box.map.box_row_bytes(),
         box.map.swizzle_bytes);
  // Measured on an H200: an illegal instruction, as triton-lang/triton issue 7385 says.
  if (coordinates[0] * int(box.map.element_bytes) % kInnermostStep)
    fail("%s: coordinate 0 is %d; a box begins at a multiple of 16 bytes", name, coordinates[0]);
  require_shared(name, smem, box.map.box_bytes());
  for (unsigned i = 0; i < rank; ++i) box.corner[i] = coordinates[i];
  return box;
}

// Calls row(global, begin, end, index) for each row of the box: bytes [begin, end) of it lie within the tensor, from
// `global` on; none if the row is outside.
template <class Row>
void for_each_row(const Box& box, Row row) {
  const TensorMap& map = box.map;
  const int64_t first = std::max<int64_t>(box.corner[0], 0);
  const int64_t last = std::min<int64_t>(box.corner[0] + map.box[0], int64_t(map.dims[0]));
  size_t rows = 1;
  for (unsigned d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (size_t i = 0; i < rows; ++i) {
    bool inside = first < last;
    int64_t offset = first * map.element_bytes;
    size_t rest = i;
    for (unsigned d = 1; d < map.rank; ++d, rest /= map.box[d - 1]) {
      const int64_t position = box.corner[d] + int64_t(rest % map.box[d]);
      inside = inside && position >= 0 && position < int64_t(map.dims[d]);
      offset += position * int64_t(map.strides[d - 1]);
    }
    const size_t begin = inside ? size_t(first - box.corner[0]) * map.element_bytes : 0;
    const size_t end = inside ? begin + size_t(last - first) * map.element_bytes : 0;
    row(inside ? map.begin + offset : nullptr, begin, end, i);
  }
}

// To nearest, ties to even; Inf and NaN stay (triton-lang/triton pull request 11751 describes what TMA does).
void round_to_tf32(std::vector<Chunk>& row) {
  for (Chunk& chunk : row) {
    uint32_t words[sizeof(Chunk) / 4];
    memcpy(words, &chunk, sizeof words);
    for (uint32_t& word : words)
      if ((word & 0x7f800000u) != 0x7f800000u) word = (word + 0xfffu + (word >> 13 & 1)) & 0xffffe000u;
    memcpy(&chunk, words, sizeof words);
  }
}

void land(const Box& box) {
  const TensorMap& map = box.map;
  const size_t chunks = map.box_row_bytes() / sizeof(Chunk);
  std::vector<Chunk> bytes(chunks);
  for_each_row(box, [&](const char* global, size_t begin, size_t end, size_t index) {
    std::fill(bytes.begin(), bytes.end(), Chunk{});
    if (begin < end) memcpy(reinterpret_cast<char*>(bytes.data()) + begin, global, end - begin);
    if (map.rounds_to_tf32) round_to_tf32(bytes);
    for (size_t i = 0; i < chunks; ++i)
      async_write(swizzled(box.smem + (index * chunks + i) * sizeof(Chunk), map.swizzle_bytes), bytes[i]);
  });
}

std::vector<Chunk> read_box(const Box& box) {
  std::vector<Chunk> chunks(box.map.box_bytes() / sizeof(Chunk));
  for (size_t i = 0; i < chunks.size(); ++i)
    chunks[i] = async_read(box.name, swizzled(box.smem + i * sizeof(Chunk), box.map.swizzle_bytes));
  return chunks;
}

void read(TensorStore& store) {
  if (store.read) return;
  const std::vector<Chunk> now = read_box(store.box);
  for (size_t i = 0; i < now.size(); ++i) store.chunks[i] = unless_changed(store.chunks[i], now[i]);
  store.read = true;
}

void write(const TensorStore& store) {
  const char* bytes = reinterpret_cast<const char*>(store.chunks.data());
  for_each_row(store.box, [&](char* global, size_t begin, size_t end, size_t index) {
    if (begin < end) memcpy(global, bytes + index * store.box.map.box_row_bytes() + begin, end - begin);
  });
}

}  // namespace

bool TensorStores::unread() const {
  for (const auto& group : groups)
    for (const TensorStore& store : group)
      if (!store.read) return true;
  return !open.empty();
}

void tensor_load(const char* name, void* smem, const ptx::TensorMap* map, uint64_t* barrier, unsigned rank,
                 const int* coordinates) {
  const Box box = make_box(name, map, smem, rank, coordinates);
  begin_load(name, box.smem, box.map.box_bytes(), barrier, [box] { land(box); });
}

void tensor_store(const char* name, const ptx::TensorMap* map, const void* smem, unsigned rank, const int* coordinates) {
  for (unsigned i = 0; i < rank; ++i)  // measured on an H200: an illegal instruction
    if (coordinates[i] < 0) fail("%s: coordinate %u is %d; a store can't begin before the tensor", name, i, coordinates[i]);
  const Box box = make_box(name, map, smem, rank, coordinates);
  self().stores.open.push_back({box, read_box(box)});
}

void bulk_store(const char* name, void* gmem, const void* smem, uint32_t bytes) {
  check_global_run(name, gmem, bytes);
  if (reinterpret_cast<uintptr_t>(smem) % sizeof(Chunk)) fail("%s: shared memory is not aligned to 16 bytes", name);
  require_shared(name, smem, bytes);
  Box box = {name, {}, {}, const_cast<char*>(static_cast<const char*>(smem))};
  box.map.begin = static_cast<char*>(gmem);
  box.map.rank = 1;
  box.map.element_bytes = sizeof(Chunk);
  box.map.dims[0] = box.map.box[0] = bytes / sizeof(Chunk);
  self().stores.open.push_back({box, read_box(box)});
}

void bulk_commit_group() {
  TensorStores& stores = self().stores;
  stores.groups.push_back(std::move(stores.open));
  stores.open.clear();
}

void bulk_wait_group(unsigned pending, bool read_only) {
  std::deque<std::vector<TensorStore>>& groups = self().stores.groups;
  for (size_t i = 0; i + pending < groups.size(); ++i)
    for (TensorStore& store : groups[i]) read(store);
  if (read_only) return;
  for (; groups.size() > pending; groups.pop_front())
    for (const TensorStore& store : groups.front()) write(store);
}

void finish_stores(TensorStores& stores) {
  for (; !stores.groups.empty(); stores.groups.pop_front())
    for (const TensorStore& store : stores.groups.front()) write(store);
}

}  // namespace emulator
