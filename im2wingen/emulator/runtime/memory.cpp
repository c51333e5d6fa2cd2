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
std::vector<Region> regions(1);  // static shared memory, then the dynamic one of each CTA
size_t dynamic_shared_bytes = 0;  // of a CTA
unsigned char poison_byte = 0xff;

const Region& static_shared() { return regions[0]; }
const Region& own_dynamic() { return dynamic_region(running ? running->cluster_rank : 0); }

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

// The dynamic shared memory of one more CTA.
static void map_dynamic(size_t dynamic_bytes) {
  const size_t mapped = round_up(dynamic_bytes, kPageBytes);
  void* memory = mmap(nullptr, mapped + 2 * kForbiddenBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for %zu bytes of shared memory", dynamic_bytes);
  char* begin = static_cast<char*>(memory) + kForbiddenBytes;
  if (mapped) mprotect(begin, mapped, PROT_READ | PROT_WRITE);
  // As far up as its alignment allows: what follows is less than kSharedAlignment guarded bytes, then forbidden pages.
  char* const dynamic_shared = begin + (mapped - round_up(dynamic_bytes, kSharedAlignment));
  regions.push_back({dynamic_shared, dynamic_bytes});
  memset(dynamic_shared + dynamic_bytes, kGuard, begin + mapped - dynamic_shared - dynamic_bytes);
  ASAN_POISON_MEMORY_REGION(begin, dynamic_shared - begin);
  ASAN_POISON_MEMORY_REGION(dynamic_shared + dynamic_bytes, begin + mapped - dynamic_shared - dynamic_bytes);
}

void map_shared_memory(size_t dynamic_bytes, const void* library_address, unsigned ctas) {
  dynamic_shared_bytes = dynamic_bytes;
  for (unsigned i = 0; i < ctas; ++i) map_dynamic(dynamic_bytes);
#ifndef IM2WINGEN_SANITIZED
  ThreadLocalBlock block = {reinterpret_cast<uintptr_t>(library_address)};
  dl_iterate_phdr(find_thread_local_block, &block);
  if (block.bytes == 0) return;
  if (ctas > 1) fail("static shared memory of a cluster of %u CTAs is not emulated", ctas);
  size_t index[2] = {block.module, 0};
  regions[0] = {static_cast<char*>(__tls_get_addr(index)), block.bytes};
#endif
}

void poison_shared_memory(unsigned char byte) {
  poison_byte = byte;
  for (const Region& region : regions)
    if (region.bytes) poison(region.begin, region.bytes);
}
void poison(void* address, size_t bytes) { memset(address, poison_byte, bytes); }
bool is_poison(const void* address, size_t bytes) {
  const unsigned char* begin = static_cast<const unsigned char*>(address);
  return bytes == 0 || (*begin == poison_byte && memcmp(begin, begin + 1, bytes - 1) == 0);
}

void check_shared_memory_guard() {
#ifndef IM2WINGEN_SANITIZED
  const size_t bytes = round_up(dynamic_shared_bytes, kSharedAlignment) - dynamic_shared_bytes;
  for (size_t i = 0; i < bytes * (regions.size() - 1); ++i)
    if (static_cast<unsigned char>(regions[1 + i / bytes].begin[dynamic_shared_bytes + i % bytes]) != kGuard)
      fail("the CTA wrote %zu bytes past the end of dynamic shared memory (%zu bytes)", i % bytes, dynamic_shared_bytes);
#endif
}

const std::vector<Region>& shared_regions() { return regions; }
const Region& dynamic_region(unsigned cluster_rank) { return regions[1 + cluster_rank]; }
bool is_own_region(size_t index) { return running == nullptr || index == 0 || index == 1 + running->cluster_rank; }

// Static shared memory follows the dynamic one, with the low bits that it has here.
static size_t static_begin() {
  return kSharedAlignment + round_up(dynamic_shared_bytes, kSharedAlignment) +
         reinterpret_cast<uintptr_t>(static_shared().begin) % kSharedAlignment;
}

size_t shared_offset(size_t shared, size_t bytes) {
  const size_t offset = shared - kSharedAlignment;
  if (offset + bytes > dynamic_shared_bytes || offset > dynamic_shared_bytes)
    fail("%zu bytes at address %zu of shared memory are not in the dynamic one; its %zu bytes begin at %zu", bytes, shared,
         dynamic_shared_bytes, kSharedAlignment);
  return offset;
}

size_t shared_address(const void* generic) {
  const char* p = static_cast<const char*>(generic);
  const Region &dynamic = own_dynamic(), &fixed = static_shared();
  if (p >= dynamic.begin && p <= dynamic.begin + dynamic.bytes) return kSharedAlignment + size_t(p - dynamic.begin);
  if (fixed.bytes && p >= fixed.begin && p <= fixed.begin + fixed.bytes) return static_begin() + size_t(p - fixed.begin);
  fail("__cvta_generic_to_shared of what is not in shared memory: %s", describe_address(generic).c_str());
}

void* generic_address(size_t shared) {
  if (shared - kSharedAlignment < dynamic_shared_bytes) return own_dynamic().begin + (shared - kSharedAlignment);
  if (shared - static_begin() < static_shared().bytes) return static_shared().begin + (shared - static_begin());
  fail("address %zu of shared memory belongs to nothing; its %zu bytes begin at %zu", shared, dynamic_shared_bytes,
       kSharedAlignment);
}

unsigned char* dynamic_shared_memory() { return reinterpret_cast<unsigned char*>(own_dynamic().begin); }

bool in_shared_memory(const void* address, size_t bytes) {
  const Region& dynamic = own_dynamic();
  if (lies_in(address, bytes, dynamic.begin, dynamic.bytes)) return true;
#ifdef IM2WINGEN_SANITIZED
  // Static shared arrays may be anywhere but here; the sanitizer knows their bounds.
  if (!relation(static_cast<const char*>(address), dynamic.begin, dynamic.bytes, "").empty()) return false;
  for (const Array& array : arrays)
    if (lies_in(address, bytes, array.begin, array.bytes)) return false;
  return true;
#else
  return lies_in(address, bytes, static_shared().begin, static_shared().bytes);
#endif
}

bool in_an_array(const void* address, size_t bytes) {
  for (const Array& array : arrays)
    if (lies_in(address, bytes, array.begin, array.bytes)) return true;
  return false;
}

std::string describe_address(const void* address) {
  const char* p = static_cast<const char*>(address);
  const Region &dynamic = own_dynamic(), &fixed = static_shared();
  std::string found = relation(p, dynamic.begin, dynamic.bytes, "dynamic shared memory");
  for (size_t i = 1; i < regions.size(); ++i)
    if (!is_own_region(i) && lies_in(p, 1, regions[i].begin, regions[i].bytes))
      found = relation(p, regions[i].begin, regions[i].bytes, "another CTA's dynamic shared memory");
  if (fixed.bytes && lies_in(p, 1, fixed.begin, fixed.bytes))
    found = relation(p, fixed.begin, fixed.bytes, "static shared memory");
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
