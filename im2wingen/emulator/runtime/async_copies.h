// The cp.async copies of one thread that have not landed.
#pragma once
#include <deque>
#include <vector>

namespace emulator {

struct Copy {
  void* smem;
  const void* gmem;
  unsigned bytes;
  bool valid;  // else the destination becomes zero
};

struct AsyncCopies {
  std::vector<Copy> open;                  // of no group yet
  std::deque<std::vector<Copy>> groups;  // oldest first

  bool in_flight() const;
};

}  // namespace emulator
