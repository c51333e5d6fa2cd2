"""An NCHW x that is turned in shared memory: the pieces in which TMA brings it."""

from dataclasses import dataclass
from math import gcd

from im2wingen.families.base import TensorMap
from im2wingen.families.support import ceil_div, round_up
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.problem import ConvProblem

_MAX_BYTES = 16 * 1024  # of a piece, where its lines can be fewer
_PIECE_BYTES = 1024  # that could be turned in the time of a piece's barriers
_MAX_BOX = 256
_BARRIER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Numbers of parts/wgmma_turn.cuh: a piece is block_k channels of `lines` lines of `pitch` pixels."""

    problem: ConvProblem
    config: WgmmaConfig
    patch_h: int
    patch_w: int

    @property
    def possible(self) -> bool:
        """Whether TMA can bring lines of x, whose pixels are neighbours in the patch too."""
        problem = self.problem
        plain = problem.x_layout == "nchw" and problem.element_bytes == 2
        near = problem.stride_h == problem.stride_w == 1 and self.config.tile_n == 1
        whole = self.patch_w == problem.w and problem.h * problem.w % 8 == 0 and not problem.has_padding
        return plain and near and (not self.whole_rows or whole) and self.pitch <= _MAX_BOX

    @property
    def whole_rows(self) -> bool:
        """Whether a line is `line_rows` rows of x: they are no multiples of 16 bytes."""
        return self.problem.w % 8 != 0

    @property
    def line_rows(self) -> int:
        """As many as a box holds."""
        if not self.whole_rows:
            return 1
        rows = range(self.patch_h, 1, -1)
        return next((count for count in rows if (pitch := self._pitch(count)) <= _MAX_BOX and self._fits(pitch)), 1)

    @property
    def pitch(self) -> int:
        """Pixels from line to line."""
        return self._pitch(self.line_rows)

    def _pitch(self, line_rows: int) -> int:
        """Of lines of so many rows: an odd number of 8, so that channels lie in different banks."""
        pixels = line_rows * self.problem.w if self.whole_rows else self.patch_w
        return 8 * (ceil_div(self._skew(line_rows) + pixels, 8) | 1)

    def _skew(self, line_rows: int) -> int:
        """The most pixels that come in front of a line, since TMA begins at multiples of 16 bytes."""
        problem, tile = self.problem, self.config.tile
        if self.whole_rows:
            tiles = tile.p * problem.w if tile.p < problem.p else 0
            return 8 - gcd(8, tiles, line_rows * problem.w if line_rows < self.patch_h else 0)
        return 8 - gcd(8, tile.q if tile.q < problem.q else 0, problem.pad_left)

    @property
    def lines(self) -> int:
        """An odd number, that makes few pieces with few lines beyond the patch."""
        if self.whole_rows:
            return 1
        line = self.pitch * self.config.block_k * self.problem.element_bytes

        def cost(lines: int) -> tuple[int, int]:
            pieces = ceil_div(self.patch_h, lines)
            return pieces * (lines * line + _PIECE_BYTES), pieces

        odd = range(1, self.patch_h + 2, 2)
        return min((lines for lines in odd if lines == 1 or self._fits(lines * self.pitch)), key=cost)

    @property
    def count(self) -> int:
        """Of a patch."""
        return ceil_div(ceil_div(self.patch_h, self.line_rows), self.lines)

    @property
    def turns(self) -> int:
        """How often a warp turns pixels of a piece: at a time 4 (2 of two warpgroups) times 8 pixels of 64 bytes."""
        producers, row_bytes = self.config.num_producer_warpgroups, self.config.block_k * self.problem.element_bytes
        pixels = self.line_rows * self.problem.w if self.whole_rows else self.patch_w
        groups = self.lines * ceil_div(self._skew(self.line_rows) + pixels, 8)
        at_a_time = (4 if producers == 1 else 2) * 64 // row_bytes
        return ceil_div(groups, at_a_time * (4 * producers - 1))

    @property
    def smem_bytes(self) -> int:
        """Of all stages, with their barriers."""
        piece = round_up(self.config.block_k * self.lines * self.pitch * self.problem.element_bytes, 128)
        return self.config.piece_stages * (piece + 2 * _BARRIER_BYTES)

    def tensor_map(self) -> TensorMap:
        """(W, H, C, N) of x, or (H*W, 1, C, N) where lines are whole rows."""
        problem, element = self.problem, self.problem.element_bytes
        row, plane = problem.w * element, problem.h * problem.w * element
        image, step = ((problem.h * problem.w, 1), plane) if self.whole_rows else ((problem.w, problem.h), row)
        return TensorMap(
            array="x", element=problem.precision, dims=(*image, problem.c, problem.n),
            strides_bytes=(step, plane, problem.c * plane), box=(self.pitch, self.lines, self.config.block_k, 1),
            swizzle_bytes=0, l2_promotion_bytes=self.config.l2_promotion_bytes,
        )  # fmt: skip

    def _fits(self, pixels: int) -> bool:
        return pixels * self.config.block_k * self.problem.element_bytes <= _MAX_BYTES
