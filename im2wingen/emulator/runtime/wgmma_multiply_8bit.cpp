#include "wgmma_multiply.h"

#include <cstring>

namespace emulator {
namespace {

constexpr unsigned kDepth = kDepthChunks * sizeof(Chunk);  // k of a wgmma of 8-bit elements
constexpr unsigned kColumns = sizeof(Row) / sizeof(float);  // at a time
constexpr unsigned kFractionBits = 13;                      // that tensor cores keep behind the leading bit of the largest term

typedef uint32_t Words __attribute__((vector_size(sizeof(Row))));
typedef int32_t Integers __attribute__((vector_size(sizeof(Row))));

template <class Value>
using Operand = Value[kDepth][kMaxColumns];

// [row][k] to [k][row].
template <class Value, class Format>
void convert(const Chunk* chunks, unsigned rows, Operand<Value>& converted, Format format) {
  const unsigned char* bytes = chunks->bytes;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned k = 0; k < kDepth; ++k) converted[k][row] = format(*bytes++);
}

// int32 sums in the bits of `acc`; they wrap.
void multiply_integers(const Chunk* chunks_a, const Chunk* chunks_b, unsigned columns, bool accumulate,
                       float (&acc)[kWarpRows][kMaxColumns]) {
  alignas(Row) static Operand<uint32_t> a, b;
  const auto extended = [](unsigned char byte) { return uint32_t(int32_t(static_cast<signed char>(byte))); };
  convert(chunks_a, kWarpRows, a, extended);
  convert(chunks_b, columns, b, extended);
  for (unsigned column = 0; column < columns; column += kColumns)
    for (unsigned row = 0; row < kWarpRows; ++row) {
      Words sum{};
      if (accumulate) memcpy(&sum, &acc[row][column], sizeof sum);
      for (unsigned k = 0; k < kDepth; ++k) sum += a[k][row] * *reinterpret_cast<const Words*>(&b[k][column]);
      memcpy(&acc[row][column], &sum, sizeof sum);
    }
}

// The sum of the terms, all cut behind the kFractionBits-th bit after the leading one of the largest. NaN and Inf as usual.
Row sum_of(const Row (&terms)[kDepth + 1]) {
  Row plain{}, largest{}, zero{};
  for (const Row& term : terms) {
    const Row magnitude = Row(Words(term) & 0x7fffffffu);
    plain += term;
    zero += term * 0.0f;
    largest = magnitude > largest ? magnitude : largest;
  }
  const Words floor = Words{} + (64u << 23), leading = Words(largest) & 0x7f800000u;
  const Words step = (leading > floor ? leading : floor) - (kFractionBits << 23);  // a power of two
  const Row in_steps = Row((254u << 23) - step);
  Integers sum{};
  for (const Row& term : terms)
    sum += __builtin_convertvector(zero == 0.0f ? term * in_steps : Row{}, Integers);  // towards zero
  return zero == 0.0f ? __builtin_convertvector(sum, Row) * Row(step) : plain;
}

void multiply_floats(float (*format)(uint8_t), const Chunk* chunks_a, const Chunk* chunks_b, unsigned columns,
                     bool accumulate, float (&acc)[kWarpRows][kMaxColumns]) {
  alignas(Row) static Operand<float> a, b;
  float numbers[256];
  for (unsigned bits = 0; bits < 256; ++bits) numbers[bits] = format(uint8_t(bits));
  const auto number = [&](unsigned char byte) { return numbers[byte]; };
  convert(chunks_a, kWarpRows, a, number);
  convert(chunks_b, columns, b, number);
  for (unsigned column = 0; column < columns; column += kColumns)
    for (unsigned row = 0; row < kWarpRows; ++row) {
      Row& sum = *reinterpret_cast<Row*>(&acc[row][column]);
      Row terms[kDepth + 1];
      for (unsigned k = 0; k < kDepth; ++k) terms[k] = a[k][row] * *reinterpret_cast<const Row*>(&b[k][column]);
      terms[kDepth] = accumulate ? sum : Row{};
      sum = sum_of(terms);
    }
}

}  // namespace

void multiply_warp_rows_8bit(Multiplicand type, const Chunk* a, const Chunk* b, unsigned columns, bool accumulate,
                             float (&acc)[kWarpRows][kMaxColumns]) {
  if (type == Multiplicand::kS8) return multiply_integers(a, b, columns, accumulate, acc);
  multiply_floats(type == Multiplicand::kE4m3 ? from_e4m3 : from_e5m2, a, b, columns, accumulate, acc);
}

}  // namespace emulator
