"""A config of the mma family, and the numbers that follow from it and a problem."""

from dataclasses import dataclass
from typing import Literal

from im2wingen.families.base import Config
from im2wingen.families.support import FilterOrder, ceil_div, filter_taps, round_up, unit_elements
from im2wingen.families.tiles import PixelTile
from im2wingen.problem import ConvProblem

Staging = Literal["window", "tap", "explicit"]
Order = Literal["linear", "zigzag"]
Shape = Literal["m16n8k16", "m16n8k8", "m16n8k4", "m8n8k4"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaConfig(Config):
    """One way to run mma.cu.j2; see its parameter block for the meaning of each field."""

    staging: Staging
    window_order: FilterOrder  # of the K axis; column and run fold the filter's rows or columns into the channels
    tile_n: int
    tile_p: int
    tile_q: int
    warps_m: int
    warps_n: int
    warps_k: int
    warp_n: int
    patch_k: int
    block_k: int
    mma_shape: Shape
    promote_k: int  # fp32: gemm_k of a warp's partial sums, 8 for none; 1 for all others
    copy_bytes: int
    num_stages: int
    fragment_stages: int
    pad_rows: bool
    spread_copies: bool
    ctas_per_sm: int
    programmatic_launch: bool
    tile_order: Order
    fragment_order: Order

    @property
    def tile(self) -> PixelTile:
        return PixelTile(n=self.tile_n, p=self.tile_p, q=self.tile_q)

    @property
    def warp_m(self) -> int:
        return round_up(ceil_div(self.tile.pixels, self.warps_m), 16)

    @property
    def block_m(self) -> int:
        return self.warps_m * self.warp_m

    @property
    def block_n(self) -> int:
        return self.warps_n * self.warp_n

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n * self.warps_k

    @property
    def mma_m(self) -> int:
        return int(self.mma_shape.partition("n")[0][1:])

    @property
    def mma_k(self) -> int:
        """K elements of a step: of one mma."""
        return int(self.mma_shape.partition("k")[2])

    @property
    def warp_steps(self) -> int:
        """Steps of one warp in a slice; 0 where that isn't whole."""
        steps, rest = divmod(self.block_k, self.mma_k * self.warps_k)
        return 0 if rest else steps


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaGeometry:
    """Numbers that follow from a problem and a config; the template derives the same ones."""

    problem: ConvProblem
    config: MmaConfig

    @property
    def column_order(self) -> bool:
        return self.config.window_order == "column"

    @property
    def run_order(self) -> bool:
        return self.config.window_order == "run"

    @property
    def unit(self) -> int:
        return unit_elements(self.problem)

    @property
    def accumulator_registers(self) -> int:
        """Of a thread: fp64 takes two a sum, split fp32 has a step's beside them and mostly partial sums."""
        config = self.config
        sums = config.warp_m * config.warp_n // 32
        if self.problem.precision == "fp32":
            return sums * (2 if config.promote_k > config.mma_k else 1) + config.warp_n // 2
        return sums * (2 if self.problem.precision == "fp64" else 1)

    @property
    def fragment_registers(self) -> int:
        """Of a thread, for the operands of a step."""
        return step_registers(self.problem, self.config)

    @property
    def channels(self) -> int:
        """Channels of a tap, padded to 16 bytes; in run order, whose rows are padded to 4 bytes, all of the K axis."""
        return padded_channels(self.problem, self.config.window_order)

    @property
    def taps(self) -> int:
        return 1 if self.run_order else filter_taps(self.problem, self.config.window_order)[0]

    @property
    def filter_elements(self) -> int:
        """Elements of one filter as the kernel reads it, channels padded."""
        return self.taps * self.channels

    @property
    def chunk_slices(self) -> int:
        return ceil_div(self.taps * self.config.patch_k, self.config.block_k)

    @property
    def chunks(self) -> int:
        return ceil_div(self.channels, self.config.patch_k)

    @property
    def patch_elements(self) -> int:
        """Shared-memory elements of one patch buffer (window) or one A stage."""
        problem, config = self.problem, self.config
        if config.staging != "window":
            return config.block_m * self.pitch(config.block_k)
        if self.run_order:
            row = round_up(self.patch_w * problem.c, word_elements(problem))
            patch_h = (config.tile_p - 1) * problem.stride_h + problem.window_h
            return round_up(config.tile_n * patch_h * row, self.unit)
        rows = config.tile_p if self.column_order else (config.tile_p - 1) * problem.stride_h + problem.window_h
        row = self._bank_pitch(
            problem.stride_w * ceil_div(self.patch_w, problem.stride_w),
            1 if self.column_order else problem.stride_h,
            config.tile_q,
        )
        image = self._bank_pitch(rows * row, 1, config.tile_p * config.tile_q)
        return config.tile_n * image * self.pitch(config.patch_k)

    @property
    def patch_w(self) -> int:
        """Input columns that a tile's row of outputs needs."""
        return (self.config.tile_q - 1) * self.problem.stride_w + self.problem.window_w

    @property
    def staged_elements(self) -> int:
        """Elements of A that one CTA requests from global memory."""
        problem, config = self.problem, self.config
        if config.staging != "window":
            return self.chunk_slices * config.block_m * config.block_k
        return config.tile.patch_pixels(problem) * (
            self.chunks * config.patch_k if config.window_order == "row" else problem.c
        )

    @property
    def patch_buffers(self) -> int:
        if self.config.staging != "window":
            return self.config.num_stages
        return min(self.chunks, 1 + ceil_div(self.config.num_stages - 1, self.chunk_slices))

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        config = self.config
        stages = self.patch_buffers * self.patch_elements
        stages += config.num_stages * config.block_n * self.pitch(config.block_k)
        rows, pitch = config.block_m, config.block_n
        if self.problem.y_layout == "nchw":
            rows, pitch = pitch, rows
        epilogue = rows * (pitch + self.unit)
        if config.warps_k > 1:
            sum_bytes = max(4, self.problem.element_bytes)
            epilogue = max(epilogue, config.block_m * config.block_n * sum_bytes // self.problem.element_bytes)
        run_bytes = max(4, self.problem.element_bytes) * self.run_words if self.run_order else 0
        return run_bytes + (self.unit + max(stages, epilogue)) * self.problem.element_bytes

    @property
    def run_words(self) -> int:
        """Words of the K axis, its last slice complete."""
        return self.chunk_slices * self.config.block_k // word_elements(self.problem)

    @property
    def tiles_n(self) -> int:
        return ceil_div(self.problem.k, self.config.block_n)

    @property
    def ctas(self) -> int:
        return self.config.tile.count(self.problem) * self.tiles_n

    def _bank_pitch(self, least: int, step: int, pixels: int) -> int:
        if not self.config.pad_rows:
            return least
        return next((pitch for pitch in range(least, least + 8) if (pitch * step - pixels) % 8 == 0), least)

    def pitch(self, elements: int) -> int:
        """From one row of so many elements to the next: several rows lie in different banks."""
        units = elements // self.unit
        return (units + (6 - units % 4) % 4 if self.problem.element_bytes == 8 else units | 1) * self.unit


def run_channels(problem: ConvProblem) -> int:
    """Elements of one filter row in run order, padded to whole words."""
    return round_up(problem.s * problem.c, word_elements(problem))


def word_elements(problem: ConvProblem) -> int:
    """Elements of what mma.sync takes a row in: 4 bytes, or one of fp64."""
    return max(1, 4 // problem.element_bytes)


def step_registers(problem: ConvProblem, config: MmaConfig) -> int:
    """Of a thread, for the operands of one mma step."""
    eighths = config.mma_k * problem.element_bytes // 16  # of 8 rows of A or B, shared by 32 lanes
    return (config.warp_m // 8 + config.warp_n // 8) * eighths


def padded_channels(problem: ConvProblem, order: FilterOrder) -> int:
    """Channels of a tap in whole 16-byte units; in run order R runs make up the one tap."""
    elements = problem.r * run_channels(problem) if order == "run" else filter_taps(problem, order)[1]
    return round_up(elements, unit_elements(problem))
