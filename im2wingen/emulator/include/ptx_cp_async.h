// templates/ptx/cp_async.cuh on the CPU. A copy lands when its thread waits for its group; until then the destination
// holds NaN.
#pragma once
namespace emulator {
void cp_async(const char* name, void* smem, const void* gmem, unsigned bytes, bool valid);
void cp_async_commit_group();
void cp_async_wait_group(unsigned pending);
}  // namespace emulator

namespace ptx {
inline void cp_async_ca_4(void* smem, const void* gmem, bool valid) {
  emulator::cp_async("cp.async.ca 4", smem, gmem, 4, valid);
}
inline void cp_async_ca_8(void* smem, const void* gmem, bool valid) {
  emulator::cp_async("cp.async.ca 8", smem, gmem, 8, valid);
}
inline void cp_async_cg_16(void* smem, const void* gmem, bool valid) {
  emulator::cp_async("cp.async.cg 16", smem, gmem, 16, valid);
}
inline void cp_async_ca_4_if(bool wanted, void* smem, const void* gmem, bool valid) {
  if (wanted) cp_async_ca_4(smem, gmem, valid);
}
inline void cp_async_ca_8_if(bool wanted, void* smem, const void* gmem, bool valid) {
  if (wanted) cp_async_ca_8(smem, gmem, valid);
}
inline void cp_async_cg_16_if(bool wanted, void* smem, const void* gmem, bool valid) {
  if (wanted) cp_async_cg_16(smem, gmem, valid);
}
inline void cp_async_commit_group() { emulator::cp_async_commit_group(); }
template <int N>
void cp_async_wait_group() {
  emulator::cp_async_wait_group(N);
}
}  // namespace ptx
