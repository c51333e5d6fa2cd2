"""simd: what a kernel can choose, and what follows from it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.base import Config
from im2wingen.families.simd_products import Product, has_words, word_bytes, word_channels, words_of
from im2wingen.families.support import ceil_div
from im2wingen.problem import BLOCK_IMAGES, ConvProblem

VectorOf = Literal["channels", "images", "pixels"]
Window = Literal["direct", "copied", "explicit"]
Prefetch = Literal["hardware", "near", "far"]
InnerLoop = Literal["pixels", "filters"]
Store = Literal["cached", "staged", "streamed"]
_ROW = 16  # pixels
PREFETCH_STEPS: dict[Prefetch, int] = {"hardware": 0, "near": 8, "far": 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimdConfig(Config):
    """One simd kernel; templates/simd.cpp.j2 draws the tile."""

    product: Product  # what multiplies: templates/parts/simd_words.h
    vector_of: VectorOf  # what lies in a vector: output channels, images (CHWN) or neighbours in a row (NCHW)
    vectors_k: int  # vectors of output channels of the micro-kernel, at most; single ones where vectors hold others
    tile_n: int  # images (or vectors of them), rows and columns (or vectors of them) of the micro-kernel, at most
    tile_p: int
    tile_q: int
    block_c: int  # channels of a chunk
    block_p: int  # rows of outputs of an item, in whole tiles
    block_k: int  # tiles of output channels of an item
    window: Window
    steps: Literal["channels", "taps"]  # what the innermost loop runs over
    inner_loop: InnerLoop  # of an item
    item_order: Literal["pixels", "filters"]  # which of the items vary fastest
    unroll: Literal[1, 2, 4, 8, 16]
    prefetch: Prefetch  # how far ahead the filter is fetched
    tile_order: Literal["linear", "zigzag"]
    store: Store  # staged: by way of whole rows, NCHW; streamed: past the caches
    schedule: Literal["static", "dynamic"]


def parts(extent: int, most: int) -> int:
    """Equal parts of at most `most`."""
    return ceil_div(extent, most)


def largest_part(extent: int, most: int) -> int:
    """The largest of them: what `most` comes to."""
    return ceil_div(extent, parts(extent, most))


def images_together(problem: ConvProblem) -> int:
    """Images that lie side by side in x and y; vectors hold them where there are several, else output channels."""
    return {"chwn": problem.n, "chwn8": BLOCK_IMAGES}.get(problem.x_layout, 1)


def vectors_of(problem: ConvProblem) -> tuple[VectorOf, ...]:
    """What vectors can hold: pixels where rows of y are rows of x, unpadded, and as long as a vector of any CPU."""
    if images_together(problem) > 1:
        return ("images",)
    if has_words(problem):
        return ("channels",)
    rows = has_planes(problem) and problem.x_layout != "nhwc" and problem.padded_w == problem.w
    return ("channels", "pixels") if rows and problem.stride_w == 1 and problem.q >= _ROW else ("channels",)


def has_planes(problem: ConvProblem) -> bool:
    """Whether y consists of planes of P*Q elements: NCHW, and CHWN of one image."""
    return problem.y_layout != "nhwc" and images_together(problem) == 1


@dataclass(frozen=True, kw_only=True)
class SimdVectors:
    """What the vectors of a problem hold, as templates/parts/simd_parameters.h and simd_tiles.h have it."""

    problem: ConvProblem
    target: CpuTarget
    product: Product
    vector_of: VectorOf

    @property
    def hold_images(self) -> bool:
        return self.vector_of == "images"

    @property
    def hold_channels(self) -> bool:
        return self.vector_of == "channels"

    @cached_property
    def lanes(self) -> int:
        """As many as a register has or, where vectors hold images, the largest power of two up to their number."""
        most = self.target.vector_bytes // word_bytes(self.problem)
        return min(most, 1 << images_together(self.problem).bit_length() - 1) if self.hold_images else most

    @property
    def vector_bytes(self) -> int:
        """Of words or of sums."""
        return self.lanes * word_bytes(self.problem)

    @property
    def steps(self) -> int:
        """Of the micro-kernel for an output, each a word (r, s, c)."""
        return self.problem.r * self.problem.s * words_of(self.problem, self.product, self.problem.group_c)

    @property
    def filter_lanes(self) -> int:
        """Output channels of what counts as their vector."""
        return self.lanes if self.hold_channels else 1

    @property
    def unit_vectors(self) -> int:
        """Vectors of a unit of images."""
        return BLOCK_IMAGES // self.lanes if images_together(self.problem) == BLOCK_IMAGES else 1

    @property
    def unit_images(self) -> int:
        return self.unit_vectors * self.lanes if self.hold_images else 1

    @property
    def units(self) -> int:
        """Of the batch."""
        return ceil_div(self.problem.n, self.unit_images)

    @property
    def columns(self) -> int:
        """Of outputs; vectors of them where vectors hold pixels."""
        return ceil_div(self.problem.q, self.lanes) if self.vector_of == "pixels" else self.problem.q

    @property
    def group_vectors(self) -> int:
        """Of the output channels of a group."""
        return ceil_div(self.problem.k // self.problem.groups, self.filter_lanes)


@dataclass(frozen=True, kw_only=True)
class SimdGeometry(SimdVectors):
    """Counts and sizes, as templates/parts/simd_geometry.h and simd_tiles.h have them."""

    config: SimdConfig

    @classmethod
    def of(cls, problem: ConvProblem, target: CpuTarget, config: SimdConfig) -> Self:
        return cls(
            problem=problem, target=target, config=config, product=config.product, vector_of=config.vector_of
        )  # fmt: skip

    @property
    def filter_tiles(self) -> int:
        """Tiles of output channels of a group."""
        return parts(self.group_vectors, self.config.vectors_k)

    @property
    def row_tiles(self) -> int:
        return parts(self.problem.p, self.config.tile_p)

    @property
    def column_tiles(self) -> int:
        return parts(self.columns, self.config.tile_q)

    @property
    def chunk_words(self) -> int:
        """Words of a chunk's channels."""
        return words_of(self.problem, self.product, self.config.block_c)

    @property
    def chunks(self) -> int:
        words = ceil_div(self.problem.group_c, word_channels(self.problem, self.product))
        return ceil_div(words, self.chunk_words)

    @property
    def block_row_tiles(self) -> int:
        """Tiles of rows of an item, at most."""
        return largest_part(self.row_tiles, max(1, self.config.block_p // self.config.tile_p))

    @cached_property
    def items(self) -> int:
        row_blocks = parts(self.row_tiles, max(1, self.config.block_p // self.config.tile_p))
        filter_blocks = self.problem.groups * parts(self.filter_tiles, self.config.block_k)
        return parts(self.units, self.config.tile_n) * row_blocks * filter_blocks

    @property
    def pixels(self) -> int:
        """Of a tile; vectors where they hold images or pixels."""
        return self.config.tile_n * self.unit_vectors * self.config.tile_p * self.config.tile_q

    @property
    def packed_bytes(self) -> int:
        header = 1 if has_words(self.problem) else 0
        filter_size = header + self.chunks * self.chunk_words * self.problem.r * self.problem.s
        filters = self.problem.groups * self.group_vectors * self.filter_lanes
        return filters * filter_size * word_bytes(self.problem)

    @property
    def partial_bytes(self) -> int:
        """Partial sums of a thread."""
        if self.chunks == 1:
            return 0
        tiles = largest_part(self.filter_tiles, self.config.block_k) * self.block_row_tiles * self.column_tiles
        return tiles * self.pixels * self.config.vectors_k * self.vector_bytes

    @property
    def copied_bytes(self) -> int:
        """Window of a thread."""
        if self.config.window != "copied":
            return 0
        problem = self.problem
        rows = (self.block_row_tiles * self.config.tile_p - 1) * problem.stride_h + problem.window_h
        images = self.config.tile_n * self.unit_images
        columns = problem.padded_w if has_words(problem) else problem.w
        return word_bytes(problem) * images * rows * columns * self.chunk_words

    @property
    def thread_bytes(self) -> int:
        """What a thread keeps for itself during a call."""
        return self.partial_bytes + self.copied_bytes + self.staged_bytes

    @property
    def staged_bytes(self) -> int:
        """Outputs of a thread that gather to whole rows."""
        config = self.config
        if config.store == "cached" or not has_planes(self.problem):
            return 0
        plane = (config.tile_p * self.problem.q // 16 | 1) * 16 + 32
        return config.tile_n * config.vectors_k * self.filter_lanes * self.problem.y_element_bytes * plane
