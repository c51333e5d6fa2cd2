// wgmma: what each lane has issued and not waited for.
#pragma once
#include <cstddef>
#include <deque>

namespace emulator {

struct WgmmaLane {
  bool fenced = false;        // since the lane last had its accumulators
  size_t issued = 0;          // wgmma of this lane since the CTA's beginning
  size_t waited = 0;          // of these
  std::deque<size_t> groups;  // `issued` at each commit, oldest first

  bool in_flight() const { return issued > waited; }
};

void reset_wgmma(unsigned ctas, size_t threads);

}  // namespace emulator
