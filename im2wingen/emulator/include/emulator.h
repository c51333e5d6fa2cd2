// What the text of a CUDA kernel sees when it is compiled for the CPU with -DIM2WINGEN_EMULATED -include emulator.h.
// Everything here is thin: the work is done by the runner (../runtime), which loads the compiled kernel.
//
// A new group of PTX instructions is one more ptx_*.h here and one more .cpp beside it in ../runtime.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda_language.h"

#include "cuda_atomics.h"
#include "cuda_math.h"
#include "cuda_sync.h"
#include "ptx_bulk_copy.h"
#include "ptx_cluster.h"
#include "ptx_cache_policy.h"
#include "ptx_cp_async.h"
#include "ptx_cvt.h"
#include "ptx_griddepcontrol.h"
#include "ptx_ld_shared.h"
#include "ptx_ldmatrix.h"
#include "ptx_max.h"
#include "ptx_mbarrier.h"
#include "ptx_mma.h"
#include "ptx_movmatrix.h"
#include "ptx_named_barrier.h"
#include "ptx_setmaxnreg.h"
#include "ptx_st.h"
#include "ptx_stmatrix.h"
#include "ptx_tma.h"
#include "ptx_wgmma.h"
