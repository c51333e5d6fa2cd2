// Tensor maps as the emulator has them: 128 bytes like the driver's, with contents of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.h"

namespace emulator {

constexpr unsigned kMaxRank = 5;

struct alignas(64) TensorMap {
  uint64_t mark;
  char* begin;                     // of the tensor's first element
  uint64_t dims[kMaxRank];         // in elements, innermost first
  uint64_t strides[kMaxRank - 1];  // in bytes, of all dimensions but the innermost
  uint16_t box[kMaxRank];
  uint8_t rank, element_bytes, swizzle_bytes, writable;
  uint8_t rounds_to_tf32;  // loads do

  size_t box_row_bytes() const { return size_t(box[0]) * element_bytes; }
  size_t box_bytes() const;
};
static_assert(sizeof(TensorMap) == 128, "as large as the driver's");

// A struct of tensor maps, from RANK,SWIZZLE,ELEMENT_BYTES,TF32,OFFSET,DIMS,STRIDES,BOX,RW,FILE_OFFSET,ARRAY_BYTES,NAME of each,
// with `;` between them. Adds the arrays that they name to `arrays`; `begin` is an offset until place_tensor_maps.
struct MapsArgument {
  std::vector<TensorMap> maps;
  std::vector<size_t> arrays;  // of each map, its index
};
MapsArgument parse_tensor_maps(const char* text, std::vector<Array>& arrays);
// Once the arrays are mapped; checks that the tensors end within them.
void place_tensor_maps(MapsArgument& argument, const std::vector<Array>& arrays);

// The map behind a kernel's argument; `name` is the instruction that is to blame.
const TensorMap& known_tensor_map(const char* name, const void* map);

}  // namespace emulator
