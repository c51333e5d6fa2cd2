// Barriers of the CTA and rendezvous of the lanes of a warp.
#include <cstring>

#include "block.h"
#include "mbarrier.h"
#include "report.h"

namespace emulator {
namespace {

// What one CTA waits at.
struct CtaSync {
  Barrier barrier;
  unsigned live_threads = 0;
  std::vector<Warp> warps;
};
std::vector<CtaSync> ctas;  // of the cluster

CtaSync& own() { return ctas[self().cluster_rank]; }

bool same(const char* a, const char* b) { return a == b || strcmp(a, b) == 0; }

void complete(Barrier& barrier) {
  barrier.result = {barrier.predicates, unsigned(barrier.waiting.size())};
  barrier.predicates = 0;
  publish_mbarriers(barrier.waiting);
  make_ready(std::move(barrier.waiting));
  barrier.waiting.clear();
}

void complete(unsigned warp, size_t position) {
  std::vector<Rendezvous>& open = own().warps[warp].open;
  const Rendezvous rendezvous = open[position];
  open.erase(open.begin() + std::ptrdiff_t(position));
  rendezvous.perform(rendezvous.operands, rendezvous.arrived);
  std::vector<Thread*> lanes;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (rendezvous.arrived >> lane & 1) lanes.push_back(&thread_at(warp * kWarpLanes + lane));
  make_ready(std::move(lanes));
}

// Where the lanes of `mask` meet for the instruction; opened by the first to come.
size_t find_rendezvous(Warp& warp, const Rendezvous& wanted) {
  for (size_t i = 0; i < warp.open.size(); ++i) {
    const Rendezvous& other = warp.open[i];
    const bool same_instruction = same(other.instruction, wanted.instruction);
    if (same_instruction && other.mask == wanted.mask) return i;
    if (other.aligned || wanted.aligned || other.mask == wanted.mask)
      fail("%s with mask %08x, while other lanes of the warp are in %s with mask %08x", wanted.instruction, wanted.mask,
           other.instruction, other.mask);
  }
  warp.open.push_back(wanted);
  return warp.open.size() - 1;
}

}  // namespace

void reset_sync(unsigned count, size_t threads) {
  ctas.assign(count, {});
  for (CtaSync& cta : ctas) {
    cta.live_threads = unsigned(threads);
    cta.warps.resize((threads + kWarpLanes - 1) / kWarpLanes);
    for (size_t i = 0; i < threads; ++i) cta.warps[i / kWarpLanes].live |= 1u << i % kWarpLanes;
  }
}

bool cta_barrier_in_use() { return !own().barrier.waiting.empty(); }

BarrierResult barrier(const char* name, bool predicate) {
  Barrier& cta_barrier = own().barrier;
  if (named_barrier_in_use(0)) fail("%s, while other threads of the CTA are in bar 0, which is the same barrier", name);
  if (!cta_barrier.waiting.empty() && !same(cta_barrier.instruction, name))
    fail("%s, while other threads of the CTA are in %s", name, cta_barrier.instruction);
  cta_barrier.instruction = name;
  cta_barrier.waiting.push_back(&self());
  cta_barrier.predicates += predicate;
  if (cta_barrier.waiting.size() == own().live_threads) complete(cta_barrier);
  wait_in(name);
  return cta_barrier.result;  // stands until every thread has come to the next barrier
}

void collective(const char* instruction, bool aligned, unsigned mask, void* operand,
                void (*perform)(void* const (&operands)[kWarpLanes], unsigned arrived)) {
  const Thread& thread = self();
  Warp& warp = own().warps[thread.warp()];
  if (!(mask >> thread.lane() & 1)) fail("%s: lane %u is not in its own mask %08x", instruction, thread.lane(), mask);
  if (aligned && warp.live != kAllLanes) fail("%s needs all 32 lanes; those that run are %08x", instruction, warp.live);
  const size_t position = find_rendezvous(warp, {instruction, aligned, mask, 0, {}, perform});
  Rendezvous& rendezvous = warp.open[position];
  rendezvous.operands[thread.lane()] = operand;
  rendezvous.arrived |= 1u << thread.lane();
  if (rendezvous.arrived == (mask & warp.live)) complete(thread.warp(), position);
  wait_in(instruction);
}

void thread_left(const Thread& thread) {
  CtaSync& cta = own();
  --cta.live_threads;
  Warp& warp = cta.warps[thread.warp()];
  warp.live &= ~(1u << thread.lane());
  for (size_t i = 0; i < warp.open.size(); ++i) {
    const Rendezvous& rendezvous = warp.open[i];
    if (rendezvous.aligned)
      fail("the thread ended while other lanes of its warp are in %s, which needs all 32", rendezvous.instruction);
    if (rendezvous.arrived == (rendezvous.mask & warp.live)) complete(thread.warp(), i--);
  }
  if (!cta.barrier.waiting.empty() && cta.barrier.waiting.size() == cta.live_threads) complete(cta.barrier);
}

namespace {
struct Exchange {
  uint64_t value;
  uint64_t* values;  // of all lanes
  unsigned arrived;
};
void perform_exchange(void* const (&operands)[kWarpLanes], unsigned arrived) {
  uint64_t values[kWarpLanes] = {};
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    if (arrived >> lane & 1) values[lane] = static_cast<Exchange*>(operands[lane])->value;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!(arrived >> lane & 1)) continue;
    Exchange& exchange = *static_cast<Exchange*>(operands[lane]);
    memcpy(exchange.values, values, sizeof values);
    exchange.arrived = arrived;
  }
}
}  // namespace

unsigned exchange(const char* name, unsigned mask, uint64_t value, uint64_t (&values)[32]) {
  Exchange operand = {value, values, 0};
  collective(name, false, mask, &operand, perform_exchange);
  return operand.arrived;
}

void read_of_absent_lane(const char* name, int lane) { fail("%s reads lane %d, which takes no part in it", name, lane); }

}  // namespace emulator
