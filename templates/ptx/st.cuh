// st.global.v4 (every GPU): 16 bytes in one store, whatever the compiler knows about where they come from. 16-byte aligned.
#ifndef IM2WINGEN_EMULATED
namespace ptx {
__device__ __forceinline__ void st_global_v4(void* gmem, const uint32_t (&words)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(gmem), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}
}  // namespace ptx
#endif
