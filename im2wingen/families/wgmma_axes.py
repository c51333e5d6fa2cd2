"""A problem's spatial axes as the wgmma family sees them: planes of input elements, or all pixels in a few rows."""

from dataclasses import dataclass, replace
from math import gcd

from im2wingen.problem import ConvProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A spatial axis: which input elements the taps read; the template's struct Axis says the same."""

    stride: int
    dilation: int
    pad: int
    taps: int

    @property
    def period(self) -> int:
        """From a tap to the next of the same plane."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def used_planes(self) -> int:
        """Planes that have taps: those of the first taps."""
        return min(self.period, self.taps)

    def place(self, tap: int) -> tuple[int, int]:
        """The plane that a tap reads, and its shift there: for output o, element o + shift of that plane."""
        shift, plane = divmod(tap * self.dilation - self.pad, self.stride)
        return plane, shift

    def taps_of(self, plane: int) -> int:
        """Taps of the plane of tap `plane`, one of the first."""
        return (self.taps - 1 - plane) // self.period + 1

    def extent(self, tile: int) -> int:
        """Elements of a plane that a tile of outputs reads, enough for every plane."""
        return tile + (self.taps - 1) // self.period * (self.period * self.dilation // self.stride)


def vertical(problem: ConvProblem) -> Axis:
    return Axis(stride=problem.stride_h, dilation=problem.dilation_h, pad=problem.pad_top, taps=problem.r)


def horizontal(problem: ConvProblem) -> Axis:
    return Axis(stride=problem.stride_w, dilation=problem.dilation_w, pad=problem.pad_left, taps=problem.s)


def flattens(problem: ConvProblem) -> bool:
    """Whether any run of pixels may be a tile: a 1x1 filter without stride and padding, NHWC."""
    steps = problem.r * problem.s * problem.stride_h * problem.stride_w
    plain = steps == 1 and not problem.has_padding and problem.x_layout == problem.y_layout == "nhwc"
    return plain and problem.n * problem.h * problem.w < 2**31


def flattened(problem: ConvProblem) -> ConvProblem:
    """What `flattens`, with all pixels in up to four rows of one image; other problems as they are."""
    if not flattens(problem):
        return problem
    pixels = problem.n * problem.h * problem.w
    rows = next(rows for rows in (4, 3, 2, 1) if pixels % rows == 0)
    return replace(problem, n=1, h=rows, w=pixels // rows)
