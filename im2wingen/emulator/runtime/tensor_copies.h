// TMA: the stores that are under way.
#pragma once
#include <deque>
#include <vector>

#include "async_proxy.h"
#include "tensor_map.h"

namespace emulator {

// A box at one place of its tensor, and where it lies in shared memory.
struct Box {
  const char* name;  // of the instruction
  TensorMap map;
  int64_t corner[kMaxRank];
  char* smem;
};

struct TensorStore {
  Box box;
  std::vector<Chunk> chunks;  // of shared memory: as they were at the issue, then as they are to be stored
  bool read = false;
};

// What a bulk copy demands of its run of bytes in global memory; `name` is the instruction that is to blame.
void check_global_run(const char* name, const void* gmem, size_t bytes);

// The stores of one thread.
struct TensorStores {
  std::vector<TensorStore> open;                // of no group yet
  std::deque<std::vector<TensorStore>> groups;  // oldest first

  bool unread() const;
};

// Global memory gets what the thread's stores have read.
void finish_stores(TensorStores& stores);

}  // namespace emulator
