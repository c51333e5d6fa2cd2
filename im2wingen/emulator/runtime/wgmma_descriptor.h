// What a shared-memory descriptor of wgmma names (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and
// "Matrix Descriptor Format"), for operands whose k is innermost.
#pragma once
#include <cstdint>

#include "async_proxy.h"

namespace emulator {

constexpr unsigned kDepthChunks = 2;  // k of one wgmma is 32 bytes in every type

struct MatrixDescriptor {
  uint32_t start, leading_bytes, stride_bytes;
  unsigned swizzle_bytes;
};
MatrixDescriptor decode_descriptor(const char* name, uint64_t bits);

// The rows of the matrix, kDepthChunks chunks each, as the asynchronous proxy sees them.
void read_matrix(const char* name, const MatrixDescriptor& matrix, unsigned rows, Chunk* chunks);

}  // namespace emulator
