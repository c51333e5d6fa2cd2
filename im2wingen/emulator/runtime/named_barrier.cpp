// Named barriers (bar.sync, bar.arrive): each thread counts for itself, and whole warps come together.
#include <algorithm>
#include <array>

#include "block.h"
#include "mbarrier.h"
#include "report.h"

namespace emulator {
namespace {

constexpr int kNamedBarriers = 16;
const char* const kNames[kNamedBarriers] = {"bar 0", "bar 1",  "bar 2",  "bar 3",  "bar 4",  "bar 5",  "bar 6",  "bar 7",
                                            "bar 8", "bar 9", "bar 10", "bar 11", "bar 12", "bar 13", "bar 14", "bar 15"};

struct NamedBarrier {
  int threads = 0;  // of the phase that runs
  std::vector<Thread*> came, waiting;
};
using NamedBarriers = std::array<NamedBarrier, kNamedBarriers>;
std::vector<NamedBarriers> of_ctas;  // of the cluster

NamedBarrier& named(int id) { return of_ctas[self().cluster_rank][size_t(id)]; }

}  // namespace

void reset_named_barriers(unsigned ctas) { of_ctas.assign(ctas, {}); }

bool named_barrier_in_use(int id) { return !named(id).came.empty(); }

void named_barrier(int id, int threads, bool wait) {
  if (id < 0 || id >= kNamedBarriers) fail("a named barrier %d; there are 0 to 15", id);
  if (threads <= 0 || threads % int(kWarpLanes)) fail("%s of %d threads; it takes whole warps", kNames[id], threads);
  if (id == 0 && cta_barrier_in_use()) fail("bar 0 is that of __syncthreads, in which threads wait");
  NamedBarrier& barrier = named(id);
  if (barrier.came.empty()) barrier.threads = threads;
  if (barrier.threads != threads)
    fail("%s of %d threads, while others came to it as one of %d threads", kNames[id], threads, barrier.threads);
  if (std::find(barrier.came.begin(), barrier.came.end(), &self()) != barrier.came.end())
    fail("the thread comes to %s a second time before it is over", kNames[id]);
  barrier.came.push_back(&self());
  if (wait) barrier.waiting.push_back(&self());
  if (int(barrier.came.size()) == threads) {
    publish_mbarriers(barrier.came);
    make_ready(std::move(barrier.waiting));
    barrier = {};
  }
  if (wait) wait_in(kNames[id]);
}

}  // namespace emulator
