// Vectors of the instruction set, or smaller ones, by the compilers' vector extensions.
constexpr int isa_bytes(Isa isa) { return isa == Isa::AVX512 ? 64 : isa == Isa::AVX2 ? 32 : 16; }
static_assert(LANES * sizeof(Sum) <= isa_bytes(kIsa), "a vector must not be larger than the instruction set's");

#if !defined(__AVX512F__)
static_assert(kIsa != Isa::AVX512, "AVX512 needs a compiler flag such as -march=x86-64-v4");
#endif
#if !defined(__AVX2__) || !defined(__FMA__)
static_assert(kIsa != Isa::AVX2, "AVX2 needs a compiler flag such as -march=x86-64-v3");
#endif
#if !defined(__ARM_NEON)
static_assert(kIsa != Isa::NEON, "NEON needs a compiler for aarch64");
#endif

#define IM2WINGEN_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define IM2WINGEN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define IM2WINGEN_UNROLL _Pragma("GCC unroll 64")
#endif

typedef Sum Vector __attribute__((vector_size(LANES * sizeof(Sum))));
typedef Word Words __attribute__((vector_size(LANES * sizeof(Word))));
typedef Word LooseWords __attribute__((vector_size(LANES * sizeof(Word)), aligned(sizeof(Word)), may_alias));
typedef Word LooseWord __attribute__((aligned(sizeof(Element)), may_alias));
typedef Output Outputs __attribute__((vector_size(LANES * sizeof(Output))));
typedef Output LooseOutputs __attribute__((vector_size(LANES * sizeof(Output)), aligned(sizeof(Output)), may_alias));
typedef Output Four __attribute__((vector_size(4 * sizeof(Output))));
typedef Output LooseFour __attribute__((vector_size(4 * sizeof(Output)), aligned(sizeof(Output)), may_alias));

IM2WINGEN_INLINE Words load(const Word* from) { return *reinterpret_cast<const LooseWords*>(from); }
IM2WINGEN_INLINE void store(Output* to, Outputs v) { *reinterpret_cast<LooseOutputs*>(to) = v; }

// Past the caches, for lines that nobody reads soon; `to` is a multiple of the vector's size.
IM2WINGEN_INLINE void store_past_caches(Output* to, Outputs v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<Outputs*>(to));
#elif defined(__AVX512F__)
  if constexpr (kIsa == Isa::AVX512)
    asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<Outputs*>(to)) : "v"(v));
  else
    *reinterpret_cast<Outputs*>(to) = v;
#elif defined(__AVX__)
  asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<Outputs*>(to)) : "x"(v));
#else
  *reinterpret_cast<Outputs*>(to) = v;
#endif
}
// Orders stores past the caches before whatever tells another thread that they are done.
IM2WINGEN_INLINE void fence_stores() {
#if defined(__x86_64__)
  asm volatile("sfence" ::: "memory");
#endif
}

// Lane i of the result is lane pattern(i) of a, then b.
template <int (*pattern)(int), int... i>
IM2WINGEN_INLINE Vector shuffle(Vector a, Vector b, std::integer_sequence<int, i...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, pattern(i)...);
#else
  typedef std::conditional_t<sizeof(Sum) == 8, int64_t, int32_t> Lane;
  typedef Lane Mask __attribute__((vector_size(LANES * sizeof(Lane))));
  return __builtin_shuffle(a, b, Mask{pattern(i)...});
#endif
}
template <int (*pattern)(int)>
IM2WINGEN_INLINE Vector shuffle(Vector a, Vector b) {
  return shuffle<pattern>(a, b, std::make_integer_sequence<int, LANES>{});
}
// Of vectors of four lanes or more, within each four: the lower or upper two of both, interleaved or side by side.
constexpr int interleave_low(int i) { return (i / 4 * 4 + i % 4 / 2 + i % 2 * LANES) % (2 * LANES); }
constexpr int interleave_high(int i) { return (interleave_low(i) + 2) % (2 * LANES); }
constexpr int beside_low(int i) { return (i / 4 * 4 + i % 2 + i % 4 / 2 * LANES) % (2 * LANES); }
constexpr int beside_high(int i) { return (beside_low(i) + 2) % (2 * LANES); }

// Four rows of LANES columns: out[t] holds, in its j-th four lanes, column 4 * j + t.
IM2WINGEN_INLINE void transpose_fours(Vector a, Vector b, Vector c, Vector d, Vector (&out)[4]) {
  const Vector ab_low = shuffle<interleave_low>(a, b), ab_high = shuffle<interleave_high>(a, b);
  const Vector cd_low = shuffle<interleave_low>(c, d), cd_high = shuffle<interleave_high>(c, d);
  out[0] = shuffle<beside_low>(ab_low, cd_low);
  out[1] = shuffle<beside_high>(ab_low, cd_low);
  out[2] = shuffle<beside_low>(ab_high, cd_high);
  out[3] = shuffle<beside_high>(ab_high, cd_high);
}
// The j-th four lanes.
template <int j>
IM2WINGEN_INLINE void store_four(Output* to, Outputs v) {
  if constexpr (LANES == 4)
    store(to, v);
  else
    *reinterpret_cast<LooseFour*>(to) = reinterpret_cast<const Four(&)[LANES / 4]>(v)[j];
}
