// setmaxnreg (sm_90a): a warpgroup asks for registers (waiting until others have given some back) or gives some back.
// REGS is a multiple of 8 from 24 to 256; all warps of the warpgroup do the same, and the kernel has launch bounds.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
template <int REGS>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS));
}
template <int REGS>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGS));
}
}  // namespace ptx
#endif
