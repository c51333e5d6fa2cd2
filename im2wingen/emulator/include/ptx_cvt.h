// templates/ptx/cvt.cuh on the CPU.
#pragma once
namespace ptx {
// A tf32 keeps the upper 19 bits of an fp32; .rna rounds to nearest, ties away from zero. A NaN becomes the canonical one.
inline uint32_t cvt_rna_tf32(uint32_t fp32) {
  const bool is_nan = (fp32 & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? 0x7fffffffu : (fp32 + 0x1000u) & 0xffffe000u;
}
}  // namespace ptx
