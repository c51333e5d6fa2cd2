#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "report.h"
#ifdef IM2WINGEN_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef IM2WINGEN_SWITCH_X86_64
// Saves what the System V ABI lets a callee keep, and takes it from the other stack.
extern "C" void emulator_switch_stacks(void** save_stack_pointer, void* stack_pointer);
asm(R"(
.text
.p2align 4
.type emulator_switch_stacks, @function
emulator_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch_stacks, .-emulator_switch_stacks
)");
#endif

namespace emulator {

#ifdef IM2WINGEN_SANITIZED
// The process's own stack, as the address sanitizer wants it named; learnt at the first switch away from it.
static const void* main_stack = nullptr;
static size_t main_stack_bytes = 0;
#endif

char* allocate_stacks(size_t count) {
  const size_t pitch = kStackBytes + kPageBytes;
  void* stacks = mmap(nullptr, count * pitch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) fail("no memory for the stacks of %zu threads", count);
  for (size_t i = 0; i < count; ++i) mprotect(static_cast<char*>(stacks) + i * pitch, kPageBytes, PROT_NONE);
  return static_cast<char*>(stacks);
}

void prepare(Fiber& fiber, char* stack, void (*entry)()) {
  fiber.stack = stack;
  fiber.fake_stack = nullptr;
#ifdef IM2WINGEN_SANITIZED
  ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);  // frames of the thread before never returned
#endif
#ifdef IM2WINGEN_SWITCH_X86_64
  void** top = reinterpret_cast<void**>(stack + kStackBytes);
  *--top = nullptr;  // the entry's return address: it never returns, and its frame is aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.stack_pointer = top;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#endif
}

void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] bool from_ends) {
#ifdef IM2WINGEN_SANITIZED
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack, to.stack ? to.stack : main_stack,
                                 to.stack ? kStackBytes : main_stack_bytes);
#endif
#ifdef IM2WINGEN_SWITCH_X86_64
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#ifdef IM2WINGEN_SANITIZED
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void fiber_started() {
#ifdef IM2WINGEN_SANITIZED
  const void* left_stack;
  size_t left_bytes;
  __sanitizer_finish_switch_fiber(nullptr, &left_stack, &left_bytes);
  if (main_stack == nullptr) {
    main_stack = left_stack;
    main_stack_bytes = left_bytes;
  }
#endif
}

}  // namespace emulator
