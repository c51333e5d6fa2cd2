// wgmma (sm_90a) whose A is held in registers: D[64xITEM_SLOTS] = A[64xk] * B[kxITEM_SLOTS] (+ D if `accumulate`); rows of A
// and columns of B have 32 bytes. Lane l of warp w holds in a[i + 2 * j] bytes 16 * j + 4 * (l % 4) ... of row
// 16 * w + l / 4 + 8 * i; they may change once wgmma_wait_group says so, like D. The compiler does not
// know that: once a wgmma is issued it gives its A's registers to whatever is read next. B and D are as in wgmma.cuh.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
<% set registers = (ITEM_SLOTS | int) // 2 %>
<% for name, k, types, flags in [("f16", 16, "f16.f16", "1, 1, 0"), ("bf16", 16, "bf16.bf16", "1, 1, 0"), ("tf32", 8, "tf32.tf32", "1, 1")] %>
__device__ __forceinline__ void wgmma_held_m64k${ k }_f32_${ name }(float (&d)[ITEM_SLOTS / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %${ registers + 5 }, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${ ITEM_SLOTS }k${ k }.f32.${ types } {"
<% for begin in range(0, registers, 16) %>
<% set end = [begin + 16, registers] | min %>
      "<% for i in range(begin, end) %>%${ i }${ "," if i + 1 < registers else "" }<% endfor %>"
<% endfor %>
      "}, {%${ registers }, %${ registers + 1 }, %${ registers + 2 }, %${ registers + 3 }}, %${ registers + 4 }, p, ${ flags };\n}"
<% for begin in range(0, registers, 4) %>
<% set last = begin + 4 == registers %>
      ${ ":" if begin == 0 else " " }<% for i in range(begin, begin + 4) %> "+f"(d[${ i }])${ "" if loop.last and last else "," }<% endfor %>

<% endfor %>
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)));
}
<% endfor %>
__device__ __forceinline__ void wgmma_fence_held(float (&d)[ITEM_SLOTS / 2]) {
#pragma unroll
  for (int i = 0; i < ITEM_SLOTS / 2; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
}  // namespace ptx
#endif
