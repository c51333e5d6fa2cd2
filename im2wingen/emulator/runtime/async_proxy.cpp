#include "async_proxy.h"

#include <cstring>

#include "memory.h"
#include "report.h"

namespace emulator {
namespace {

std::vector<std::vector<char>> views;  // of each region of shared memory

char* view_of(const char* address, size_t bytes) {
  for (size_t i = 0; i < views.size(); ++i) {
    const Region& region = shared_regions()[i];
    if (region.bytes && address >= region.begin && address + bytes <= region.begin + region.bytes)
      return views[i].data() + (address - region.begin);
  }
  return nullptr;
}

char* known_view_of(const char* name, const char* address, size_t bytes) {
  char* view = view_of(address, bytes);
  if (view == nullptr) fail("%s is outside shared memory: %s", name, describe_address(address).c_str());
  return view;
}

bool equal_chunks(const void* a, const void* b) { return memcmp(a, b, sizeof(Chunk)) == 0; }

Chunk poison_chunk() {
  Chunk chunk;
  poison(&chunk, sizeof chunk);
  return chunk;
}

}  // namespace

void publish_shared_memory() {
  views.resize(shared_regions().size());
  for (size_t i = 0; i < views.size(); ++i) {
    const Region& region = shared_regions()[i];
    if (is_own_region(i)) views[i].assign(region.begin, region.begin + region.bytes);
  }
}
void reset_async_proxy() { publish_shared_memory(); }
void fence_proxy_async() { publish_shared_memory(); }

void require_shared(const char* name, const void* address, size_t bytes) {
  known_view_of(name, static_cast<const char*>(address), bytes);
}

Chunk async_read(const char* name, const char* address) {
  const char* view = known_view_of(name, address, sizeof(Chunk));
  if (!equal_chunks(view, address)) return poison_chunk();
  Chunk chunk;
  memcpy(&chunk, view, sizeof chunk);
  return chunk;
}

Chunk unless_changed(const Chunk& at_issue, const Chunk& now) {
  return equal_chunks(&at_issue, &now) ? now : poison_chunk();
}

void async_write(char* address, const Chunk& chunk) {
  memcpy(address, &chunk, sizeof chunk);
  memcpy(view_of(address, sizeof chunk), &chunk, sizeof chunk);
}

void async_poison(char* address, size_t bytes) {
  poison(address, bytes);
  poison(view_of(address, bytes), bytes);
}

bool published(const char* address, size_t bytes) { return memcmp(address, view_of(address, bytes), bytes) == 0; }

}  // namespace emulator
