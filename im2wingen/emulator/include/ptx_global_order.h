// templates/ptx/global_order.cuh and nanosleep.cuh on the CPU, where one CTA runs after the other: threads of one write and
// read in some order, and a pause lets the others run.
#pragma once
namespace emulator {
void pause();
}  // namespace emulator

namespace ptx {
inline uint32_t ld_acquire_gpu(const uint32_t* gmem) { return *static_cast<const volatile uint32_t*>(gmem); }
inline void red_release_gpu_add(uint32_t* gmem, uint32_t value) { *gmem += value; }
inline void fence_proxy_async_global() {}
inline void nanosleep(uint32_t) { emulator::pause(); }
}  // namespace ptx
