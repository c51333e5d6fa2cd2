// ldmatrix and mma.sync. Fragment layouts after the PTX ISA 9.0: 9.7.14.5.15 "Warp-level matrix load instruction:
// ldmatrix", 9.7.14.5.8 "Matrix Fragments for mma.m16n8k16 with floating point type", 9.7.14.5.7 "Matrix Fragments for
// mma.m16n8k8"; group is its groupID (lane / 4), thread its threadID_in_group (lane % 4).
//
//   m16n8k16, A (8 halves a_i): row = group + (2 <= i < 4 or 6 <= i ? 8 : 0), column = thread * 2 + i % 2 + (i >= 4 ? 8 : 0)
//   m16n8k16, B (4 halves b_i): row = thread * 2 + i % 2 + (i >= 2 ? 8 : 0), column = group
//   m16n8k8 tf32, A (4 words):  row = group + (i % 2 ? 8 : 0), column = thread + (i >= 2 ? 4 : 0)
//   m16n8k8 tf32, B (2 words):  row = thread + i * 4, column = group
//   C and D of both (4 floats): row = group + (i >= 2 ? 8 : 0), column = thread * 2 + i % 2
//
// Products are exact in fp32 for all three types; sums are rounded to fp32 in ascending k (the device's order is not
// documented, so results may differ from it by the rounding of the sums).
#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "block.h"
#include "memory.h"
#include "report.h"

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

float from_f16(uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
#endif
}
float from_bf16(uint16_t bits) { return bits_of<float>(uint32_t(bits) << 16); }
float from_tf32(uint32_t bits) { return bits_of<float>(bits & 0xffffe000u); }  // the low 13 bits don't count

typedef float Row __attribute__((vector_size(32)));  // of 8 columns

struct MmaOperand {
  float* d;
  const uint32_t *a, *b;
};
const MmaOperand& of_lane(void* const (&operands)[kWarpLanes], unsigned lane) {
  return *static_cast<MmaOperand*>(operands[lane]);
}

template <int kDepth>
void multiply(void* const (&operands)[kWarpLanes], const float (&a)[16][kDepth], const Row (&b)[kDepth]) {
  for (unsigned group = 0; group < 8; ++group)
    for (unsigned half = 0; half < 2; ++half) {
      Row sum;
      for (unsigned column = 0; column < 8; ++column)
        sum[column] = of_lane(operands, group * 4 + column / 2).d[half * 2 + column % 2];
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
  multiply(operands, a, b);
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
  multiply(operands, a, b);
}

}  // namespace

void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
  if (reinterpret_cast<uintptr_t>(row) % kRowBytes) fail("ldmatrix.x4: the row is not aligned to 16 bytes");
  if (!in_shared_memory(row, kRowBytes))
    fail("ldmatrix.x4: the row is outside shared memory: %s", describe_address(row).c_str());
  LdmatrixOperand operand = {registers, static_cast<const char*>(row)};
  collective("ldmatrix.x4", true, kAllLanes, &operand, perform_ldmatrix_x4);
}

void mma(const char* name, Multiplicand type, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MmaOperand operand = {d, a, b};
  collective(name, true, kAllLanes, &operand,
             type == Multiplicand::kF16    ? perform_mma_16bit<from_f16>
             : type == Multiplicand::kBf16 ? perform_mma_16bit<from_bf16>
                                           : perform_mma_tf32);
}

}  // namespace emulator
