// The arithmetic of one warp's share of a wgmma.
#pragma once
#include "number_formats.h"
#include "wgmma_descriptor.h"

namespace emulator {

constexpr unsigned kMaxColumns = 256;  // N of a wgmma
constexpr unsigned kWarpRows = 16;     // of the 64 rows of D
constexpr unsigned kMaxDepth = 16;     // k of a wgmma

// acc (kWarpRows x columns) = a * b + (accumulate ? acc : 0); a has kWarpRows rows, b one a column of acc.
void multiply_warp_rows(Multiplicand type, const Chunk* a, const Chunk* b, unsigned columns, bool accumulate,
                        float (&acc)[kWarpRows][kMaxColumns]);

}  // namespace emulator
