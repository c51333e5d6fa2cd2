// A tile multiplies zeros that are no part of the convolution, such as those of the padding: with an Inf or a NaN they
// make a NaN. An output that came out as NaN is computed again here, over the taps inside the image alone.
__device__ __noinline__ void repair_output(const Element* x, const Element* w, const Element* bias, Element* y, int n,
                                           int p, int q, int k) {
  Number acc = 0;
  for (int r = 0; r < R; ++r) {
    const int h = p * STRIDE_H - PAD_TOP + r * DILATION_H;
    if (h < 0 || h >= H) continue;
    for (int s = 0; s < S; ++s) {
      const int col = q * STRIDE_W - PAD_LEFT + s * DILATION_W;
      if (col < 0 || col >= W) continue;
      for (int c = 0; c < C; ++c)
        acc += to_number(x[input_offset(n, h, col, c)]) * to_number(w[filter_offset(k, r, s, c)]);
    }
  }
  y[output_offset(n, p, q, k)] = from_number(epilogue(acc, epilogue_bias(bias, k)));
}
