#include "memory.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "block.h"
#include "report.h"
#ifdef IM2WINGEN_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

extern "C" void* __tls_get_addr(size_t*);  // {module, offset} -> address in this thread's block

namespace emulator {
namespace {

constexpr size_t kSharedAlignment = 1024;
constexpr size_t kForbiddenBytes = 1024 * 1024;  // on either side of shared memory
constexpr unsigned char kGuard = 0xa5;

std::vector<Array> arrays;
Region regions[2];
char*& dynamic_shared = regions[0].begin;
size_t& dynamic_shared_bytes = regions[0].bytes;
char*& static_shared = regions[1].begin;
size_t& static_shared_bytes = regions[1].bytes;
unsigned char poison_byte = 0xff;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// The thread-local block of the library that holds an address.
struct ThreadLocalBlock {
  uintptr_t library_address;
  size_t module = 0, bytes = 0;
};
int find_thread_local_block(dl_phdr_info* library, size_t, void* result) {
  ThreadLocalBlock& block = *static_cast<ThreadLocalBlock*>(result);
  bool holds_address = false;
  size_t bytes = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    holds_address |= segment.p_type == PT_LOAD && block.library_address - begin < segment.p_memsz;
    if (segment.p_type == PT_TLS) bytes = segment.p_memsz;
  }
  if (!holds_address) return 0;
  block.module = library->dlpi_tls_modid;
  block.bytes = bytes;
  return 1;
}

bool lies_in(const void* address, size_t bytes, const char* begin, size_t size) {
  const char* p = static_cast<const char*>(address);
  return p >= begin && p + bytes <= begin + size;
}

// How far an address is outside of [begin, begin + bytes), as words; empty if further than a guard reaches.
std::string relation(const char* p, const char* begin, size_t bytes, const char* name) {
  char text[160] = "";
  if (p >= begin && p < begin + bytes)
    snprintf(text, sizeof text, "byte %zu of %s (%zu bytes)", size_t(p - begin), name, bytes);
  else if (p >= begin + bytes && size_t(p - begin - bytes) < kForbiddenBytes)
    snprintf(text, sizeof text, "%zu bytes past the end of %s (%zu bytes)", size_t(p - begin - bytes), name, bytes);
  else if (p < begin && size_t(begin - p) <= kForbiddenBytes)
    snprintf(text, sizeof text, "%zu bytes before the start of %s (%zu bytes)", size_t(begin - p), name, bytes);
  return text;
}

}  // namespace

