// The arithmetic of one warp's share of a wgmma.
#pragma once
#include "number_formats.h"
#include "wgmma_descriptor.h"

namespace emulator {

constexpr unsigned kMaxColumns = 256;  // N of a wgmma
constexpr unsigned kWarpRows = 16;     // of the 64 rows of D
constexpr unsigned kMaxDepth = 16;     // k of a wgmma, but of 8-bit elements

// acc (kWarpRows x columns) = a * b + (accumulate ? acc : 0); a has kWarpRows rows, b one a column of acc.
void multiply_warp_rows(Multiplicand type, const Chunk* a, const Chunk* b, unsigned columns, bool accumulate,
                        float (&acc)[kWarpRows][kMaxColumns]);
// The same of 8-bit elements. Integers' sums are int32 in the bits of acc. Those of floats are as inexact as on Hopper
// (about 14 bits: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 3.3.2), in the order of the steps along k.
void multiply_warp_rows_8bit(Multiplicand type, const Chunk* a, const Chunk* b, unsigned columns, bool accumulate,
                             float (&acc)[kWarpRows][kMaxColumns]);

}  // namespace emulator
