// templates/ptx/named_barrier.cuh on the CPU.
#pragma once
namespace emulator {
void named_barrier(int id, int threads, bool wait);
}  // namespace emulator

namespace ptx {
inline void barrier_sync(int id, int threads) { emulator::named_barrier(id, threads, true); }
inline void barrier_arrive(int id, int threads) { emulator::named_barrier(id, threads, false); }
}  // namespace ptx
