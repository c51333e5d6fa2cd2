#include "loads.h"

#include <vector>

#include "async_proxy.h"
#include "block.h"
#include "mbarrier.h"
#include "memory.h"
#include "report.h"

namespace emulator {
namespace {

struct Load {
  char* smem;
  size_t bytes;
  uint64_t* barrier;
  std::function<void()> land;
};
std::vector<Load> loads;  // oldest first

}  // namespace

void reset_loads() { loads.clear(); }
bool loads_in_flight() { return !loads.empty(); }

void begin_load(const char* name, char* smem, size_t bytes, uint64_t* barrier, std::function<void()> land) {
  require_shared(name, smem, bytes);
  require_mbarrier(name, barrier);
  if (!published(smem, bytes))
    fail("%s: threads have written where it goes and no fence.proxy.async followed: %s", name,
         describe_address(smem).c_str());
  for (const Load& load : loads)
    if (smem < load.smem + load.bytes && load.smem < smem + bytes)
      fail("%s: another load is under way to where it goes: %s", name, describe_address(smem).c_str());
  async_poison(smem, bytes);
  loads.push_back({smem, bytes, barrier, std::move(land)});
}

bool land_a_load() {
  if (loads.empty()) return false;
  const auto chosen = loads.begin() + std::ptrdiff_t(choose(loads.size()));
  const Load load = std::move(*chosen);
  loads.erase(chosen);
  load.land();
  mbarrier_complete_tx(load.barrier, load.bytes);
  return true;
}

}  // namespace emulator
