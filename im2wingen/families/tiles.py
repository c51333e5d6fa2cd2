"""Which pixels a CTA computes: candidates for (tile_n, tile_p, tile_q), best use of the tile first."""

from dataclasses import dataclass
from functools import lru_cache

from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem

_BROKEN_GROUPS = 1.03  # padded rows avoid most of the bank conflicts that they would cause


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelTile:
    """tile_n images x tile_p output rows x tile_q output columns."""

    n: int
    p: int
    q: int

    def __str__(self) -> str:
        return f"{self.n}x{self.p}x{self.q}"

    @property
    def pixels(self) -> int:
        return self.n * self.p * self.q

    def count(self, problem: ConvProblem) -> int:
        """Tiles that cover the whole output."""
        return ceil_div(problem.n, self.n) * ceil_div(problem.p, self.p) * ceil_div(problem.q, self.q)

    def utilisation(self, problem: ConvProblem, granularity: int) -> float:
        """Wanted pixels over computed ones, where a tile computes a multiple of `granularity`."""
        return problem.gemm_m / (self.count(problem) * round_up(self.pixels, granularity))

    def patch_pixels(self, problem: ConvProblem) -> int:
        """Input pixels in the tile's receptive field."""
        patch_h = (self.p - 1) * problem.stride_h + problem.window_h
        patch_w = (self.q - 1) * problem.stride_w + problem.window_w
        return self.n * patch_h * patch_w

    def score(self, problem: ConvProblem, granularity: int) -> float:
        """Utilisation, discounted by the input that a tile reads per output pixel beyond the least possible.

        Rows that are not whole groups of 8 pixels, which shared memory serves at once, count a little less.
        """
        least = problem.stride_h * problem.stride_w
        halo = self.patch_pixels(problem) / (self.pixels * least) - 1
        discount = (1 + 0.05 * min(halo, 10.0)) * (1.0 if self.q % 8 == 0 else _BROKEN_GROUPS)
        return self.utilisation(problem, granularity) / discount


def _splits(extent: int, most: int) -> list[int]:
    """Tile extents that cut `extent` into near-equal parts, none above `most`."""
    sizes = range(1, min(extent, most) + 1)
    return [size for size in sizes if ceil_div(extent, ceil_div(extent, size)) == size]


@lru_cache(maxsize=256)
def pixel_tiles(
    problem: ConvProblem, *, sizes: tuple[tuple[int, int], ...], granularity: int = 16, per_size: int = 6
) -> tuple[PixelTile, ...]:
    """The best `per_size` tiles of each size class (least and most pixels), in order of size, without repeats.

    Where the whole problem has fewer pixels than a class, its largest tile stands in.
    """
    most = max(upper for _, upper in sizes)
    tiles = []
    for q in _splits(problem.q, most):
        for p in _splits(problem.p, most // q):
            images = sorted({1, *_splits(min(problem.n, most // (p * q)), most // (p * q))})
            tiles += [PixelTile(n=n, p=p, q=q) for n in images if n <= problem.n and n * p * q <= most]
    chosen: dict[PixelTile, None] = {}
    for least, upper in sizes:
        members = [tile for tile in tiles if least <= tile.pixels <= upper]
        members = members or [max((t for t in tiles if t.pixels <= upper), key=lambda t: (t.pixels, str(t)))]
        members.sort(key=lambda tile: (-tile.score(problem, granularity), str(tile)))
        chosen.update(dict.fromkeys(members[:per_size]))
    return tuple(chosen)
