// mbarriers of the CTA; their state is kept here, their 8 bytes of shared memory hold a mark that must stay.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

struct Thread;

void reset_mbarriers();
// What the threads that met at a barrier have initialised is now known to the others.
void publish_mbarriers(const std::vector<Thread*>& met);
// For the asynchronous copies: checks at the issue, bytes at the landing.
void require_mbarrier(const char* name, uint64_t* barrier);
void mbarrier_complete_tx(uint64_t* barrier, size_t bytes);
// "parity 1, 1 of 2 arrivals, 128 bytes to come, mbarrier at byte 64 of ..."
std::string describe_mbarrier(const uint64_t* barrier);

}  // namespace emulator
