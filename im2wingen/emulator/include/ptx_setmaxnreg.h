// templates/ptx/setmaxnreg.cuh on the CPU, where registers don't count.
#pragma once
namespace ptx {
template <int REGS>
void setmaxnreg_inc() {
  static_assert(REGS >= 24 && REGS <= 256 && REGS % 8 == 0, "setmaxnreg takes 24 to 256 registers, a multiple of 8");
}
template <int REGS>
void setmaxnreg_dec() {
  static_assert(REGS >= 24 && REGS <= 256 && REGS % 8 == 0, "setmaxnreg takes 24 to 256 registers, a multiple of 8");
}
}  // namespace ptx
