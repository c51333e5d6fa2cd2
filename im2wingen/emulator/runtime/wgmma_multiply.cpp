#include "wgmma_multiply.h"

#include <cstring>
#include <vector>

namespace emulator {
namespace {

// An operand as fp32, [row][k] to [k][row]; rows are a multiple of 8.
void convert(Multiplicand type, const Chunk* chunks, unsigned rows, float (&converted)[kMaxDepth][kMaxColumns]) {
  const unsigned element_bytes = type == Multiplicand::kTf32 ? 4 : 2;
  const unsigned depth = kDepthChunks * sizeof(Chunk) / element_bytes;
  const unsigned char* bytes = chunks->bytes;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned k = 0; k < depth; ++k, bytes += element_bytes) {
      uint16_t half;
      uint32_t word;
      if (type == Multiplicand::kTf32) {
        memcpy(&word, bytes, sizeof word);
        converted[k][row] = from_tf32(word);
      } else {
        memcpy(&half, bytes, sizeof half);
        converted[k][row] = type == Multiplicand::kF16 ? from_f16(half) : from_bf16(half);
      }
    }
}

// B is the same for the four warps of a warpgroup, and often for several warpgroups: the last one is kept.
const float (&converted_b(Multiplicand type, const Chunk* b, unsigned columns))[kMaxDepth][kMaxColumns] {
  static std::vector<Chunk> last;
  static Multiplicand last_type;
  alignas(Row) static float converted[kMaxDepth][kMaxColumns];
  const size_t count = size_t(columns) * kDepthChunks;
  if (last.size() != count || last_type != type || memcmp(last.data(), b, count * sizeof(Chunk)) != 0) {
    last.assign(b, b + count);
    last_type = type;
    convert(type, b, columns, converted);
  }
  return converted;
}

template <unsigned kDepth>
void multiply(const float (&a)[kMaxDepth][kMaxColumns], const float (&b)[kMaxDepth][kMaxColumns], unsigned columns,
              bool accumulate, float (&acc)[kWarpRows][kMaxColumns]) {
  constexpr unsigned kColumns = sizeof(Row) / sizeof(float), kRows = 4;  // at a time
  for (unsigned column = 0; column < columns; column += kColumns)
    for (unsigned row = 0; row < kWarpRows; row += kRows) {
      Row sum[kRows];
      for (unsigned i = 0; i < kRows; ++i)
        sum[i] = accumulate ? *reinterpret_cast<const Row*>(&acc[row + i][column]) : Row{};
      for (unsigned k = 0; k < kDepth; ++k)
        for (unsigned i = 0; i < kRows; ++i) sum[i] += a[k][row + i] * *reinterpret_cast<const Row*>(&b[k][column]);
      for (unsigned i = 0; i < kRows; ++i) *reinterpret_cast<Row*>(&acc[row + i][column]) = sum[i];
    }
}

}  // namespace

void multiply_warp_rows(Multiplicand type, const Chunk* a, const Chunk* b, unsigned columns, bool accumulate,
                        float (&acc)[kWarpRows][kMaxColumns]) {
  if (type == Multiplicand::kS8 || type == Multiplicand::kE4m3 || type == Multiplicand::kE5m2)
    return multiply_warp_rows_8bit(type, a, b, columns, accumulate, acc);
  alignas(Row) static float converted_a[kMaxDepth][kMaxColumns];
  convert(type, a, kWarpRows, converted_a);
  if (type == Multiplicand::kTf32)
    multiply<8>(converted_a, converted_b(type, b, columns), columns, accumulate, acc);
  else
    multiply<16>(converted_a, converted_b(type, b, columns), columns, accumulate, acc);
}

}  // namespace emulator
