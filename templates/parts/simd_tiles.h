// Images come one by one or, where vectors hold them, in units: a vector of them (CHWN), a block of 8 (CHWN8).
constexpr bool kImageBlocks = IMAGES == 8;  // a CHWN of 8 images is one such block
constexpr int UNIT_VECTORS = kImageBlocks ? 8 / LANES : 1;
constexpr int UNIT_IMAGES = kImagesInLanes ? UNIT_VECTORS * LANES : 1;
constexpr Cut kCutN = cut(ceil_div(N, UNIT_IMAGES), TILE_N), kCutP = cut(P, TILE_P);
// Columns of a tile, or vectors of them. AMX's tiles all have the largest part: the last one begins earlier.
constexpr Cut kColumns = cut(kPixelsInLanes ? ceil_div(Q, LANES) : Q, TILE_Q);
constexpr Cut kCutQ = kProduct == Product::AMX ? Cut{kColumns.parts, kColumns.largest(), 0} : kColumns;
constexpr Cut kRowBlocks = cut(kCutP.parts, BLOCK_P < TILE_P ? 1 : BLOCK_P / TILE_P);  // in tiles of rows
constexpr Cut kFilterBlocks = cut(kVectorCut.parts, BLOCK_K);                          // in tiles of output channels
constexpr int64_t kItems = int64_t(kCutN.parts) * kRowBlocks.parts * GROUPS * kFilterBlocks.parts;

// Vectors of a CHWN array must not reach beyond its last image: the last one begins earlier, over images of the one
// before it. Where that one is another tile's, the whole tile begins earlier and leaves those OVERLAP images to it.
constexpr bool kLooseImages = kImagesInLanes && !kImageBlocks;
constexpr int OVERLAP = kLooseImages && kCutN.parts > 1 ? ceil_div(N, LANES) * LANES - N : 0;
constexpr int first_image(int tile) {
  const int begin = kCutN.begin(tile) * UNIT_IMAGES;
  return tile > 0 && tile == kCutN.parts - 1 ? begin - OVERLAP : begin;
}
constexpr int64_t vector_of_images(int vector, int64_t unit) {  // of a tile; `unit` is from one to the next
  if (kLooseImages && kCutN.parts == 1 && (vector + 1) * LANES > N) return N - LANES;
  return vector / UNIT_VECTORS * unit + vector % UNIT_VECTORS * LANES;
}

// Where vectors hold columns none reaches beyond a row: the last tile begins earlier and computes some of them again,
// or its last vector does so if there is no tile before it.
static_assert(!kPixelsInLanes || (STRIDE_W == 1 && PADDED_W == W && Q >= LANES && !kInputChannelsLast &&
                                  !kOutputChannelsLast),
              "vectors hold the pixels of NCHW rows of at least a vector, without stride and pads");
constexpr int first_column(int tile) {
  if (kProduct == Product::AMX) return tile == kCutQ.parts - 1 ? Q - kCutQ.least : kCutQ.begin(tile);
  if (!kPixelsInLanes) return kCutQ.begin(tile);
  return tile > 0 && tile == kCutQ.parts - 1 ? Q - kCutQ.size(tile) * LANES : kCutQ.begin(tile) * LANES;
}
constexpr int column_in_tile(int i) {
  if (!kPixelsInLanes) return i;
  return kCutQ.parts == 1 && (i + 1) * LANES > Q ? Q - LANES : i * LANES;
}

