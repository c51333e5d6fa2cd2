// The types of 8-bit floating-point numbers.
#ifndef IM2WINGEN_EMULATED
#include <cuda_fp8.h>
#endif
