// How a launch fails: one sentence on stderr that says which thread of which CTA, and an exit status of its own.
#pragma once

namespace emulator {

constexpr int kReportedStatus = 3;

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
void install_fault_handlers();

}  // namespace emulator
