// CUDA's keywords, its built-in variables, dynamic shared memory, and how the runner finds a kernel.
#pragma once
#undef __align__
#undef __constant__
#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __host__
#undef __launch_bounds__
#undef __noinline__
#undef __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#ifdef IM2WINGEN_SANITIZED
#define __shared__ static  // with the sanitizer's red zones around it
#else
#define __shared__ static thread_local  // in the kernel's thread-local block, which the runner fills with NaN per CTA
#endif

namespace emulator {

// Where a CUDA thread is in its grid.
struct Place {
  uint3 thread_index, block_index;
  dim3 block_size, grid_size;
  unsigned cluster_rank;  // of the CTA within its cluster
};
extern const Place* running;  // of the thread that has the processor

unsigned char* dynamic_shared_memory();
size_t shared_address(const void* generic);
void* generic_address(size_t shared);
[[noreturn]] void trap(const char* name);

// What the runner looks up by name in a compiled kernel.
struct KernelEntry {
  size_t argument_count;
  const size_t* argument_bytes;
  void (*call)(void** arguments);  // as one thread; `arguments` as for cuLaunchKernel
};

template <auto kernel>
struct Caller;
template <class... Argument, void (*kernel)(Argument...)>
struct Caller<kernel> {
  static constexpr size_t kBytes[] = {sizeof(Argument)..., 0};

  template <size_t... i>
  static void call_with(void** arguments, std::index_sequence<i...>) {
    kernel(*static_cast<Argument*>(arguments[i])...);
  }
  static void call(void** arguments) { call_with(arguments, std::index_sequence_for<Argument...>{}); }
  static constexpr KernelEntry kEntry = {sizeof...(Argument), kBytes, &call};
};

}  // namespace emulator

#define threadIdx (::emulator::running->thread_index)
#define blockIdx (::emulator::running->block_index)
#define blockDim (::emulator::running->block_size)
#define gridDim (::emulator::running->grid_size)
#define warpSize 32

// Addresses within shared memory begin at 1024, as on sm_90, and dynamic shared memory is aligned to 1024 in either space.
inline size_t __cvta_generic_to_shared(const void* generic) { return ::emulator::shared_address(generic); }
inline void* __cvta_shared_to_generic(size_t shared) { return ::emulator::generic_address(shared); }

#define IM2WINGEN_DYNAMIC_SMEM(name) unsigned char* const name = ::emulator::dynamic_shared_memory()
#define IM2WINGEN_EMULATED_ENTRY(kernel)                                                  \
  extern "C" __attribute__((visibility("default"))) const emulator::KernelEntry* emulated_entry() { \
    return &emulator::Caller<kernel>::kEntry;                                              \
  }
