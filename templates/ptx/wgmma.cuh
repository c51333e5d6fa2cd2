// wgmma (sm_90a): D[64xWGMMA_N] = A[64xk] * B[kxWGMMA_N] (+ D if `accumulate`) by one warpgroup, fp32 accumulators (int32
// of integers, which wrap), both operands in shared memory and named by descriptors, k innermost. WGMMA_N is 8 to 256 in
// steps of 8, of integers beyond 32 in steps of 16. Lane l of warp w
// holds in d[4 * j + i] row 16 * w + l / 4 + (i >= 2 ? 8 : 0), column 8 * j + 2 * (l % 4) + i % 2.
// The multiplication runs on while the threads do; d and the operands are free once wgmma_wait_group says so.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
// No instruction: keeps the compiler from moving what it does with d across this point.
__device__ __forceinline__ void wgmma_fence_operand(float (&d)[WGMMA_N / 2]) {
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void wgmma_fence_operand(int32_t (&d)[WGMMA_N / 2]) {
#pragma unroll
  for (int i = 0; i < WGMMA_N / 2; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

<% set registers = (WGMMA_N | int) // 2 %>
<% for name, instruction, scales in [
  ("m64k16_f32_f16", "k16.f32.f16.f16", ", 1, 1, 0, 0"),
  ("m64k16_f32_bf16", "k16.f32.bf16.bf16", ", 1, 1, 0, 0"),
  ("m64k8_f32_tf32", "k8.f32.tf32.tf32", ", 1, 1"),
  ("m64k32_s32_s8", "k32.s32.s8.s8", ""),
  ("m64k32_f32_e4m3", "k32.f32.e4m3.e4m3", ", 1, 1"),
  ("m64k32_f32_e5m2", "k32.f32.e5m2.e5m2", ", 1, 1"),
] %>
<% set type, constraint = ("int32_t", "+r") if "s32" in name else ("float", "+f") %>
__device__ __forceinline__ void wgmma_${ name }(${ type } (&d)[WGMMA_N / 2], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %${ registers + 2 }, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${ WGMMA_N }${ instruction } {"
<% for begin in range(0, registers, 16) %>
<% set end = [begin + 16, registers] | min %>
      "<% for i in range(begin, end) %>%${ i }${ "," if i + 1 < registers else "" }<% endfor %>"
<% endfor %>
      "}, %${ registers }, %${ registers + 1 }, p${ scales };\n}"
<% for begin in range(0, registers, 4) %>
<% set last = begin + 4 == registers %>
      ${ ":" if begin == 0 else " " }<% for i in range(begin, begin + 4) %> "${ constraint }"(d[${ i }])${ "" if loop.last and last else "," }<% endfor %>

<% endfor %>
      : "l"(a), "l"(b), "r"(int(accumulate)));
}
<% endfor %>
}  // namespace ptx
#endif
