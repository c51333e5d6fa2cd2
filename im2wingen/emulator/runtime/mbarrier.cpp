#include "mbarrier.h"

#include <algorithm>
#include <unordered_map>

#include "block.h"
#include "memory.h"
#include "report.h"

namespace emulator {
namespace {

constexpr uint64_t kMark = 0x72656972726162ull;
constexpr uint32_t kMaxCount = (1u << 20) - 1;  // of arrivals and of bytes (PTX ISA, "Contents of the mbarrier object")

struct Mbarrier {
  uint32_t arrivals = 0;  // of a phase
  uint32_t pending = 0;   // arrivals that this phase still lacks
  int64_t bytes = 0;      // expected less landed; below zero while bytes land before they are expected
  uint32_t parity = 0;    // of the phase that runs
  const Thread* initialiser = nullptr;
  bool fenced = false, known = false;  // by fence.mbarrier_init; to the other threads
  std::vector<Thread*> waiting;
};

std::unordered_map<const uint64_t*, Mbarrier> mbarriers;

Mbarrier& find(const char* name, uint64_t* barrier) {
  const auto found = mbarriers.find(barrier);
  if (found == mbarriers.end()) fail("%s: no mbarrier was initialised at %s", name, describe_address(barrier).c_str());
  Mbarrier& state = found->second;
  if (*barrier != kMark) fail("%s: the mbarrier was overwritten at %s", name, describe_address(barrier).c_str());
  if (!state.fenced)
    fail("%s: no fence.mbarrier_init followed the init of the mbarrier at %s", name, describe_address(barrier).c_str());
  if (!state.known && state.initialiser != &self())
    fail("%s: no barrier of the CTA followed the init of the mbarrier at %s", name, describe_address(barrier).c_str());
  return state;
}

void end_phase_if_over(const uint64_t* barrier, Mbarrier& state) {
  if (state.pending > 0) return;
  if (state.bytes < 0)
    fail("%lld bytes more landed than were expected: %s", -static_cast<long long>(state.bytes),
         describe_mbarrier(barrier).c_str());
  if (state.bytes > 0) return;
  state.parity ^= 1;
  state.pending = state.arrivals;
  make_ready(std::move(state.waiting));
  state.waiting.clear();
}

void arrive(const char* name, uint64_t* barrier, uint32_t bytes) {
  Mbarrier& state = find(name, barrier);
  if (state.pending == 0) fail("%s: more arrivals than the phase has: %s", name, describe_mbarrier(barrier).c_str());
  state.bytes += bytes;
  if (state.bytes > kMaxCount) fail("%s: more than %u bytes: %s", name, kMaxCount, describe_mbarrier(barrier).c_str());
  --state.pending;
  end_phase_if_over(barrier, state);
  let_others_run();  // who comes after this thread may be late
}

}  // namespace

void reset_mbarriers() { mbarriers.clear(); }

void publish_mbarriers(const std::vector<Thread*>& met) {
  for (auto& [barrier, state] : mbarriers)
    if (!state.known) state.known = std::find(met.begin(), met.end(), state.initialiser) != met.end();
}

void require_mbarrier(const char* name, uint64_t* barrier) { find(name, barrier); }

void mbarrier_complete_tx(uint64_t* barrier, size_t bytes) {
  Mbarrier& state = mbarriers.at(barrier);
  if (*barrier != kMark) fail("the mbarrier of a copy was overwritten at %s", describe_address(barrier).c_str());
  state.bytes -= int64_t(bytes);
  end_phase_if_over(barrier, state);
}

std::string describe_mbarrier(const uint64_t* barrier) {
  const Mbarrier& state = mbarriers.at(barrier);
  return "parity " + std::to_string(state.parity) + ", " + std::to_string(state.arrivals - state.pending) + " of " +
         std::to_string(state.arrivals) + " arrivals, " + std::to_string(state.bytes) + " bytes to come, mbarrier at " +
         describe_address(barrier);
}

void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  if (reinterpret_cast<uintptr_t>(barrier) % 8) fail("mbarrier.init: the barrier is not aligned to 8 bytes");
  if (!in_shared_memory(barrier, 8))
    fail("mbarrier.init: the barrier is outside shared memory: %s", describe_address(barrier).c_str());
  if (arrivals == 0 || arrivals > kMaxCount) fail("mbarrier.init: %u arrivals; allowed are 1 to %u", arrivals, kMaxCount);
  if (mbarriers.count(barrier)) fail("mbarrier.init of a barrier in use: %s", describe_mbarrier(barrier).c_str());
  Mbarrier& state = mbarriers[barrier];
  state.arrivals = state.pending = arrivals;
  state.initialiser = &self();
  *barrier = kMark;
}

void fence_mbarrier_init() {
  for (auto& [barrier, state] : mbarriers) state.fenced |= state.initialiser == &self();
}

void mbarrier_arrive(uint64_t* barrier) { arrive("mbarrier.arrive", barrier, 0); }

void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) { arrive("mbarrier.arrive.expect_tx", barrier, bytes); }

void mbarrier_wait_parity(uint64_t* barrier, uint32_t parity) {
  constexpr const char* kName = "mbarrier.try_wait.parity";
  if (parity > 1) fail("%s: a parity of %u; allowed are 0 and 1", kName, parity);
  // Asked anew when woken: as on a device, who comes late by a whole phase waits for the next.
  for (Mbarrier& state = find(kName, barrier); state.parity == parity;) {
    state.waiting.push_back(&self());
    wait_in(kName, barrier);
  }
}

}  // namespace emulator
