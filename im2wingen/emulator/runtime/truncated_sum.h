// Sums as tensor cores make them: truncated. What an H200 was seen to do for TF32.
#pragma once
#include "number_formats.h"

namespace emulator {

typedef int32_t IntRow __attribute__((vector_size(32)));  // of 8 columns

// sum + a[0] * b[0] + a[1] * b[1] ..., each of them toward zero to a multiple of 2^-25 of the largest's leading place (of
// a product, the sum of its factors' exponents); then the whole toward zero to the 24 bits of fp32. Where that place is
// near fp32's least or beyond its largest, or something isn't finite, the sum is a plain one.
template <int kDepth>
Row truncated_sum(Row sum, const float (&a)[kDepth], const Row (&b)[kDepth]) {
  constexpr int kBias = 127, kInfinite = 255, kExtra = 25;
  const auto exponents = [](Row row) { return (IntRow)row >> 23 & kInfinite; };
  IntRow largest = exponents(sum);
  Row plain = sum;
  for (int k = 0; k < kDepth; ++k) {
    const IntRow left = exponents(Row{} + a[k]), right = exponents(b[k]);
    const IntRow place = (left > 0 & right > 0) & (left + right - kBias);
    const IntRow infinite = (left == kInfinite | right == kInfinite) & kInfinite;
    largest = largest > place ? largest : place;
    largest = largest > infinite ? largest : infinite;
    plain += a[k] * b[k];
  }
  const IntRow truncates = largest > kExtra & largest < kInfinite;
  const Row up = (Row)(truncates & (2 * kBias + kExtra - largest) << 23);
  const Row down = (Row)(truncates & (largest - kExtra) << 23);
  const auto units = [&](Row term) { return __builtin_convertvector((Row)(truncates & (IntRow)term) * up, IntRow); };
  IntRow total = units(sum);
  for (int k = 0; k < kDepth; ++k) total += units(a[k] * b[k]);
  const IntRow magnitude = total < 0 ? -total : total;
  IntRow lost = magnitude >> 24;  // as many bits as this has
  lost |= lost >> 1;
  lost |= lost >> 2;
  lost |= lost >> 4;
  const Row kept = __builtin_convertvector(magnitude & ~lost, Row) * down;
  return truncates ? (total < 0 ? -kept : kept) : plain;
}

}  // namespace emulator
