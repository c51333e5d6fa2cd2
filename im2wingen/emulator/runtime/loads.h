// Asynchronous copies to shared memory that an mbarrier tells of. The device may carry one out at any moment between its
// issue and its end. Here it lands when no thread can run (or at random, by seed); until then its destination is poison.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulator {

void reset_loads();
// `land` writes the bytes; then they are completed on `barrier`. `name` is the instruction that is to blame.
void begin_load(const char* name, char* smem, size_t bytes, uint64_t* barrier, std::function<void()> land);
// Lets one load land, if any is under way.
bool land_a_load();
bool loads_in_flight();

}  // namespace emulator
