// templates/ptx/bulk_copy.cuh on the CPU. A load lands some time after its issue, and until then its destination is
// poisoned; what it reads must lie in one array. A prefetch changes nothing.
#pragma once
#include "ptx_cache_policy.h"

namespace emulator {
void bulk_load(const char* name, void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier);
void bulk_store(const char* name, void* gmem, const void* smem, uint32_t bytes);
void bulk_prefetch(const char* name, const void* gmem, uint32_t bytes);
}  // namespace emulator

namespace ptx {
inline void cp_async_bulk_load(void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier) {
  emulator::bulk_load("cp.async.bulk load", smem, gmem, bytes, barrier);
}
inline void cp_async_bulk_load_hint(void* smem, const void* gmem, uint32_t bytes, uint64_t* barrier, uint64_t policy) {
  emulator::check_cache_policy("cp.async.bulk load", policy);
  emulator::bulk_load("cp.async.bulk load", smem, gmem, bytes, barrier);
}
inline void cp_async_bulk_store(void* gmem, const void* smem, uint32_t bytes) {
  emulator::bulk_store("cp.async.bulk store", gmem, smem, bytes);
}
inline void cp_async_bulk_store_hint(void* gmem, const void* smem, uint32_t bytes, uint64_t policy) {
  emulator::check_cache_policy("cp.async.bulk store", policy);
  emulator::bulk_store("cp.async.bulk store", gmem, smem, bytes);
}
inline void cp_async_bulk_prefetch_l2_hint(const void* gmem, uint32_t bytes, uint64_t policy) {
  emulator::check_cache_policy("cp.async.bulk.prefetch", policy);
  emulator::bulk_prefetch("cp.async.bulk.prefetch", gmem, bytes);
}
}  // namespace ptx
