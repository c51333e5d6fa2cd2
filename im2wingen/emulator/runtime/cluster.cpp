#include "cluster.h"

#include <cstring>
#include <vector>

#include "block.h"
#include "memory.h"
#include "report.h"

namespace emulator {
namespace {

constexpr unsigned kRankShift = 24;  // of an address of the cluster: above those of a CTA's shared memory
constexpr const char* kLoad = "ld.shared::cluster";

struct Cluster {
  std::vector<size_t> live;              // threads of each CTA
  std::vector<std::vector<char>> shown;  // of each CTA's shared memory, as it was at the last barrier
  size_t arrived = 0, relaxed = 0, phase = 0;
  std::vector<Thread*> waiting;
} cluster;

void end_phase_if_over() {
  size_t live = 0;
  for (const size_t threads : cluster.live) live += threads;
  if (cluster.arrived == 0 || cluster.arrived < live) return;
  // A relaxed arrival publishes nothing: here, none of the phase does.
  for (unsigned rank = 0; cluster.relaxed == 0 && rank < cluster.live.size(); ++rank) {
    const Region& region = dynamic_region(rank);
    cluster.shown[rank].assign(region.begin, region.begin + region.bytes);
  }
  cluster.arrived = cluster.relaxed = 0;
  ++cluster.phase;
  make_ready(std::move(cluster.waiting));
  cluster.waiting.clear();
}

}  // namespace

void reset_cluster(unsigned ctas, size_t threads) {
  cluster = {};
  cluster.live.assign(ctas, threads);
  cluster.shown.resize(ctas);
}

void thread_left_cluster(const Thread& thread) {
  if (thread.cluster.arrived) fail("the thread ended between its arrival at the cluster's barrier and its wait");
  --cluster.live[thread.cluster_rank];
  end_phase_if_over();
}

uint32_t cluster_address(const void* smem, unsigned rank) {
  if (rank >= cluster.live.size()) fail("mapa: rank %u of a cluster of %zu CTAs", rank, cluster.live.size());
  return uint32_t(rank + 1) << kRankShift | uint32_t(shared_address(smem));
}

void cluster_load(uint32_t address, void* value, size_t bytes) {
  if (address % bytes) fail("%s of %zu bytes at a misaligned address", kLoad, bytes);
  if (address >> kRankShift == 0 || address >> kRankShift > cluster.live.size())
    fail("%s of what mapa has not mapped", kLoad);
  const unsigned rank = (address >> kRankShift) - 1;
  const size_t offset = shared_offset(address & ((1u << kRankShift) - 1), bytes);
  const char* const now = dynamic_region(rank).begin + offset;
  memcpy(value, now, bytes);
  if (rank == self().cluster_rank) return;
  if (cluster.live[rank] == 0) fail("%s from CTA %u of the cluster, which has ended", kLoad, rank);
  if (cluster.shown[rank].empty()) fail("%s from CTA %u before any barrier of the cluster", kLoad, rank);
  if (memcmp(cluster.shown[rank].data() + offset, now, bytes) != 0) poison(value, bytes);
}

void cluster_arrive(bool publishes) {
  ClusterThread& mine = self().cluster;
  if (mine.arrived) fail("barrier.cluster.arrive: the thread has not waited since it last arrived");
  mine = {true, cluster.phase};
  ++cluster.arrived;
  cluster.relaxed += !publishes;
  end_phase_if_over();
}

void cluster_wait() {
  constexpr const char* kName = "barrier.cluster.wait";
  ClusterThread& mine = self().cluster;
  if (!mine.arrived) fail("%s: the thread has not arrived", kName);
  while (cluster.phase == mine.phase) {
    cluster.waiting.push_back(&self());
    wait_in(kName);
  }
  mine.arrived = false;
}

}  // namespace emulator
