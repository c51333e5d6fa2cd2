// templates/ptx/mbarrier.cuh on the CPU. A wait gives the processor away until its phase is over, so it never has to be
// asked twice. Too many arrivals or bytes, and a barrier used before its init is known to all, are errors.
#pragma once
namespace emulator {
void mbarrier_init(uint64_t* barrier, uint32_t arrivals);
void fence_mbarrier_init();
void mbarrier_arrive(uint64_t* barrier);
void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes);
void mbarrier_wait_parity(uint64_t* barrier, uint32_t parity);
}  // namespace emulator

namespace ptx {
inline void mbarrier_init(uint64_t* barrier, uint32_t arrivals) { emulator::mbarrier_init(barrier, arrivals); }
inline void fence_mbarrier_init() { emulator::fence_mbarrier_init(); }
inline void mbarrier_arrive(uint64_t* barrier) { emulator::mbarrier_arrive(barrier); }
inline void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  emulator::mbarrier_arrive_expect_tx(barrier, bytes);
}
inline bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
  emulator::mbarrier_wait_parity(barrier, parity);
  return true;
}
}  // namespace ptx
