// ldmatrix, stmatrix and mma.sync. Fragment layouts after the PTX ISA 9.0: 9.7.14.5.15 "Warp-level matrix load
// instruction: ldmatrix", "Warp-level matrix store instruction: stmatrix", 9.7.14.5.8 "Matrix Fragments for
// mma.m16n8k16 with floating point type", 9.7.14.5.7 "Matrix Fragments for mma.m16n8k8"; group is its groupID
// (lane / 4), thread its threadID_in_group (lane % 4).
//
//   m16n8k16, A (8 halves a_i): row = group + (2 <= i < 4 or 6 <= i ? 8 : 0), column = thread * 2 + i % 2 + (i >= 4 ? 8 : 0)
//   m16n8k16, B (4 halves b_i): row = thread * 2 + i % 2 + (i >= 2 ? 8 : 0), column = group
//   m16n8k8 tf32, A (4 words):  row = group + (i % 2 ? 8 : 0), column = thread + (i >= 2 ? 4 : 0)
//   m16n8k8 tf32, B (2 words):  row = thread + i * 4, column = group
//   C and D of both (4 floats): row = group + (i >= 2 ? 8 : 0), column = thread * 2 + i % 2
//   fp64, A (m8n8k4: one):      row = group + (i % 2 ? 8 : 0), column = thread + i / 2 * 4
//   fp64, B, C and D:           row = thread + i * 4, column = group; as above
//
// fp64 products are added by fused multiply-adds in ascending k. Products of the others are exact in fp32. Sums of 16-bit
// elements are rounded to fp32 in ascending k (the device's order is not documented, so results may differ from it by the
// rounding of the sums); those of TF32 are truncated as on a device, with which long sums agree in their error.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "memory.h"
#include "number_formats.h"
#include "report.h"
#include "truncated_sum.h"

namespace emulator {
namespace {

constexpr unsigned kRowBytes = 16;  // of an 8x8 matrix of 16-bit elements

struct LdmatrixOperand {
  uint32_t* registers;
  const char* row;
};

void perform_ldmatrix_x4(void* const (&operands)[kWarpLanes], unsigned) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const char* row = static_cast<LdmatrixOperand*>(operands[matrix * 8 + lane / 4])->row;
      memcpy(&static_cast<LdmatrixOperand*>(operands[lane])->registers[matrix], row + lane % 4 * 4, 4);
    }
}

void perform_ldmatrix_x4_trans(void* const (&operands)[kWarpLanes], unsigned) {
  for (unsigned lane = 0; lane < kWarpLanes; ++lane)
    for (unsigned matrix = 0; matrix < 4; ++matrix)
      for (unsigned half = 0; half < 2; ++half) {
        const char* row = static_cast<LdmatrixOperand*>(operands[matrix * 8 + lane % 4 * 2 + half])->row;
        uint32_t* pair = &static_cast<LdmatrixOperand*>(operands[lane])->registers[matrix];
        memcpy(reinterpret_cast<char*>(pair) + half * 2, row + lane / 4 * 2, 2);
      }
}

struct StmatrixOperand {
  char* row;
  const uint32_t* registers;
};

// Row i of a matrix goes to the address that lane i of its eight lanes gave; its elements come in pairs from four lanes,
// or, transposed, each from a lane of its own.
template <unsigned kMatrices, bool kTranspose>
void perform_stmatrix(void* const (&operands)[kWarpLanes], unsigned) {
  const auto element = [&](unsigned matrix, unsigned lane, unsigned half) {
    return uint16_t(static_cast<StmatrixOperand*>(operands[lane])->registers[matrix] >> half * 16);
  };
  for (unsigned matrix = 0; matrix < kMatrices; ++matrix)
    for (unsigned row = 0; row < 8; ++row) {
      uint16_t elements[8];
      for (unsigned column = 0; column < 8; ++column)
        elements[column] = kTranspose ? element(matrix, column * 4 + row / 2, row % 2)
                                      : element(matrix, row * 4 + column / 2, column % 2);
      memcpy(static_cast<StmatrixOperand*>(operands[matrix * 8 + row])->row, elements, sizeof elements);
    }
}

struct MmaOperand {
  float* d;
  const uint32_t *a, *b;
};
const MmaOperand& of_lane(void* const (&operands)[kWarpLanes], unsigned lane) {
  return *static_cast<MmaOperand*>(operands[lane]);
}

