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

// Shared memory of each of a cluster's CTAs: `dynamic_bytes` between pages that must not be touched, and the thread-local
// block of the compiled kernel at `library_address` (its static __shared__ arrays; none under the sanitizer, and none in a
// cluster of several CTAs).
void map_shared_memory(size_t dynamic_bytes, const void* library_address, unsigned ctas);
void poison_shared_memory(unsigned char byte);
void poison(void* address, size_t bytes);  // with the byte of the CTA's beginning
bool is_poison(const void* address, size_t bytes);
void check_shared_memory_guard();

// Whether the bytes may belong to the CTA's shared memory.
bool in_shared_memory(const void* address, size_t bytes);

// Whether the bytes belong to one of the arrays.
bool in_an_array(const void* address, size_t bytes);

struct Region {
  char* begin;
  size_t bytes;
};
// Static shared memory, and the dynamic one of each CTA of the cluster, as far as it is known where they are (under the
// sanitizer static shared memory has no bytes here).
const std::vector<Region>& shared_regions();
const Region& dynamic_region(unsigned cluster_rank);
// Whether a region is the running thread's CTA's, or no thread runs.
bool is_own_region(size_t index);
// Where bytes at an address of shared memory lie in the dynamic one.
size_t shared_offset(size_t shared, size_t bytes);

// "address 0x..., 12 bytes past the end of doubled", as far as that is known.
std::string describe_address(const void* address);

}  // namespace emulator
