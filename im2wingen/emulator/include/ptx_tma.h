// templates/ptx/tma.cuh on the CPU. A load lands some time after its issue, and until then its destination is poisoned. A
// store must find the same bytes at its issue and at the wait for its reading; what changed in between is stored poisoned.
#pragma once
namespace ptx {
struct alignas(64) TensorMap {
  uint64_t opaque[16];  // of the runner, which makes them
};
}  // namespace ptx

namespace emulator {
void check_tensor_map(const char* name, const ptx::TensorMap* map);
void tensor_load(const char* name, void* smem, const ptx::TensorMap* map, uint64_t* barrier, unsigned rank,
                 const int* coordinates);
void tensor_store(const char* name, const ptx::TensorMap* map, const void* smem, unsigned rank, const int* coordinates);
void bulk_commit_group();
void bulk_wait_group(unsigned pending, bool read);
void fence_proxy_async();
}  // namespace emulator

namespace ptx {
inline void prefetch_tensormap(const TensorMap* map) { emulator::check_tensor_map("prefetch.tensormap", map); }
inline void cp_async_bulk_tensor_3d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0, int c1, int c2) {
  const int coordinates[] = {c0, c1, c2};
  emulator::tensor_load("cp.async.bulk.tensor.3d load", smem, map, barrier, 3, coordinates);
}
inline void cp_async_bulk_tensor_4d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0, int c1, int c2,
                                         int c3) {
  const int coordinates[] = {c0, c1, c2, c3};
  emulator::tensor_load("cp.async.bulk.tensor.4d load", smem, map, barrier, 4, coordinates);
}
inline void cp_async_bulk_tensor_5d_load(void* smem, const TensorMap* map, uint64_t* barrier, int c0, int c1, int c2,
                                         int c3, int c4) {
  const int coordinates[] = {c0, c1, c2, c3, c4};
  emulator::tensor_load("cp.async.bulk.tensor.5d load", smem, map, barrier, 5, coordinates);
}
inline void cp_async_bulk_tensor_3d_store(const TensorMap* map, const void* smem, int c0, int c1, int c2) {
  const int coordinates[] = {c0, c1, c2};
  emulator::tensor_store("cp.async.bulk.tensor.3d store", map, smem, 3, coordinates);
}
inline void cp_async_bulk_tensor_4d_store(const TensorMap* map, const void* smem, int c0, int c1, int c2, int c3) {
  const int coordinates[] = {c0, c1, c2, c3};
  emulator::tensor_store("cp.async.bulk.tensor.4d store", map, smem, 4, coordinates);
}
inline void cp_async_bulk_tensor_5d_store(const TensorMap* map, const void* smem, int c0, int c1, int c2, int c3, int c4) {
  const int coordinates[] = {c0, c1, c2, c3, c4};
  emulator::tensor_store("cp.async.bulk.tensor.5d store", map, smem, 5, coordinates);
}
inline void cp_async_bulk_commit_group() { emulator::bulk_commit_group(); }
template <int N>
void cp_async_bulk_wait_group_read() {
  emulator::bulk_wait_group(N, true);
}
template <int N>
void cp_async_bulk_wait_group() {
  emulator::bulk_wait_group(N, false);
}
inline void fence_proxy_async_shared_cta() { emulator::fence_proxy_async(); }
}  // namespace ptx
