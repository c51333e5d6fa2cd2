// A stack with a point of execution: what a CUDA thread runs on.
#pragma once
#include <cstddef>
#if defined(__x86_64__) && !defined(IM2WINGEN_UCONTEXT)
#define IM2WINGEN_SWITCH_X86_64
#else
#include <ucontext.h>
#endif

namespace emulator {

#ifdef IM2WINGEN_SANITIZED
constexpr size_t kStackBytes = 512 * 1024;
#else
constexpr size_t kStackBytes = 128 * 1024;
#endif
constexpr size_t kPageBytes = 4096;

struct Fiber {
  char* stack = nullptr;  // its lowest byte; nullptr for the process's own stack
#ifdef IM2WINGEN_SWITCH_X86_64
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  void* fake_stack = nullptr;  // the address sanitizer's
};

// `count` stacks, each above a page that must not be touched (so that an overflow is a fault).
char* allocate_stacks(size_t count);
inline char* stack_of(char* stacks, size_t i) { return stacks + i * (kStackBytes + kPageBytes) + kPageBytes; }

void prepare(Fiber& fiber, char* stack, void (*entry)());
void switch_fiber(Fiber& from, Fiber& to, bool from_ends);
void fiber_started();  // the first call of every entry

}  // namespace emulator