template <int kDepth, bool kTruncates>
void multiply(void* const (&operands)[kWarpLanes], const float (&a)[16][kDepth], const Row (&b)[kDepth]) {
  for (unsigned group = 0; group < 8; ++group)
    for (unsigned half = 0; half < 2; ++half) {
      Row sum;
      for (unsigned column = 0; column < 8; ++column)
        sum[column] = of_lane(operands, group * 4 + column / 2).d[half * 2 + column % 2];
      if constexpr (kTruncates)
        sum = truncated_sum(sum, a[group + half * 8], b);
      else
        for (int k = 0; k < kDepth; ++k) sum += a[group + half * 8][k] * b[k];
      for (unsigned column = 0; column < 8; ++column)
        of_lane(operands, group * 4 + column / 2).d[half * 2 + column % 2] = sum[column];
    }
}

template <float (*kConvert)(uint16_t)>
void perform_mma_16bit(void* const (&operands)[kWarpLanes], unsigned) {
  float a[16][16];
  Row b[16];
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const MmaOperand& operand = of_lane(operands, lane);
    const unsigned group = lane / 4, thread = lane % 4;
    for (unsigned i = 0; i < 8; ++i)
      a[group + (i / 2 % 2) * 8][thread * 2 + i % 2 + i / 4 * 8] = kConvert(uint16_t(operand.a[i / 2] >> i % 2 * 16));
    for (unsigned i = 0; i < 4; ++i)
      b[thread * 2 + i % 2 + i / 2 * 8][group] = kConvert(uint16_t(operand.b[i / 2] >> i % 2 * 16));
  }
  multiply<16, false>(operands, a, b);
}

void perform_mma_tf32(void* const (&operands)[kWarpLanes], unsigned) {
  float a[16][8];
  Row b[8];
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    const MmaOperand& operand = of_lane(operands, lane);
    const unsigned group = lane / 4, thread = lane % 4;
    for (unsigned i = 0; i < 4; ++i) a[group + i % 2 * 8][thread + i / 2 * 4] = from_tf32(operand.a[i]);
    for (unsigned i = 0; i < 2; ++i) b[thread + i * 4][group] = from_tf32(operand.b[i]);
  }
  multiply<8, true>(operands, a, b);
}

struct DoubleMmaOperand {
  unsigned rows, depth;
  double* d;
  const double *a, *b;
};

void perform_mma_f64(void* const (&operands)[kWarpLanes], unsigned) {
  const auto lane_of = [&](unsigned group, unsigned thread) -> const DoubleMmaOperand& {
    return *static_cast<DoubleMmaOperand*>(operands[group * 4 + thread]);
  };
  const unsigned halves = lane_of(0, 0).rows / 8, depth = lane_of(0, 0).depth;
  for (unsigned group = 0; group < 8; ++group)
    for (unsigned half = 0; half < halves; ++half)
      for (unsigned column = 0; column < 8; ++column) {
        double& sum = lane_of(group, column / 2).d[half * 2 + column % 2];
        for (unsigned k = 0; k < depth; ++k)
          sum = fma(lane_of(group, k % 4).a[k / 4 * halves + half], lane_of(column, k % 4).b[k / 4], sum);
      }
}

}  // namespace

void ldmatrix_x4(const char* name, uint32_t (&registers)[4], const void* row, bool transpose) {
  if (reinterpret_cast<uintptr_t>(row) % kRowBytes) fail("%s: the row is not aligned to 16 bytes", name);
  if (!in_shared_memory(row, kRowBytes))
    fail("%s: the row is outside shared memory: %s", name, describe_address(row).c_str());
  LdmatrixOperand operand = {registers, static_cast<const char*>(row)};
  collective(name, true, kAllLanes, &operand, transpose ? perform_ldmatrix_x4_trans : perform_ldmatrix_x4);
}

void stmatrix(const char* name, void* row, const uint32_t* registers, unsigned matrices, bool transpose) {
  if (self().lane() < matrices * 8) {
    if (reinterpret_cast<uintptr_t>(row) % kRowBytes) fail("%s: the row is not aligned to 16 bytes", name);
    if (!in_shared_memory(row, kRowBytes))
      fail("%s: the row is outside shared memory: %s", name, describe_address(row).c_str());
  }
  StmatrixOperand operand = {static_cast<char*>(row), registers};
  collective(name, true, kAllLanes, &operand,
             matrices == 4 ? transpose ? perform_stmatrix<4, true> : perform_stmatrix<4, false>
             : transpose   ? perform_stmatrix<2, true>
                           : perform_stmatrix<2, false>);
}

void mma(const char* name, Multiplicand type, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MmaOperand operand = {d, a, b};
  collective(name, true, kAllLanes, &operand,
             type == Multiplicand::kF16    ? perform_mma_16bit<from_f16>
             : type == Multiplicand::kBf16 ? perform_mma_16bit<from_bf16>
                                           : perform_mma_tf32);
}

void mma_f64(const char* name, unsigned rows, unsigned depth, double* d, const double* a, const double* b) {
  DoubleMmaOperand operand = {rows, depth, d, a, b};
  collective(name, true, kAllLanes, &operand, perform_mma_f64);
}

}  // namespace emulator
