#include "tensor_map.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "block.h"
#include "report.h"

namespace emulator {
namespace {

constexpr uint64_t kTensorMapMark = 0x70616d726f736e74ull;

// Reads fields up to the next comma; the last one goes up to the end.
struct Fields {
  const char* text;

  std::string next() {
    const char* end = strchr(text, ',');
    const std::string field = end ? std::string(text, end) : std::string(text);
    text = end ? end + 1 : text + field.size();
    return field;
  }
  uint64_t number() {
    const std::string field = next();
    char* end = nullptr;
    const uint64_t value = strtoull(field.c_str(), &end, 10);
    if (field.empty() || *end) fail("a tensor map's text has '%s' where a number is due", field.c_str());
    return value;
  }
};

TensorMap parse_one(const std::string& text, std::vector<Array>& arrays) {
  Fields fields = {text.c_str()};
  TensorMap map = {};
  map.mark = kTensorMapMark;
  map.rank = uint8_t(fields.number());
  if (map.rank < 3 || map.rank > kMaxRank) fail("a tensor map of rank %u; allowed are 3 to 5", map.rank);
  map.swizzle_bytes = uint8_t(fields.number());
  map.element_bytes = uint8_t(fields.number());
  map.rounds_to_tf32 = uint8_t(fields.number());
  map.begin = reinterpret_cast<char*>(fields.number());
  for (unsigned i = 0; i < map.rank; ++i) map.dims[i] = fields.number();
  for (unsigned i = 0; i + 1 < map.rank; ++i) map.strides[i] = fields.number();
  for (unsigned i = 0; i < map.rank; ++i) map.box[i] = uint16_t(fields.number());
  map.writable = fields.next() == "rw";
  const size_t offset = fields.number(), bytes = fields.number();
  arrays.push_back({kNoArgument, fields.text, reinterpret_cast<char*>(offset), bytes, map.writable != 0});
  return map;
}

}  // namespace

size_t TensorMap::box_bytes() const {
  size_t bytes = element_bytes;
  for (unsigned i = 0; i < rank; ++i) bytes *= box[i];
  return bytes;
}

MapsArgument parse_tensor_maps(const char* text, std::vector<Array>& arrays) {
  MapsArgument argument;
  for (const char* begin = text; begin != nullptr;) {
    const char* end = strchr(begin, ';');
    argument.maps.push_back(parse_one(end ? std::string(begin, end) : std::string(begin), arrays));
    argument.arrays.push_back(arrays.size() - 1);
    begin = end ? end + 1 : nullptr;
  }
  return argument;
}

void place_tensor_maps(MapsArgument& argument, const std::vector<Array>& arrays) {
  for (size_t i = 0; i < argument.maps.size(); ++i) {
    TensorMap& map = argument.maps[i];
    const Array& array = arrays[argument.arrays[i]];
    const size_t offset = reinterpret_cast<uintptr_t>(map.begin);
    size_t end = offset + map.dims[0] * map.element_bytes;
    for (unsigned d = 1; d < map.rank; ++d) end += (map.dims[d] - 1) * map.strides[d - 1];
    if (end > array.bytes)
      fail("tensor map %zu ends %zu bytes past the end of %s (%zu bytes)", i, end - array.bytes, array.name.c_str(),
           array.bytes);
    map.begin = array.begin + offset;
  }
}

const TensorMap& known_tensor_map(const char* name, const void* map) {
  const TensorMap& known = *static_cast<const TensorMap*>(map);
  if (reinterpret_cast<uintptr_t>(map) % alignof(TensorMap) || known.mark != kTensorMapMark)
    fail("%s: what it is given is no tensor map", name);
  return known;
}

void check_tensor_map(const char* name, const ptx::TensorMap* map) { known_tensor_map(name, map); }

}  // namespace emulator
