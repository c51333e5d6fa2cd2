// The CTA's output tile. Linear: all tiles of gemm_n at one place of gemm_m, then the next place. Zig-zag: every second
// place walks gemm_n backwards, so that a turn finds the filters of the tile before still in L2.
struct TileIndex {
  int m, n;
};
__device__ __forceinline__ TileIndex tile_index(int cta) {
  int m = cta / kTilesN, n = cta % kTilesN;
  if (kTileOrderZigzag && m % 2 == 1) n = kTilesN - 1 - n;
  return {m, n};
}
