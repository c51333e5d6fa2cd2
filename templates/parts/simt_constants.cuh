// The launch's filters in the constant bank, from which a multiply-add reads its filter by way of a uniform register:
// it takes no turn of the register file, and no load into one.
//
//   simt_filters [group][thread along the filters][channel][filter row][filter column][filter of the thread]
//
// are copied there before the launch.
#ifndef IM2WINGEN_EMULATED
__constant__ Element simt_filters[kConstantFilters ? BLOCK_N * C * R * S : 1];
#endif

// From channel c and tap (r, s) on, for the thread whose first filter is k. The emulator has no constant bank: there they
// are read where they were packed.
__device__ __forceinline__ const Element* constant_filters(const Element* packed, int k, int group, int r, int s,
                                                           int c) {
  const int first = ((((group * THREADS_N + k / VECTOR_N) * C + c) * R + r) * S + s) * THREAD_N;
#ifdef IM2WINGEN_EMULATED
  return packed + FIRST_FILTER * C * R * S + first;
#else
  return simt_filters + first;
#endif
}
static_assert(!kConstantFilters || C % BLOCK_C == 0, "whole chunks of channels in the constant bank");
