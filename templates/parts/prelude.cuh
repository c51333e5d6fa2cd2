// Names that device code takes for granted. A CPU build defines IM2WINGEN_EMULATED and brings its own.
#ifndef IM2WINGEN_EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define IM2WINGEN_DYNAMIC_SMEM(name) extern __shared__ __align__(1024) unsigned char name[]
#define IM2WINGEN_EMULATED_ENTRY(kernel)
#endif