// What the micro-kernel reads, in words: from one row, column, channel or unit of images of the input to the next.
constexpr bool kCopied = kWindow == Window::copied, kExplicit = kWindow == Window::explicit_window;
constexpr int COPIED_ROWS = (kRowBlocks.largest() * kCutP.largest() - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int COPIED_C = kCopied ? BLOCK_C : C / WORD_C;
constexpr int COPIED_IMAGES = kLooseImages && kCopied && kCutN.parts > 1 ? kCutN.largest() * LANES : IMAGES;
constexpr bool kPadded = kWords && kCopied;  // copied windows of words are channels last and have their pads
constexpr bool kWindowChannelsLast = kInputChannelsLast || kWords;
constexpr int64_t X_COLUMN = kWindowChannelsLast ? COPIED_C : COPIED_IMAGES;
constexpr int64_t X_ROW = (kPadded ? PADDED_W : W) * X_COLUMN * (kCopied && !kWindowChannelsLast ? COPIED_C : 1);
constexpr int64_t X_CHANNEL = kWindowChannelsLast ? 1 : kCopied ? W * X_COLUMN : H * W * X_COLUMN;
constexpr int64_t X_IMAGE = kLooseImages ? LANES : (kCopied ? COPIED_ROWS * X_ROW : H * int64_t(W) * COPIED_C * COPIED_IMAGES);
constexpr int64_t WINDOW_COLUMN = R * X_COLUMN;  // of the im2win tensor
constexpr int64_t WINDOW_ROW = PADDED_W * WINDOW_COLUMN;

constexpr int64_t SOURCE_N = kExplicit && !kLooseImages ? P * WINDOW_ROW * (kInputChannelsLast ? 1 : C) : X_IMAGE;
constexpr int64_t SOURCE_P = kExplicit ? WINDOW_ROW : STRIDE_H * X_ROW;
constexpr int64_t SOURCE_Q = STRIDE_W * (kExplicit ? WINDOW_COLUMN : X_COLUMN);
constexpr int64_t SOURCE_R = kExplicit ? X_COLUMN : DILATION_H * X_ROW;
constexpr int64_t SOURCE_S = DILATION_W * (kExplicit ? WINDOW_COLUMN : X_COLUMN);
constexpr int64_t SOURCE_C = kWindowChannelsLast ? 1 : kExplicit ? P * WINDOW_ROW : X_CHANNEL;
constexpr int64_t SOURCE_ORIGIN = kExplicit ? 0 : -(PAD_TOP * X_ROW + PAD_LEFT * X_COLUMN);

// Outputs, in elements: from one channel, pixel or unit of images to the next of y, or of a staged tile of an NCHW y.
constexpr int STAGED_PLANE = (kCutP.largest() * Q / 16 | 1) * 16 + 32;  // whole cache lines, an odd number of them
constexpr int STAGED_PLANES = kVectorCut.largest() * FILTER_LANES;
constexpr int64_t OUTPUT_PIXEL = kOutputChannelsLast ? K : IMAGES;
constexpr int64_t OUTPUT_CHANNEL = kOutputChannelsLast ? 1 : kStaged ? STAGED_PLANE : int64_t(P) * Q * OUTPUT_PIXEL;
constexpr int64_t OUTPUT_IMAGE = kLooseImages ? LANES : kStaged ? int64_t(STAGED_PLANES) * STAGED_PLANE
                                                                : int64_t(P) * Q * K * IMAGES;

// Outputs whose tap lies inside the image: [first, end) for each filter row or column.
struct Reach {
  int first, end;
};
constexpr int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr Reach reach(int tap, int dilation, int pad, int stride, int extent, int outputs) {
  const int offset = tap * dilation - pad;  // of the tap at output 0
  return {clamp(-floor_div(offset, stride), 0, outputs),
          clamp(floor_div(extent - 1 - offset, stride) + 1, 0, outputs)};
}
constexpr Reach row_reach(int r) { return reach(r, DILATION_H, PAD_TOP, STRIDE_H, H, P); }
constexpr Reach column_reach(int s) { return reach(s, DILATION_W, PAD_LEFT, STRIDE_W, W, Q); }
constexpr Reach kInsideRows{row_reach(0).first, row_reach(R - 1).end};  // all their taps lie inside the image
constexpr Reach kInsideColumns{column_reach(0).first, column_reach(S - 1).end};
