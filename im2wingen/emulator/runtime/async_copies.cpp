// cp.async: the device may carry a copy out at any moment between its issue and its wait. Here it happens at the wait, so
// that whoever reads earlier reads poison, and whoever overwrites the source earlier is seen.
#include "async_copies.h"

#include <cstdint>
#include <cstring>

#include "block.h"
#include "memory.h"
#include "report.h"

namespace emulator {

bool AsyncCopies::in_flight() const {
  for (const auto& group : groups)
    if (!group.empty()) return true;
  return !open.empty();
}

void cp_async(const char* name, void* smem, const void* gmem, unsigned bytes, bool valid) {
  if (reinterpret_cast<uintptr_t>(smem) % bytes) fail("%s: the destination is not aligned to %u bytes", name, bytes);
  if (valid && reinterpret_cast<uintptr_t>(gmem) % bytes) fail("%s: the source is not aligned to %u bytes", name, bytes);
  if (!in_shared_memory(smem, bytes))
    fail("%s: the destination is outside shared memory: %s", name, describe_address(smem).c_str());
  poison(smem, bytes);
  self().copies.open.push_back({smem, gmem, bytes, valid});
}

void cp_async_commit_group() {
  AsyncCopies& copies = self().copies;
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}

void cp_async_wait_group(unsigned pending) {
  AsyncCopies& copies = self().copies;
  for (; copies.groups.size() > pending; copies.groups.pop_front())
    for (const Copy& copy : copies.groups.front())
      if (copy.valid)
        memcpy(copy.smem, copy.gmem, copy.bytes);
      else
        memset(copy.smem, 0, copy.bytes);
}

}  // namespace emulator
