// One box by TMA into shared memory, as it lies there to `raw`; its bytes, copied by threads to a second place, by TMA to
// the target. LOAD and STORE are the instructions, COORDINATES and STORED their last operands. MUTANT breaks it on purpose.
<% include "parts/prelude.cuh" %>
<% include "ptx/mbarrier.cuh" %>
<% include "ptx/tma.cuh" %>
struct Maps {
  ptx::TensorMap source, target;
};
constexpr int CHUNKS = BOX_BYTES / 16;

extern "C" __global__ void tma_copy(const __grid_constant__ Maps maps, const int* corner, uint4* raw) {
  IM2WINGEN_DYNAMIC_SMEM(smem);  // 1024: barrier; BOX_BYTES at SMEM_OFFSET, rounded up to 1024; the second place likewise
  uint64_t* landed = reinterpret_cast<uint64_t*>(smem);
  unsigned char *box = smem + 1024 + SMEM_OFFSET, *staged = box + (BOX_BYTES + 1023) / 1024 * 1024;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&maps.source);
    ptx::mbarrier_init(landed, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(landed, BOX_BYTES + (MUTANT == 2 ? -16 : MUTANT == 3 ? 16 : 0));  // 2, 3: wrong bytes
    ptx::LOAD(box, &maps.source, landed, COORDINATES);
    if (MUTANT == 4) ptx::LOAD(box, &maps.source, landed, COORDINATES);  // 4: twice to one place
  }
  __syncthreads();
  if (MUTANT != 5)  // 5: no wait
    while (!ptx::mbarrier_try_wait_parity(landed, MUTANT == 1)) {}  // 1: wrong parity
  for (int i = threadIdx.x; i < CHUNKS; i += blockDim.x)
    raw[i] = reinterpret_cast<uint4*>(staged)[i] = reinterpret_cast<const uint4*>(box)[i];
  if (MUTANT == 1)
    while (!ptx::mbarrier_try_wait_parity(landed, 0)) {}
  if (MUTANT != 6) ptx::fence_proxy_async_shared_cta();  // 6: TMA does not see what the threads wrote
  if (MUTANT != 7) __syncthreads();                      // 7: others have not written yet
  if (threadIdx.x == 0) {
    if (MUTANT == 8) {  // 8: loads over what the threads wrote without a fence
      staged[0] = 77;
      ptx::LOAD(staged, &maps.source, landed, COORDINATES);
    }
    ptx::STORE(&maps.target, staged, STORED);
    ptx::cp_async_bulk_commit_group();
    if (MUTANT != 9 && MUTANT != 10) ptx::cp_async_bulk_wait_group_read<0>();  // 9, 10: no wait until it has read
    if (MUTANT != 9) reinterpret_cast<uint4*>(staged)[3] = make_uint4(0, 0, 0, 0);
    if (MUTANT != 9) ptx::cp_async_bulk_wait_group<0>();
  }
}
IM2WINGEN_EMULATED_ENTRY(tma_copy)