void map_arrays(int file, size_t file_bytes, std::vector<Array>& opened) {
  if (file_bytes == 0) return;
  void* memory = mmap(nullptr, file_bytes, PROT_NONE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail("the memory file of %zu bytes can't be mapped", file_bytes);
  for (Array& array : opened) {
    array.begin = static_cast<char*>(memory) + reinterpret_cast<uintptr_t>(array.begin);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(array.begin) / kPageBytes * kPageBytes;
    const uintptr_t end = round_up(reinterpret_cast<uintptr_t>(array.begin) + array.bytes, kPageBytes);
    if (mprotect(reinterpret_cast<void*>(begin), end - begin, array.writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0)
      fail("an array's memory can't be opened");
    ASAN_POISON_MEMORY_REGION(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(array.begin) - begin);
    ASAN_POISON_MEMORY_REGION(array.begin + array.bytes, end - reinterpret_cast<uintptr_t>(array.begin + array.bytes));
  }
  arrays = opened;
}

void map_shared_memory(size_t dynamic_bytes, const void* library_address) {
  const size_t mapped = round_up(dynamic_bytes, kPageBytes);
  void* memory = mmap(nullptr, mapped + 2 * kForbiddenBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for %zu bytes of shared memory", dynamic_bytes);
  char* begin = static_cast<char*>(memory) + kForbiddenBytes;
  if (mapped) mprotect(begin, mapped, PROT_READ | PROT_WRITE);
  // As far up as its alignment allows: what follows is less than kSharedAlignment guarded bytes, then forbidden pages.
  dynamic_shared = begin + (mapped - round_up(dynamic_bytes, kSharedAlignment));
  dynamic_shared_bytes = dynamic_bytes;
  memset(dynamic_shared + dynamic_bytes, kGuard, begin + mapped - dynamic_shared - dynamic_bytes);
  ASAN_POISON_MEMORY_REGION(begin, dynamic_shared - begin);
  ASAN_POISON_MEMORY_REGION(dynamic_shared + dynamic_bytes, begin + mapped - dynamic_shared - dynamic_bytes);

#ifndef IM2WINGEN_SANITIZED
  ThreadLocalBlock block = {reinterpret_cast<uintptr_t>(library_address)};
  dl_iterate_phdr(find_thread_local_block, &block);
  if (block.bytes == 0) return;
  size_t index[2] = {block.module, 0};
  static_shared = static_cast<char*>(__tls_get_addr(index));
  static_shared_bytes = block.bytes;
#endif
}

void poison_shared_memory(unsigned char byte) {
  poison_byte = byte;
  poison(dynamic_shared, dynamic_shared_bytes);
  if (static_shared_bytes) poison(static_shared, static_shared_bytes);
}
void poison(void* address, size_t bytes) { memset(address, poison_byte, bytes); }
bool is_poison(const void* address, size_t bytes) {
  const unsigned char* begin = static_cast<const unsigned char*>(address);
  return bytes == 0 || (*begin == poison_byte && memcmp(begin, begin + 1, bytes - 1) == 0);
}

void check_shared_memory_guard() {
#ifndef IM2WINGEN_SANITIZED
  const size_t bytes = round_up(dynamic_shared_bytes, kSharedAlignment) - dynamic_shared_bytes;
  for (size_t i = 0; i < bytes; ++i)
    if (static_cast<unsigned char>(dynamic_shared[dynamic_shared_bytes + i]) != kGuard)
      fail("the CTA wrote %zu bytes past the end of dynamic shared memory (%zu bytes)", i, dynamic_shared_bytes);
#endif
}

const Region (&shared_regions())[2] { return regions; }

// Static shared memory follows the dynamic one, with the low bits that it has here.
static size_t shared_begin(unsigned region) {
  if (region == 0) return kSharedAlignment;
  return kSharedAlignment + round_up(regions[0].bytes, kSharedAlignment) +
         reinterpret_cast<uintptr_t>(regions[1].begin) % kSharedAlignment;
}

size_t shared_address(const void* generic) {
  const char* p = static_cast<const char*>(generic);
  for (unsigned i = 0; i < 2; ++i)
    if (regions[i].begin && p >= regions[i].begin && p <= regions[i].begin + regions[i].bytes)
      return shared_begin(i) + size_t(p - regions[i].begin);
  fail("__cvta_generic_to_shared of what is not in shared memory: %s", describe_address(generic).c_str());
}

void* generic_address(size_t shared) {
  for (unsigned i = 0; i < 2; ++i)
    if (shared - shared_begin(i) < regions[i].bytes) return regions[i].begin + (shared - shared_begin(i));
  fail("address %zu of shared memory belongs to nothing; its %zu bytes begin at %zu", shared, dynamic_shared_bytes,
       kSharedAlignment);
}

unsigned char* dynamic_shared_memory() { return reinterpret_cast<unsigned char*>(dynamic_shared); }

bool in_shared_memory(const void* address, size_t bytes) {
  if (lies_in(address, bytes, dynamic_shared, dynamic_shared_bytes)) return true;
#ifdef IM2WINGEN_SANITIZED
  // Static shared arrays may be anywhere but here; the sanitizer knows their bounds.
  if (!relation(static_cast<const char*>(address), dynamic_shared, dynamic_shared_bytes, "").empty()) return false;
  for (const Array& array : arrays)
    if (lies_in(address, bytes, array.begin, array.bytes)) return false;
  return true;
#else
  return lies_in(address, bytes, static_shared, static_shared_bytes);
#endif
}

bool in_an_array(const void* address, size_t bytes) {
  for (const Array& array : arrays)
    if (lies_in(address, bytes, array.begin, array.bytes)) return true;
  return false;
}

std::string describe_address(const void* address) {
  const char* p = static_cast<const char*>(address);
  std::string found = relation(p, dynamic_shared, dynamic_shared_bytes, "dynamic shared memory");
  if (static_shared_bytes && lies_in(p, 1, static_shared, static_shared_bytes))
    found = relation(p, static_shared, static_shared_bytes, "static shared memory");
  // The nearest array: of two neighbours' guards the smaller distance tells whose it is.
  size_t nearest = SIZE_MAX;
  for (const Array& array : arrays) {
    const size_t distance = p < array.begin                  ? size_t(array.begin - p)
                            : p >= array.begin + array.bytes ? size_t(p - array.begin - array.bytes)
                                                             : 0;
    if (distance >= nearest) continue;
    const std::string name = array.name + (array.writable ? "" : ", which is read-only");
    const std::string text = relation(p, array.begin, array.bytes, name.c_str());
    if (text.empty()) continue;
    nearest = distance;
    found = text;
  }
  if (found.empty() && stack_guard_holds(address)) found = "the end of the thread's stack (its local arrays are too large)";
  char text[32];
  snprintf(text, sizeof text, "address %p", address);
  return found.empty() ? text : found;
}

}  // namespace emulator
