using Output = ${OUTPUT};  // storage type of bias and y
enum class Isa { AVX512, AVX2, NEON, GENERIC };
constexpr Isa kIsa = Isa::${ISA};
enum class Product { FMA, MADD, DOT, AMX };
constexpr Product kProduct = Product::${PRODUCT};  // what multiplies, and with it what a word is
constexpr bool kRoundsByItself = ${ROUNDS_BY_ITSELF};  // the CPU has an instruction from fp32 to bf16
constexpr int LANES = ${LANES};          // words of a vector
constexpr int IMAGES = ${IMAGES};        // that lie side by side in x and y: 1, N (CHWN) or 8 (CHWN8)
constexpr int VECTORS_K = ${VECTORS_K};  // vectors of output channels of the micro-kernel, at most
constexpr int BLOCK_C = ${BLOCK_C};      // words of a chunk's channels
constexpr bool kTapsInner = ${TAPS_INNER};  // steps run over r, s within each channel, else over c within each tap
constexpr bool kImagesInLanes = IMAGES > 1;
constexpr bool kPixelsInLanes = ${PIXELS_IN_LANES};  // neighbours of a row, in NCHW
constexpr bool kChannelsInLanes = !kImagesInLanes && !kPixelsInLanes;
constexpr int FILTER_LANES = kChannelsInLanes ? LANES : 1;  // output channels of what is here called their vector
