// The CTAs that run, those of one cluster: their threads, who may run next, who waits where.
//
// One thread runs at a time and keeps the processor until it waits. Clusters run one after another; where nothing is said, a
// CTA is a cluster. Which of the threads that may run gets the processor is a choice of the launch's seed, so that other
// seeds try other interleavings.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "async_copies.h"
#include "cluster.h"
#include "fiber.h"
#include "tensor_copies.h"
#include "wgmma.h"

namespace emulator {

constexpr unsigned kWarpLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Thread : Place {
  Fiber fiber;
  unsigned index = 0;  // within the CTA
  bool ended = false;
  const char* waits_in = nullptr;
  const uint64_t* waits_for = nullptr;  // the mbarrier, if it waits for one
  AsyncCopies copies;
  TensorStores stores;
  WgmmaLane wgmma;
  ClusterThread cluster;

  unsigned warp() const { return index / kWarpLanes; }
  unsigned lane() const { return index % kWarpLanes; }
};

// Lanes of a warp that came to one instruction and wait for the rest of `mask`.
struct Rendezvous {
  const char* instruction;
  bool aligned;  // the instruction is for all 32 lanes of the warp
  unsigned mask;
  unsigned arrived;
  void* operands[kWarpLanes];
  void (*perform)(void* const (&operands)[kWarpLanes], unsigned arrived);
};

struct Warp {
  unsigned live = 0;  // lanes that have not ended
  std::vector<Rendezvous> open;
};

struct Barrier {
  const char* instruction = nullptr;
  std::vector<Thread*> waiting;
  unsigned predicates = 0;
  BarrierResult result = {};
};

struct Launch {
  const KernelEntry* entry;
  void** arguments;
  dim3 grid, block;
  unsigned cluster;      // CTAs of one, neighbours in x
  unsigned seed;         // 0: threads in order, 1: in reverse, else shuffled
  unsigned char poison;  // what unwritten shared memory holds
};
void run_grid(const Launch& launch);

Thread& self();
Thread& thread_at(unsigned index);  // of the CTA of the thread that runs
size_t thread_count();              // of a CTA
// An index below `count`, by the seed: the first, the last, or any.
size_t choose(size_t count);
// Gives the processor away until someone makes this thread ready.
void wait_in(const char* instruction, const uint64_t* mbarrier = nullptr);
// May run the threads that are ready before this one goes on; by the seed, never for 0 and 1.
void let_others_run();
// Lets the threads run, in the seed's order.
void make_ready(std::vector<Thread*> threads);

// Brings this lane's operand to the warp's instruction. The last lane to come runs `perform` for all.
void collective(const char* instruction, bool aligned, unsigned mask, void* operand,
                void (*perform)(void* const (&operands)[kWarpLanes], unsigned arrived));

// What waits for all threads may go on when one ends.
void thread_left(const Thread& thread);
void reset_sync(unsigned ctas, size_t threads);
void reset_named_barriers(unsigned ctas);
bool cta_barrier_in_use();
bool named_barrier_in_use(int id);

bool stack_guard_holds(const void* address);

}  // namespace emulator
