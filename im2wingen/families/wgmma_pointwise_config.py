"""wgmma_pointwise: what a kernel can choose, and what follows from it."""

from dataclasses import dataclass
from math import gcd

from im2wingen.families.base import Config
from im2wingen.families.support import ceil_div
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

ROW_BYTES = 128  # of a line, and of a filter in shared memory: the swizzle
SUBTILE_PIXELS = 64  # wgmma's M
_BARRIER_BYTES = 8
_OTHER_REGISTERS = 40
_STRIDE_BYTES = 16  # the step of TMA's strides


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaPointwiseConfig(Config):
    """One wgmma_pointwise kernel; templates/wgmma_pointwise.cu.j2 says what a line and a tile are."""

    num_consumer_warpgroups: int  # 2 or 3
    subtiles: int  # of 64 pixels, of a consumer
    block_n: int  # output channels of a tile
    stages: int  # of 128 bytes of channels
    filter_resident: bool  # all filters stay in shared memory
    programmatic_launch: bool

    @property
    def threads(self) -> int:
        return 128 * (self.num_consumer_warpgroups + 1)

    @property
    def consumer_registers(self) -> int:
        """Of a consumer's thread."""
        return 240 if self.num_consumer_warpgroups == 2 else 160


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaPointwiseGeometry:
    problem: ConvProblem
    config: WgmmaPointwiseConfig

    @property
    def line(self) -> int:
        """Elements of x in a line; as many channels are a stage."""
        return ROW_BYTES // self.problem.element_bytes

    @property
    def tile_pixels(self) -> int:
        return SUBTILE_PIXELS * self.config.subtiles * self.config.num_consumer_warpgroups

    @property
    def tile_lines(self) -> int:
        return self.tile_pixels * self.problem.stride_w // self.line

    @property
    def chunks(self) -> int:
        return ceil_div(self.problem.c, self.line)

    @property
    def blocks_k(self) -> int:
        """Of output channels."""
        return ceil_div(self.problem.k, self.config.block_n)

    @property
    def tile_blocks(self) -> int:
        return self.blocks_k if self.config.filter_resident else 1

    @property
    def tiles(self) -> int:
        return ceil_div(batch_lines(self.problem), self.tile_lines) * self.blocks_k // self.tile_blocks

    @property
    def tile_products(self) -> int:
        return self.tile_pixels * self.tile_blocks * self.config.block_n * self.chunks * self.line

    @property
    def input_bytes(self) -> int:
        """Of a stage."""
        return self.tile_lines * self.line * ROW_BYTES

    @property
    def filter_bytes(self) -> int:
        """Of a stage."""
        return self.config.block_n * ROW_BYTES

    @property
    def smem_bytes(self) -> int:
        stage, resident = self.input_bytes + self.filter_bytes, 0
        if self.config.filter_resident:
            stage, resident = self.input_bytes, self.blocks_k * self.chunks * self.filter_bytes
        return self.config.stages * stage + resident + (2 * self.config.stages + 1) * _BARRIER_BYTES

    @property
    def registers(self) -> int:
        """Of a consumer's thread: sums, and the pixels of a stage."""
        return self.config.subtiles * (self.config.block_n // 2 + 16) + _OTHER_REGISTERS

    def ctas(self, target: Target) -> int:
        return min(self.tiles, target.sm_count)


def is_flat(problem: ConvProblem) -> bool:
    """Whether an image is one row of pixels."""
    return problem.stride_h == problem.stride_w == 1


def batch_lines(problem: ConvProblem) -> int:
    """Lines of all images."""
    rows, pixels = (1, problem.p * problem.q) if is_flat(problem) else (problem.p, problem.q)
    return problem.n * rows * ceil_div(pixels, ROW_BYTES // problem.element_bytes // problem.stride_w)


def rows_merged(problem: ConvProblem) -> int:
    """Rows of an image that are one of x's tensor map, whose strides are multiples of 16 bytes."""
    return 1 if is_flat(problem) else _STRIDE_BYTES // gcd(_STRIDE_BYTES, problem.w * problem.element_bytes)
