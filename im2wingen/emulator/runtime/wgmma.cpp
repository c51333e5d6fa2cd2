// wgmma. D as in the PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" (wgmma.m64nNk16): warp w of the
// warpgroup has rows 16 * w to 16 * w + 15, and of them group = lane / 4 and thread = lane % 4 hold in d_i
//   row = group + (i / 2 % 2 ? 8 : 0), column = i / 4 * 8 + thread * 2 + i % 2
//
// A warpgroup multiplies when the first of its warps has to wait for it; each lane's d is poison until its own wait. The
// operands are read when the first lane issues and once more then: chunks that have changed in between count as poison.
#include "wgmma.h"

#include <cstring>
#include <list>
#include <vector>

#include "block.h"
#include "report.h"
#include "wgmma_multiply.h"

namespace emulator {
namespace {

constexpr unsigned kGroupWarps = 4, kGroupThreads = kGroupWarps * kWarpLanes, kRows = kGroupWarps * kWarpRows;
constexpr const char* kWait = "wgmma.wait_group";

// What one array d of each lane of a warp stands for, from the first wgmma on it to the wait for the last.
struct Accumulators {
  float* d[kWarpLanes] = {};
  unsigned registers = 0;  // of each lane
  size_t last = 0;         // wgmma that is under way
  alignas(Row) float values[kWarpRows][kMaxColumns];

  float& value(unsigned lane, unsigned i) { return values[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2]; }
};

struct Instruction {
  const char* name;
  Multiplicand type;
  unsigned columns;
  uint64_t a, b;
  bool accumulate;
  bool held = false;  // a comes from registers
  unsigned lanes = 0;                             // that have issued it
  Accumulators* accumulators[kGroupWarps] = {};
  std::vector<Chunk> chunks_a = {}, chunks_b = {};  // at the issue

  bool same_as(const Instruction& other) const {
    return type == other.type && columns == other.columns && a == other.a && b == other.b &&
           accumulate == other.accumulate && held == other.held;
  }
};

struct Warpgroup {
  size_t done = 0;                    // wgmma that are no longer in flight
  std::deque<Instruction> in_flight;  // number `done` on
  std::list<Accumulators> accumulators[kGroupWarps];
  std::vector<Thread*> waiting;  // for the others to issue what they have issued

  size_t issued_by_all() const {
    size_t issued = done;
    for (const Instruction& instruction : in_flight) {
      if (instruction.lanes < kGroupThreads) break;
      ++issued;
    }
    return issued;
  }
};
std::vector<std::vector<Warpgroup>> warpgroups;  // of each CTA of the cluster

Warpgroup& warpgroup_of(const Thread& thread) { return warpgroups[thread.cluster_rank][thread.index / kGroupThreads]; }

void read_operands(const Instruction& instruction, std::vector<Chunk>& a, std::vector<Chunk>& b) {
  a.resize(kRows * kDepthChunks);
  b.resize(instruction.columns * kDepthChunks);
  if (!instruction.held) read_matrix(instruction.name, decode_descriptor(instruction.name, instruction.a), kRows, a.data());
  read_matrix(instruction.name, decode_descriptor(instruction.name, instruction.b), instruction.columns, b.data());
}

// The wgmma that the lane issues now, opened by the first lane to come.
Instruction& find_instruction(Warpgroup& group, const Instruction& mine) {
  const size_t position = self().wgmma.issued - group.done;
  if (position == group.in_flight.size()) {
    group.in_flight.push_back(mine);
    read_operands(mine, group.in_flight.back().chunks_a, group.in_flight.back().chunks_b);
  }
  Instruction& instruction = group.in_flight[position];
  if (!instruction.same_as(mine)) fail("%s differs from what other threads of the warpgroup have issued", mine.name);
  return instruction;
}

Accumulators& find_accumulators(Warpgroup& group, Instruction& instruction, const float* d) {
  const Thread& thread = self();
  const unsigned warp = thread.warp() % kGroupWarps;
  if (instruction.accumulators[warp]) return *instruction.accumulators[warp];
  for (Accumulators& known : group.accumulators[warp])
    if (known.d[thread.lane()] == d) return *(instruction.accumulators[warp] = &known);
  return *(instruction.accumulators[warp] = &group.accumulators[warp].emplace_back());
}

// From now on the accumulators of this lane belong to the wgmma.
void hand_over(Accumulators& accumulators, const char* name, float* d, unsigned registers) {
  const unsigned lane = self().lane();
  if (accumulators.registers == 0) accumulators.registers = registers;
  if (accumulators.registers != registers) fail("%s: a wgmma of another N on these accumulators is under way", name);
  if (accumulators.d[lane] == nullptr) {
    if (!self().wgmma.fenced) fail("%s: no wgmma.fence since the thread last had its accumulators", name);
    accumulators.d[lane] = d;
    for (unsigned i = 0; i < registers; ++i) accumulators.value(lane, i) = d[i];
    poison(d, registers * sizeof(float));
  }
  if (accumulators.d[lane] != d) fail("%s: the lanes of the warp give different accumulators", name);
  if (!is_poison(d, registers * sizeof(float)))
    fail("%s: the accumulators were written while a wgmma is under way", name);
}

void perform(Instruction& instruction) {
  static std::vector<Chunk> a, b;
  read_operands(instruction, a, b);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = instruction.held ? instruction.chunks_a[i] : unless_changed(instruction.chunks_a[i], a[i]);
  for (size_t i = 0; i < b.size(); ++i) b[i] = unless_changed(instruction.chunks_b[i], b[i]);
  for (unsigned warp = 0; warp < kGroupWarps; ++warp)
    multiply_warp_rows(instruction.type, &a[warp * kWarpRows * kDepthChunks], b.data(), instruction.columns,
                       instruction.accumulate, instruction.accumulators[warp]->values);
}

// The lanes get back the accumulators that no wgmma after number `through` - 1 writes.
void give_back(std::list<Accumulators>& all, unsigned warp, size_t through) {
  for (auto accumulators = all.begin(); accumulators != all.end();) {
    if (accumulators->last >= through) {
      ++accumulators;
      continue;
    }
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      for (unsigned i = 0; i < accumulators->registers; ++i) accumulators->d[lane][i] = accumulators->value(lane, i);
      thread_at(warp * kWarpLanes + lane).wgmma.fenced = false;
    }
    accumulators = all.erase(accumulators);
  }
}

void perform_wait(void* const (&operands)[kWarpLanes], unsigned) {
  const size_t through = *static_cast<size_t*>(operands[0]);
  for (void* operand : operands)
    if (*static_cast<size_t*>(operand) != through) fail("%s: the lanes of the warp wait for different groups", kWait);
  Warpgroup& group = warpgroup_of(self());
  for (; group.done < through; ++group.done, group.in_flight.pop_front()) perform(group.in_flight.front());
  give_back(group.accumulators[self().warp() % kGroupWarps], self().warp(), through);
}

}  // namespace

