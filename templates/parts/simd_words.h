// What a step multiplies: words, each of WORD_C channels. The packed filter consists of them, and so do windows.
//
//   product  x and w      word                                   sum
//   FMA      fp32, fp64   the element                            its type
//            bf16         the element as fp32                    fp32
//   MADD     int8         2 channels as int16                    int32   vpmaddwd
//   DOT      bf16         2 channels                             fp32    vdpbf16ps
//            int8         4 channels, those of x + 128, unsigned  int32   vpdpbusd, which doesn't saturate
//   AMX      bf16, int8   2 or 4 channels                        as DOT  tdpbf16ps, tdpbssd: 16 words of 16 pixels
//
// Words of FMA for fp32 and fp64, of DOT for bf16 and of AMX lie in an NHWC x as they are; others are made when a
// window is copied. Channels that a word lacks are zero. So are the pads of copied windows: what an Inf or a NaN of the
// filter does to outputs by way of them is undone by simd_repair.h.
constexpr bool kBf16 = std::is_same_v<Element, uint16_t>, kInt8 = std::is_same_v<Element, int8_t>;
using Sum = std::conditional_t<kBf16, float, std::conditional_t<kInt8, int32_t, Element>>;
using Part = std::conditional_t<kProduct == Product::FMA, Sum,
                                std::conditional_t<kProduct == Product::MADD, int16_t, Element>>;  // of a word
using Word = std::conditional_t<kProduct == Product::FMA, Sum, uint32_t>;
constexpr int WORD_C = sizeof(Word) / sizeof(Part);
constexpr bool kWords = kBf16 || kInt8;
constexpr bool kBiased = kInt8 && kProduct == Product::DOT;  // a window's numbers are 128 too large

static_assert(kProduct != Product::MADD || kInt8, "MADD multiplies int8");
static_assert(kProduct == Product::FMA ? !kInt8 : kWords, "FMA multiplies floating point, DOT and AMX bf16 and int8");
static_assert(!kWords || kChannelsInLanes, "bf16 and int8 have output channels in lanes");

template <bool window>
inline Part part_of(Element element) {
  if constexpr (kBf16 && kProduct == Product::FMA) {
    const uint32_t bits = uint32_t(element) << 16;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  } else if constexpr (kBiased && window) {
    return Part(int(element) ^ -128);
  } else {
    return Part(element);
  }
}
