// Elements as bits.
template <int BYTES>
struct BitsOf {
  using Type = uint32_t;
};
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};
using Bits = BitsOf<sizeof(Element)>::Type;
