// The memory of a launch: the kernel's arrays, dynamic and static shared memory, and what lies around them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace emulator {

constexpr size_t kNoArgument = size_t(-1);

// An array of the caller's, in the memory file that both processes map.
struct Array {
  size_t argument;   // its position among the kernel's arguments; kNoArgument if only tensor maps name it
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
bool is_poison(const void* address, size_t bytes);
void check_shared_memory_guard();

// Whether the bytes may belong to shared memory.
bool in_shared_memory(const void* address, size_t bytes);

// Whether the bytes belong to one of the arrays.
bool in_an_array(const void* address, size_t bytes);

struct Region {
  char* begin;
  size_t bytes;
};
// Dynamic and static shared memory, as far as it is known where they are (under the sanitizer: dynamic alone).
const Region (&shared_regions())[2];

// "address 0x..., 12 bytes past the end of doubled", as far as that is known.
std::string describe_address(const void* address);

}  // namespace emulator
