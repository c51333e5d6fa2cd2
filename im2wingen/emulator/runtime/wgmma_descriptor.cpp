#include "wgmma_descriptor.h"

#include "report.h"

namespace emulator {

MatrixDescriptor decode_descriptor(const char* name, uint64_t bits) {
  constexpr uint64_t kReserved = 0x3ff1c000c000c000ull;  // bits 14-15, 30-31, 46-48 and 52-61
  constexpr unsigned kSwizzles[] = {0, 128, 64, 32};
  const auto field = [&](unsigned first, unsigned width) { return uint32_t(bits >> first & ((1u << width) - 1)); };
  if (bits & kReserved) fail("%s: descriptor %016llx has reserved bits", name, static_cast<unsigned long long>(bits));
  if (field(49, 3) != 0)
    fail("%s: descriptor %016llx has a base offset, which is not emulated", name, static_cast<unsigned long long>(bits));
  return {field(0, 14) * 16, field(16, 14) * 16, field(32, 14) * 16, kSwizzles[field(62, 2)]};
}

// Eight rows form a group; groups are stride_bytes apart. Within a group rows are as long as the swizzle, and its pattern
// sits on the address itself, whatever the start. Without swizzle they have 16 bytes, and the next 16 bytes of k are
// leading_bytes away.
void read_matrix(const char* name, const MatrixDescriptor& matrix, unsigned rows, Chunk* chunks) {
  const unsigned pitch = matrix.swizzle_bytes ? matrix.swizzle_bytes : 16;
  const unsigned step = matrix.swizzle_bytes ? 16 : matrix.leading_bytes;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned i = 0; i < kDepthChunks; ++i) {
      const size_t address = matrix.start + row / 8 * matrix.stride_bytes + row % 8 * pitch + i * step;
      char* generic = static_cast<char*>(generic_address(address));
      *chunks++ = async_read(name, swizzled(generic, matrix.swizzle_bytes));
    }
}

}  // namespace emulator
