// cp.async.bulk: copies of runs of bytes, and their prefetch to L2, of which only the demands are checked.
#include <cstring>

#include "async_proxy.h"
#include "loads.h"
#include "memory.h"
#include "report.h"
#include "tensor_copies.h"

namespace emulator {

constexpr size_t kUnit = sizeof(Chunk);

void check_global_run(const char* name, const void* gmem, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(gmem) % kUnit || bytes % kUnit || bytes == 0)
    fail("%s of %zu bytes at %s: address and size must be multiples of 16, and the size not 0", name, bytes,
         describe_address(gmem).c_str());
  if (!in_an_array(gmem, bytes))
    fail("%s of %zu bytes leaves its array: %s", name, bytes, describe_address(gmem).c_str());
}

void bulk_load(const char* name, void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier) {
  check_global_run(name, gmem, bytes);
  if (reinterpret_cast<uintptr_t>(smem) % kUnit) fail("%s: shared memory is not aligned to 16 bytes", name);
  char* const to = static_cast<char*>(smem);
  const char* const from = static_cast<const char*>(gmem);
  begin_load(name, to, bytes, barrier, [=] {
    for (size_t i = 0; i < bytes; i += kUnit) {
      Chunk chunk;
      memcpy(&chunk, from + i, kUnit);
      async_write(to + i, chunk);
    }
  });
}

void bulk_prefetch(const char* name, const void* gmem, uint32_t bytes) { check_global_run(name, gmem, bytes); }

void check_cache_policy(const char* name, uint64_t policy) {
  if (policy != kEvictFirst && policy != kEvictLast)
    fail("%s: %llx is no cache policy", name, static_cast<unsigned long long>(policy));
}

}  // namespace emulator
