"""How an NCHW x lands in shared memory before wgmma's split arithmetic transposes it, and how TMA sees it."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from im2wingen.families.support import ceil_div, round_up
from im2wingen.families.wgmma_axes import horizontal
from im2wingen.problem import ConvProblem

SPLIT_CHANNELS = 32  # of a chunk of split operands
MAX_BOX = 256  # elements of a side
_UNIT = 4  # numbers in 16 bytes, the step of TMA's strides and of where a box begins
_STAGE_UNIT = 128  # bytes: what lands without a swizzle begins at multiples of them
_PIECES = 8  # boxes of the images of a chunk
_MAX_WHOLE_BYTES, _MAX_SHARED_BYTES = 64 * 1024, 90 * 1024  # of what lands of all channels at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What one load brings: of rectangles (columns, rows, channels, images), of strips (pixels of whole rows, channels,
    images), of images (numbers of some channels, images, 1); and how many loads a patch needs.
    """

    kind: Literal["rectangles", "strips", "images"]
    box: tuple[int, ...]
    loads: int = 1
    parts: int = 1  # of a patch's channels, that land one after the other

    @property
    def stage_bytes(self) -> int:
        """Of what becomes one patch."""
        return self.loads * round_up(4 * prod(self.box), _STAGE_UNIT)


def landing_of(
    problem: ConvProblem, *, tile_n: int, tile_p: int, tile_q: int, patch_h: int, patch_w: int
) -> Landing | None:
    """The landing of a patch, or None where TMA's strides or boxes do not allow one."""
    if 8 % tile_n and tile_n % 8:
        return None
    pixels = problem.h * problem.w
    whole_rows = patch_w == problem.w and problem.pad_left == 0 and problem.stride_h == problem.stride_w == 1
    rows_before = _most_before(-problem.pad_top * problem.w, tile_p * problem.w, ceil_div(problem.p, tile_p))
    strip = round_up(rows_before + patch_h * patch_w, _UNIT)
    if whole_rows and pixels % _UNIT == 0 and strip <= MAX_BOX:
        parts = _parts(strip * tile_n, most=_MAX_WHOLE_BYTES)
        return Landing(kind="strips", box=(strip, SPLIT_CHANNELS // parts, tile_n), parts=parts)
    before = _most_before(-problem.pad_left, tile_q * problem.stride_w, ceil_div(problem.q, tile_q))
    of_planes = (horizontal(problem).used_planes - 1) * problem.dilation_w
    columns = round_up(before + (patch_w - 1) * problem.stride_w + of_planes + 1, _UNIT)
    if problem.w % _UNIT == 0 and columns <= MAX_BOX:
        several = horizontal(problem).used_planes > 1  # patches may be of one landing
        parts = _parts(columns * patch_h * tile_n, most=_MAX_SHARED_BYTES if several else _MAX_WHOLE_BYTES)
        return Landing(kind="rectangles", box=(columns, patch_h, SPLIT_CHANNELS // parts, tile_n), parts=parts)
    whole_images = whole_rows and patch_h <= problem.h and tile_p >= problem.p and problem.pad_top == 0
    numbers = SPLIT_CHANNELS // _PIECES * pixels
    if whole_images and problem.c % _UNIT == 0 and numbers <= MAX_BOX:
        return Landing(kind="images", box=(numbers, tile_n, 1), loads=_PIECES)
    return None


def _parts(pixels: int, *, most: int) -> int:
    return 4 if 4 * SPLIT_CHANNELS * pixels > most else 1


def _most_before(first: int, step: int, tiles: int) -> int:
    """Numbers that at most land before a tile's own, which begin at `first`, `first` + `step` ..., in whole units."""
    return max((first + step * i) % _UNIT for i in range(min(tiles, _UNIT)))
