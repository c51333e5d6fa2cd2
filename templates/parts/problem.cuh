// The convolution: x[N,C,H,W] * w[K,C/GROUPS,R,S] -> y[N,K,P,Q].
using Element = ${ELEMENT};  // storage type of x, w, bias and y
constexpr int N = ${N}, C = ${C}, H = ${H}, W = ${W};
constexpr int K = ${K}, R = ${R}, S = ${S};
constexpr int P = ${P}, Q = ${Q};
constexpr int STRIDE_H = ${STRIDE_H}, STRIDE_W = ${STRIDE_W};
constexpr int PAD_TOP = ${PAD_TOP}, PAD_LEFT = ${PAD_LEFT};
constexpr int PADDED_W = ${PADDED_W};  // W with both pads
constexpr bool kHasPadding = ${HAS_PADDING};
constexpr int DILATION_H = ${DILATION_H}, DILATION_W = ${DILATION_W};
constexpr int GROUPS = ${GROUPS};
constexpr bool kInputChannelsLast = ${INPUT_CHANNELS_LAST};    // x is NHWC, else NCHW
constexpr bool kFilterChannelsLast = ${FILTER_CHANNELS_LAST};  // w is KRSC, else KCRS
constexpr bool kOutputChannelsLast = ${OUTPUT_CHANNELS_LAST};  // y is NHWC, else NCHW
constexpr bool kHasBias = ${HAS_BIAS}, kHasRelu = ${HAS_RELU};
