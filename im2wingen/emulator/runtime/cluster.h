// What the CTAs of a cluster share: a barrier, and the shared memory that each of them lets the others read.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

// A thread's place at the cluster's barrier.
struct ClusterThread {
  bool arrived = false;  // and has not waited yet
  size_t phase = 0;      // in which it arrived
};

struct Thread;
void reset_cluster(unsigned ctas, size_t threads);
// A thread that ends is no longer waited for; with the last one of a CTA its shared memory is gone.
void thread_left_cluster(const Thread& thread);

}  // namespace emulator
