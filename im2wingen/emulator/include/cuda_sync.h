// Barriers of the CTA, and the exchange of values within a warp.
#pragma once
namespace emulator {

struct BarrierResult {
  unsigned count;    // predicates that were not zero
  unsigned threads;  // that took part
};
// Waits for every thread of the CTA that has not ended.
BarrierResult barrier(const char* name, bool predicate);

// The lanes of `mask` (those that have not ended) hand in a value; each gets all of them. Returns who took part.
unsigned exchange(const char* name, unsigned mask, uint64_t value, uint64_t (&values)[32]);
[[noreturn]] void read_of_absent_lane(const char* name, int lane);
unsigned lane_index();

// The value of `source` (a lane of the warp).
template <class T>
T shuffle(const char* name, unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves 2, 4 or 8 bytes");
  uint64_t bits = 0, values[32];
  memcpy(&bits, &value, sizeof(T));
  const unsigned present = exchange(name, mask, bits, values);
  if (!(present >> source & 1)) read_of_absent_lane(name, source);
  memcpy(&value, &values[source], sizeof(T));
  return value;
}
template <class Combine>
unsigned reduce(const char* name, unsigned mask, unsigned value, Combine combine) {
  uint64_t values[32];
  const unsigned present = exchange(name, mask, value, values);
  unsigned result = value;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (present >> lane & 1 && lane != lane_index()) result = combine(result, unsigned(values[lane]));
  return result;
}

}  // namespace emulator

inline void __syncthreads() { emulator::barrier("__syncthreads", false); }
inline int __syncthreads_count(int predicate) { return emulator::barrier("__syncthreads_count", predicate).count; }
inline int __syncthreads_or(int predicate) { return emulator::barrier("__syncthreads_or", predicate).count != 0; }
inline int __syncthreads_and(int predicate) {
  const emulator::BarrierResult result = emulator::barrier("__syncthreads_and", predicate);
  return result.count == result.threads;
}

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  uint64_t values[32];
  emulator::exchange("__syncwarp", mask, 0, values);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  uint64_t values[32];
  const unsigned present = emulator::exchange("__ballot_sync", mask, predicate != 0, values);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (present >> lane & 1) ballot |= unsigned(values[lane]) << lane;
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate) {
  return emulator::reduce("__any_sync", mask, predicate != 0, [](unsigned a, unsigned b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate) {
  return emulator::reduce("__all_sync", mask, predicate != 0, [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return emulator::reduce("__reduce_add_sync", mask, value, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return emulator::reduce("__reduce_max_sync", mask, value, [](unsigned a, unsigned b) { return a < b ? b : a; });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return emulator::reduce("__reduce_min_sync", mask, value, [](unsigned a, unsigned b) { return b < a ? b : a; });
}

// A lane whose source lies outside its segment of `width` lanes keeps its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = emulator::lane_index();
  return emulator::shuffle("__shfl_sync", mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = emulator::lane_index(), source = lane - int(delta);
  return emulator::shuffle("__shfl_up_sync", mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = emulator::lane_index(), source = lane + int(delta);
  return emulator::shuffle("__shfl_down_sync", mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = emulator::lane_index(), source = lane ^ lane_mask;
  return emulator::shuffle("__shfl_xor_sync", mask, value, source > (lane | (width - 1)) ? lane : source);
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __trap() { emulator::trap("__trap"); }
