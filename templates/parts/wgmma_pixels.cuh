// Where row `p`, column `q` from a tile's first lies in an image's plane of y, or -1 if it is not stored.
__device__ __forceinline__ int stored_offset(Origin place, int n, int p, int q) {
  const bool stored = q < (kMapping == BLOCK ? 8 : TILE_Q) && p < place.p + (kMapping == BLOCK ? TILE_P : JOINED_ROWS) &&
                      place.q + q < Q && p < P && n < N;
  return stored ? p * Q + place.q + q : -1;
}

// Where pixel `i` of a subtile lies in an image's plane of y, or -1 if it is not stored; its image in `n`.
__device__ __forceinline__ int pixel_offset(int i, Origin place, int& n) {
  int p, q;
  if constexpr (kMapping == BLOCK) {
    n = place.n;
    p = place.p + i / 8;
    q = i % 8;
  } else {
    n = place.n + i % TILE_N;
    const int column = i / TILE_N;  // of joined rows
    p = place.p + column / PATCH_W;
    q = column % PATCH_W;
  }
  return stored_offset(place, n, p, q);
}
// The same of pixel `i` (below 8) of group `j`, which the compiler knows: without divisions, where a row is not so short that
// a group goes on in the next but one.
__device__ __forceinline__ int pixel_offset_in_group(int j, int i, Origin place, int& n) {
  if constexpr (kMapping == BLOCK || (8 % TILE_N != 0 && TILE_N % 8 != 0) || PATCH_W * TILE_N < 8) {
    return pixel_offset(j * 8 + i, place, n);
  } else {
    n = place.n + j * 8 % TILE_N + i % TILE_N;
    const int q = j * 8 / TILE_N % PATCH_W + i / TILE_N;
    const bool next = q >= PATCH_W;
    return stored_offset(place, n, place.p + j * 8 / TILE_N / PATCH_W + next, next ? q - PATCH_W : q);
  }
}
