// A place in a ring of buffers that barriers guard.
template <int STAGES>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;  // of the round, for who waits until a buffer is full

  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
