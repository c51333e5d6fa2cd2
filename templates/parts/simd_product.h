// sum + x * filter for all lanes, by the instruction of the product. Of both operands one is a single word.
IM2WINGEN_INLINE Vector multiply_add(Vector sum, Words pixels, Word filter) { return sum + (Vector)(pixels * filter); }

#if defined(__x86_64__)
IM2WINGEN_INLINE Vector vpdpbusd(Vector sum, Words unsigned_x, Words filter) {
  if constexpr (kIsa == Isa::AVX512)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_x), "v"(filter));
  else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsigned_x), "x"(filter));
  return sum;
}
IM2WINGEN_INLINE Vector vdpbf16ps(Vector sum, Words x, Words filter) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(filter));
  return sum;
}
IM2WINGEN_INLINE Vector vpmaddwd(Words x, Words filter) {
  Vector sums;
  if constexpr (kIsa == Isa::AVX512) {
    asm("vpmaddwd %2, %1, %0" : "=v"(sums) : "v"(x), "v"(filter));
  } else if constexpr (kIsa == Isa::AVX2) {
    asm("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(x), "x"(filter));
  } else {
    asm("pmaddwd %1, %0" : "+x"(x) : "x"(filter));
    sums = reinterpret_cast<const Vector&>(x);
  }
  return sums;
}
#endif
// Both int16 of each word.
template <class W>
IM2WINGEN_INLINE Vector multiply_pairs(W x, W filter) {
#if defined(__x86_64__)
  return vpmaddwd(x, filter);
#else
  typedef int32_t Pairs __attribute__((vector_size(sizeof(W))));
  const auto low = [](W pair) { return (Pairs)(pair << 16) >> 16; };
  const auto high = [](W pair) { return (Pairs)pair >> 16; };
  return (Vector)(low(x) * low(filter) + high(x) * high(filter));
#endif
}

template <class W>
IM2WINGEN_INLINE Vector multiply_add(Vector sum, Word x, W filter) {
  if constexpr (kProduct == Product::FMA)
    return sum + (Vector)(x * filter);
  else if constexpr (kProduct == Product::MADD)
    return sum + multiply_pairs(W{} + x, filter);
#if defined(__x86_64__)
  else if constexpr (kProduct == Product::DOT)
    return kInt8 ? vpdpbusd(sum, W{} + x, filter) : vdpbf16ps(sum, W{} + x, filter);
#endif
  else
    return sum;  // AMX has no vectors
}

// Sums as y stores them: bf16 rounded to nearest, ties to even.
template <class V>
IM2WINGEN_INLINE Outputs outputs_of(V sums) {
  if constexpr (!kBf16) {
    return reinterpret_cast<const Outputs&>(sums);
#if defined(__x86_64__)
  } else if constexpr (kRoundsByItself) {
    Outputs rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(sums));
    return rounded;
#endif
  } else {
    typedef uint32_t Bits __attribute__((vector_size(sizeof(V))));
    const Bits bits = reinterpret_cast<const Bits&>(sums);
    const Bits rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return __builtin_convertvector(sums == sums ? rounded : Bits{} + 0x7FFF, Outputs);
  }
}
// A bias, or a vector of them, in the accumulators' type.
template <class B>
IM2WINGEN_INLINE auto sums_of(B bias) {
  if constexpr (!kBf16) {
    return bias;
  } else {
    typedef uint32_t Bits __attribute__((vector_size(sizeof(Vector))));
    const Bits bits = __builtin_convertvector(bias, Bits) << 16;
    return reinterpret_cast<const Vector&>(bits);
  }
}
