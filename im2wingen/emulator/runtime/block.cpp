#include "block.h"

#include <algorithm>
#include <functional>

#include "loads.h"
#include "mbarrier.h"
#include "memory.h"
#include "report.h"

namespace emulator {

const Place* running = nullptr;

namespace {

struct Grid {
  Launch launch = {};
  std::vector<Thread> threads;  // of the CTAs of a cluster, one after the other
  size_t cta_threads = 0;
  std::deque<Thread*> ready;
  Fiber scheduler;  // the process's own stack: between CTAs
  Thread* current = nullptr;
  unsigned live = 0;
  std::mt19937 random;
  uint64_t hasty = 0;  // a bit a warpgroup: its threads rather run ahead of the others
  char* stacks = nullptr;
} grid;

// "threads 0-31, 64": runs of indices in one state.
std::string ranges(const std::vector<unsigned>& indices) {
  std::string text = indices.size() == 1 ? "thread " : "threads ";
  for (size_t i = 0; i < indices.size();) {
    size_t end = i;
    while (end + 1 < indices.size() && indices[end + 1] == indices[end] + 1) ++end;
    if (i > 0) text += ", ";
    text += std::to_string(indices[i]);
    if (end > i) text += "-" + std::to_string(indices[end]);
    i = end + 1;
  }
  return text;
}

[[noreturn]] void report_deadlock() {
  std::vector<std::string> states;
  std::vector<std::vector<unsigned>> members;
  for (const Thread& thread : grid.threads) {
    std::string state = thread.ended ? "ended" : std::string("wait in ") + thread.waits_in;
    if (grid.launch.cluster > 1) state += " (CTA " + std::to_string(thread.cluster_rank) + " of the cluster)";
    if (!thread.ended && thread.waits_for) state += " (" + describe_mbarrier(thread.waits_for) + ")";
    size_t i = std::find(states.begin(), states.end(), state) - states.begin();
    if (i == states.size()) {
      states.push_back(state);
      members.emplace_back();
    }
    members[i].push_back(thread.index);
  }
  std::string text;
  for (size_t i = 0; i < states.size(); ++i) text += (i ? "; " : "") + ranges(members[i]) + " " + states[i];
  const uint3 block = running->block_index;
  running = nullptr;  // no one thread is to blame
  fail("block (%u,%u,%u): deadlock: %s", block.x, block.y, block.z, text.c_str());
}

void run(Fiber& from, Thread& next, bool from_ends) {
  grid.current = &next;
  running = &next;
  switch_fiber(from, next.fiber, from_ends);
}

Thread& take_ready() {
  while (grid.ready.empty() && land_a_load()) {}
  if (grid.ready.empty()) report_deadlock();
  Thread* next = grid.ready.front();
  grid.ready.pop_front();
  return *next;
}

[[noreturn]] void end_thread() {
  Thread& thread = self();
  if (thread.copies.in_flight()) fail("the thread ended with cp.async copies in flight");
  if (thread.stores.unread()) fail("the thread ended before its TMA stores had read shared memory");
  if (thread.wgmma.in_flight()) fail("the thread ended with wgmma in flight");
  finish_stores(thread.stores);
  thread.ended = true;
  --grid.live;
  thread_left(thread);
  thread_left_cluster(thread);
  if (grid.live == 0)
    switch_fiber(thread.fiber, grid.scheduler, true);
  else
    run(thread.fiber, take_ready(), true);
  __builtin_unreachable();
}

void thread_entry() {
  fiber_started();
  grid.launch.entry->call(grid.launch.arguments);
  end_thread();
}

// The CTAs from `first` on, of one cluster.
void run_cluster(uint3 first) {
  const dim3 size = grid.launch.block;
  const unsigned ctas = grid.launch.cluster;
  running = nullptr;
  poison_shared_memory(grid.launch.poison);
  reset_async_proxy();
  reset_loads();
  reset_mbarriers();
  reset_named_barriers(ctas);
  reset_wgmma(ctas, grid.cta_threads);
  reset_sync(ctas, grid.cta_threads);
  reset_cluster(ctas, grid.cta_threads);
  grid.live = unsigned(grid.threads.size());
  std::vector<Thread*> all;
  for (unsigned at = 0; at < grid.live; ++at) {
    Thread& thread = grid.threads[at];
    const unsigned i = at % unsigned(grid.cta_threads);
    thread.thread_index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    thread.cluster_rank = at / unsigned(grid.cta_threads);
    thread.block_index = {first.x + thread.cluster_rank, first.y, first.z};
    thread.block_size = size;
    thread.grid_size = grid.launch.grid;
    thread.index = i;
    thread.ended = false;
    thread.copies = {};
    thread.stores = {};
    thread.wgmma = {};
    thread.cluster = {};
    prepare(thread.fiber, stack_of(grid.stacks, at), thread_entry);
    all.push_back(&thread);
  }
  grid.hasty = ctas == 1 ? grid.random() : grid.random() | uint64_t(grid.random()) << 32;
  make_ready(std::move(all));
  run(grid.scheduler, take_ready(), false);
  if (loads_in_flight()) {
    running = nullptr;
    fail("block (%u,%u,%u) ended with bulk loads in flight", first.x, first.y, first.z);
  }
  check_shared_memory_guard();
}

}  // namespace

Thread& self() { return *grid.current; }
Thread& thread_at(unsigned index) { return grid.threads[self().cluster_rank * grid.cta_threads + index]; }
unsigned lane_index() { return self().lane(); }

void make_ready(std::vector<Thread*> threads) {
  const unsigned seed = grid.launch.seed;
  std::sort(threads.begin(), threads.end(), std::less<>());
  if (seed > 1) std::shuffle(threads.begin(), threads.end(), grid.random);
  if (seed == 1) std::reverse(threads.begin(), threads.end());
  // In front: these run ahead of the others for as long as they can; at the back: they let the others catch up.
  const unsigned coin = seed <= 1 ? 0 : grid.random() % 4;
  const auto last_ahead = std::stable_partition(threads.begin(), threads.end(), [coin](const Thread* thread) {
    return coin < 2 ? coin == 0 : (grid.hasty >> size_t(thread - grid.threads.data()) / 128 % 64 & 1) != 0;
  });
  grid.ready.insert(grid.ready.begin(), threads.begin(), last_ahead);
  grid.ready.insert(grid.ready.end(), last_ahead, threads.end());
}

size_t thread_count() { return grid.cta_threads; }

size_t choose(size_t count) {
  const unsigned seed = grid.launch.seed;
  return seed == 0 ? 0 : seed == 1 ? count - 1 : grid.random() % count;
}

void wait_in(const char* instruction, const uint64_t* mbarrier) {
  constexpr unsigned kOneIn = 4;  // waits, of which as many see a load land early
  Thread& thread = self();
  thread.waits_in = instruction;
  thread.waits_for = mbarrier;
  if (grid.launch.seed > 1 && loads_in_flight() && grid.random() % kOneIn == 0) land_a_load();
  Thread& next = take_ready();
  if (&next != &thread) run(thread.fiber, next, false);
}

void let_others_run() {
  Thread& thread = self();
  if (grid.launch.seed <= 1 || grid.ready.empty() || grid.random() % 2 == 0) return;
  grid.ready.push_back(&thread);
  run(thread.fiber, take_ready(), false);
}

void run_grid(const Launch& launch) {
  grid.launch = launch;
  grid.random.seed(launch.seed);
  grid.cta_threads = size_t(launch.block.x) * launch.block.y * launch.block.z;
  grid.threads.resize(launch.cluster * grid.cta_threads);
  grid.stacks = allocate_stacks(grid.threads.size());
  for (unsigned z = 0; z < launch.grid.z; ++z)
    for (unsigned y = 0; y < launch.grid.y; ++y)
      for (unsigned x = 0; x < launch.grid.x; x += launch.cluster) run_cluster({x, y, z});
  running = nullptr;
}

bool stack_guard_holds(const void* address) {
  for (size_t i = 0; i < grid.threads.size(); ++i) {
    const char* guard = stack_of(grid.stacks, i) - kPageBytes;
    if (address >= guard && address < guard + kPageBytes) return true;
  }
  return false;
}

}  // namespace emulator
