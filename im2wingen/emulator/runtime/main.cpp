// The runner: a process that loads one compiled kernel, runs one launch and ends.
//
//   runner LIBRARY GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z SMEM_BYTES SEED POISON FILE FILE_BYTES
//          CLUSTER ARGUMENT...
//
// CLUSTER is the number of CTAs of a cluster, along x. FILE is the inherited descriptor of the memory file. An argument is `rw:OFFSET:BYTES:NAME` or `ro:OFFSET:BYTES:NAME` (a
// pointer into that file), `value:HEX` (its bytes) or `maps:...` (a struct of tensor maps, see tensor_map.h). Exit
// status 0: done; 3: stderr says in one sentence what the kernel did.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "block.h"
#include "memory.h"
#include "report.h"
#include "tensor_map.h"

namespace emulator {
namespace {

constexpr int kFixedArguments = 14;
constexpr unsigned kMaxBlockThreads = 1024;
constexpr unsigned kMaxCluster = 8;  // that every device takes

struct Value {
  std::vector<unsigned char> bytes;  // of a plain value
  MapsArgument maps;                 // or a struct of tensor maps; an array has neither

  size_t size() const {
    return !bytes.empty() ? bytes.size() : !maps.maps.empty() ? maps.maps.size() * sizeof(TensorMap) : sizeof(void*);
  }
  void* begin() { return !bytes.empty() ? static_cast<void*>(bytes.data()) : maps.maps.data(); }
};

struct Arguments {
  std::vector<Array> arrays;
  std::vector<Value> values;  // by position
};

std::vector<unsigned char> from_hex(const char* hex) {
  std::vector<unsigned char> bytes;
  for (; hex[0] && hex[1]; hex += 2) {
    const char digits[3] = {hex[0], hex[1], 0};
    bytes.push_back(static_cast<unsigned char>(strtoul(digits, nullptr, 16)));
  }
  return bytes;
}

Arguments parse(char** begin, char** end) {
  Arguments arguments;
  for (char** text = begin; text != end; ++text) {
    size_t offset, bytes;
    int name = 0;
    arguments.values.emplace_back();
    if (strncmp(*text, "maps:", 5) == 0)
      arguments.values.back().maps = parse_tensor_maps(*text + 5, arguments.arrays);
    else if (sscanf(*text + 2, ":%zu:%zu:%n", &offset, &bytes, &name) == 2 && name > 0)
      arguments.arrays.push_back({size_t(text - begin), *text + 2 + name, reinterpret_cast<char*>(offset), bytes,
                                  strncmp(*text, "rw", 2) == 0});
    else
      arguments.values.back().bytes = from_hex(strchr(*text, ':') + 1);
  }
  return arguments;
}

void check_arguments(const KernelEntry& entry, const std::vector<Value>& values) {
  if (entry.argument_count != values.size())
    fail("the kernel takes %zu arguments, the launch gives %zu", entry.argument_count, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].size() != entry.argument_bytes[i])
      fail("argument %zu of the kernel has %zu bytes, the launch gives %zu", i, entry.argument_bytes[i], values[i].size());
  }
}

int run(int count, char** texts) {
  if (count < kFixedArguments) fail("started with %d arguments", count);
  const auto number = [&](int i) { return size_t(strtoull(texts[i], nullptr, 10)); };
  const auto dimensions = [&](int i) { return dim3(unsigned(number(i)), unsigned(number(i + 1)), unsigned(number(i + 2))); };
  const dim3 grid = dimensions(2), block = dimensions(5);
  const size_t threads = size_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMaxBlockThreads) fail("a block of %zu threads; allowed are 1 to 1024", threads);

  const unsigned cluster = unsigned(number(13));
  if (cluster == 0 || cluster > kMaxCluster || grid.x % cluster)
    fail("a cluster of %u CTAs in a grid of %u; allowed are 1 to %u that divide it", cluster, grid.x, kMaxCluster);

  install_fault_handlers();
  void* library = dlopen(texts[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail("the compiled kernel can't be loaded: %s", dlerror());
  void* symbol = dlsym(library, "emulated_entry");
  if (symbol == nullptr) fail("the kernel's text has no IM2WINGEN_EMULATED_ENTRY");
  const KernelEntry* entry = reinterpret_cast<const KernelEntry* (*)()>(symbol)();

  Arguments arguments = parse(texts + kFixedArguments, texts + count);
  check_arguments(*entry, arguments.values);
  map_arrays(int(number(11)), number(12), arguments.arrays);
  map_shared_memory(number(8), symbol, cluster);
  std::vector<void*> pointers;
  for (Value& value : arguments.values) {
    place_tensor_maps(value.maps, arguments.arrays);
    pointers.push_back(value.begin());
  }
  for (Array& array : arguments.arrays)
    if (array.argument != kNoArgument) pointers[array.argument] = &array.begin;
  run_grid({entry, pointers.data(), grid, block, cluster, unsigned(number(9)), static_cast<unsigned char>(number(10))});
  fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace emulator

int main(int count, char** texts) { return emulator::run(count, texts); }