void reset_wgmma(unsigned ctas, size_t threads) {
  warpgroups.clear();
  warpgroups.resize(ctas);
  for (std::vector<Warpgroup>& groups : warpgroups) groups.resize((threads + kGroupThreads - 1) / kGroupThreads);
}

void wgmma_fence() {
  collective("wgmma.fence", true, kAllLanes, nullptr, [](void* const (&)[kWarpLanes], unsigned) {});
  self().wgmma.fenced = true;
}

static void issue(Instruction mine, float* d, const uint32_t* held) {
  const char* const name = mine.name;
  const unsigned n = mine.columns;
  Thread& thread = self();
  if (n % 8 || n == 0 || n > kMaxColumns) fail("%s: N is %u; allowed are multiples of 8 up to 256", name, n);
  if (thread.index / kGroupThreads * kGroupThreads + kGroupThreads > thread_count())
    fail("%s needs a whole warpgroup of 128 threads", name);
  Warpgroup& group = warpgroup_of(thread);
  Instruction& instruction = find_instruction(group, mine);
  if (held) {  // bytes 16 * j + 4 * (lane % 4) ... of row 16 * warp + lane / 4 + 8 * i, in held[i + 2 * j]
    const unsigned warp = thread.warp() % kGroupWarps, lane = thread.lane();
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = warp * kWarpRows + lane / 4 + i % 2 * 8;
      std::memcpy(reinterpret_cast<char*>(&instruction.chunks_a[row * kDepthChunks + i / 2]) + lane % 4 * 4, held + i, 4);
    }
  }
  Accumulators& accumulators = find_accumulators(group, instruction, d);
  hand_over(accumulators, name, d, n / 2);
  accumulators.last = thread.wgmma.issued++;
  if (++instruction.lanes < kGroupThreads) return;
  make_ready(std::move(group.waiting));
  group.waiting.clear();
}

void wgmma(const char* name, Multiplicand type, float* d, unsigned n, uint64_t a, uint64_t b, bool accumulate) {
  issue({name, type, n, a, b, accumulate}, d, nullptr);
}

void wgmma_held(const char* name, Multiplicand type, float* d, unsigned n, const uint32_t* a, uint64_t b, bool accumulate) {
  issue({name, type, n, 0, b, accumulate, true}, d, a);
}

void wgmma_commit_group() { self().wgmma.groups.push_back(self().wgmma.issued); }

void wgmma_wait_group(unsigned pending) {
  Thread& thread = self();
  Warpgroup& group = warpgroup_of(thread);
  std::deque<size_t>& groups = thread.wgmma.groups;
  size_t through = thread.wgmma.waited;
  for (; groups.size() > pending; groups.pop_front()) through = groups.front();
  while (group.issued_by_all() < through) {
    group.waiting.push_back(&thread);
    wait_in(kWait);
  }
  collective(kWait, true, kAllLanes, &through, perform_wait);
  thread.wgmma.waited = through;
}

}  // namespace emulator
