// The memory of a launch: the kernel's arrays, dynamic and static shared memory, and what lies around them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace emulator {

// An array of the caller's, in the memory file that both processes map.
struct Array {
  size_t argument;   // its position among the kernel's arguments
  std::string name;  // for messages
  char* begin;
  size_t bytes;
  bool writable;
};

// Maps the memory file and opens the pages of `arrays` alone; their `begin` comes in as an offset.
void map_arrays(int file, size_t file_bytes, std::vector<Array>& arrays);

// Shared memory of the CTA: `dynamic_bytes` between pages that must not be touched, and the thread-local block of the
// compiled kernel at `library_address` (its static __shared__ arrays; none under the sanitizer).
void map_shared_memory(size_t dynamic_bytes, const void* library_address);
void poison_shared_memory(unsigned char byte);
void poison(void* address, size_t bytes);  // with the byte of the CTA's beginning
void check_shared_memory_guard();

// Whether the bytes may belong to shared memory.
bool in_shared_memory(const void* address, size_t bytes);

// "address 0x..., 12 bytes past the end of doubled", as far as that is known.
std::string describe_address(const void* address);

}  // namespace emulator
