// Shared memory as the asynchronous proxy (TMA, wgmma) knows it: what threads write gets there by fence.proxy.async alone.
//
// A fence here publishes what any thread has written so far, not only what is ordered before it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

struct alignas(16) Chunk {
  unsigned char bytes[16];
};
static_assert(sizeof(Chunk) == 16, "what swizzles move");

// Where a swizzle (0, 32, 64 or 128 bytes) puts the 16 bytes that belong at `address`.
inline char* swizzled(char* address, unsigned swizzle_bytes) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address), mask = swizzle_bytes ? swizzle_bytes / 16 - 1 : 0;
  return reinterpret_cast<char*>(bits ^ (bits >> 7 & mask) << 4);
}

void reset_async_proxy();  // at the beginning of a CTA
void publish_shared_memory();

// Checks that the bytes lie in shared memory; `name` is the instruction that is to blame.
void require_shared(const char* name, const void* address, size_t bytes);
// 16 bytes of shared memory; poison if threads have written them since and no fence followed.
Chunk async_read(const char* name, const char* address);
void async_write(char* address, const Chunk& chunk);
void async_poison(char* address, size_t bytes);
bool published(const char* address, size_t bytes);

// `now` if it is what was read at the issue, else poison.
Chunk unless_changed(const Chunk& at_issue, const Chunk& now);

}  // namespace emulator
