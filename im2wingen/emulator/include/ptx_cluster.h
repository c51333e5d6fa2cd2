// templates/ptx/cluster.cuh on the CPU. The CTAs of a cluster run together. What a CTA wrote to its shared memory reaches its
// peers by a barrier of the cluster alone: without one they read poison, and so they do once it is overwritten. To read
// the memory of a CTA that has ended is an error.
#pragma once
namespace emulator {
uint32_t cluster_address(const void* smem, unsigned rank);
void cluster_load(uint32_t address, void* value, size_t bytes);
void cluster_arrive(bool publishes);
void cluster_wait();
}  // namespace emulator

namespace ptx {
inline uint32_t cluster_ctarank() { return emulator::running->cluster_rank; }
inline uint32_t mapa(const void* smem, uint32_t rank) { return emulator::cluster_address(smem, rank); }
inline void ld_shared_cluster_v4(uint32_t (&v)[4], uint32_t address) { emulator::cluster_load(address, v, sizeof v); }
inline void barrier_cluster_arrive() { emulator::cluster_arrive(true); }
inline void barrier_cluster_arrive_relaxed() { emulator::cluster_arrive(false); }
inline void barrier_cluster_wait() { emulator::cluster_wait(); }
}  // namespace ptx
