#include "report.h"

#include <signal.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "block.h"
#include "memory.h"
#ifdef IM2WINGEN_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {
namespace {

std::string place() {
  if (running == nullptr) return "";
  const Place& p = *running;
  char text[160];
  snprintf(text, sizeof text, "block (%u,%u,%u) thread (%u,%u,%u): ", p.block_index.x, p.block_index.y, p.block_index.z,
           p.thread_index.x, p.thread_index.y, p.thread_index.z);
  return text;
}

[[maybe_unused]] void fault(int signal, siginfo_t* info, void*) {
  constexpr int kSentByKernel = 0x80;  // SI_KERNEL: the processor gave no address
  if (signal == SIGFPE) fail("integer division by zero");
  if (info->si_code == kSentByKernel) fail("a vector access that is not aligned to its size, or a wild address");
  fail("access to %s", describe_address(info->si_addr).c_str());
}

#ifdef IM2WINGEN_SANITIZED
void name_place() {
  std::string text = place();
  if (void* address = __asan_get_report_address()) text += "access to " + describe_address(address);
  fprintf(stderr, "\nemulator: %s\n", text.c_str());
}
#endif

}  // namespace

void fail(const char* format, ...) {
  fflush(stdout);
  fprintf(stderr, "emulator: %s", place().c_str());
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  fflush(stderr);
  _exit(kReportedStatus);
}

void trap(const char* name) { fail("%s", name); }

void install_fault_handlers() {
#ifdef IM2WINGEN_SANITIZED
  __sanitizer_set_death_callback(name_place);
#else
  static char stack[64 * 1024];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
#endif
}

}  // namespace emulator

#ifdef IM2WINGEN_SANITIZED
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0:allocator_may_return_null=1";
}
extern "C" __attribute__((visibility("default"))) const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif
