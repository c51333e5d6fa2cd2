// nanosleep (sm_70 and later): a pause of up to twice so long, in a loop that asks memory for what another thread will write.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void nanosleep(uint32_t ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }
}  // namespace ptx
#endif
