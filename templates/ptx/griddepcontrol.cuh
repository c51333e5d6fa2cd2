// griddepcontrol (sm_90 and later): programmatic dependent launch. A grid that was launched so may begin while the one
// before it in the stream still runs; it must wait before it touches memory that other grids write or read.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// The next grid may begin as soon as every CTA of this one has come here or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Until the grids before this one have ended and their writes are visible.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
}  // namespace ptx
#endif
