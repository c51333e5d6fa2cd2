"""simt: what follows from a config and a problem: who computes what, how shared memory is laid out."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from im2wingen.families.simt_banks import wavefronts
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.support import ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_WARP = 32
_BANKS_BYTES = 128  # that shared memory reads at once
_STRAIGHT_FFMAS = 128  # multiply-adds after which the instructions of a loop hardly count


@dataclass(frozen=True, kw_only=True)
class SimtGeometry:
    """The kernel's derived constants, named as in parts/simt_geometry.cuh; sizes in elements unless named bytes."""

    problem: ConvProblem
    config: SimtConfig

    @property
    def unit(self) -> int:
        """Elements in 16 bytes."""
        return unit_elements(self.problem)

    @property
    def _banks(self) -> int:
        """Elements that shared memory reads at once."""
        return _BANKS_BYTES // self.problem.element_bytes

    @property
    def block_s(self) -> int:
        return 1 if self.config.staging == "tap" else self.problem.s

    @property
    def taps(self) -> int:
        return self.config.block_r * self.block_s

    @property
    def pixel_columns(self) -> bool:
        return self.block_s == 1

    @property
    def columns(self) -> int:
        if self.pixel_columns:
            return self.config.tile_q
        return (self.config.tile_q - 1) * self.problem.stride_w + self.problem.window_w

    @property
    def phases(self) -> int:
        return 1 if self.pixel_columns else self.problem.stride_w

    @cached_property
    def segment(self) -> int:
        """Inputs of one patch row and phase that a thread holds in registers."""
        spread = 0 if self.pixel_columns else (self.problem.window_w - 1) // self.phases
        return self.config.thread_q + spread

    @cached_property
    def shared_rows(self) -> bool:
        return self.config.staging != "explicit" and self._shared_row_count <= self.config.tile_p * self.config.block_r

    @property
    def _shared_row_count(self) -> int:
        problem, config = self.problem, self.config
        return (config.tile_p - 1) * problem.stride_h + (config.block_r - 1) * problem.dilation_h + 1

    @property
    def rows(self) -> int:
        return self._shared_row_count if self.shared_rows else self.config.tile_p * self.config.block_r

    @property
    def phase_pitch(self) -> int:
        return round_up(ceil_div(self.columns, self.phases), self.unit)

    @cached_property
    def row_pitch(self) -> int:
        """Elements from row to row: the least multiple of 16 bytes at which a warp reads its segments without bank
        conflicts, or with the fewest."""
        least = self.phases * self.phase_pitch
        pitches = (least + n * self.unit for n in range(4))
        return min(pitches, key=lambda pitch: (self._read_wavefronts(pitch), pitch))

    @property
    def segment_vector(self) -> int:
        """Elements of the widest load of a segment."""
        alignment = self.unit if self.threads_q == 1 else self.config.thread_q
        return next(v for v in (4, 2, 1) if v <= self.unit and alignment % v == 0)

    def _read_wavefronts(self, row_pitch: int) -> int:
        config = self.config
        row_step = (self.problem.stride_h if self.shared_rows else config.block_r) * row_pitch
        starts = []
        for m in range(config.lanes_m):
            row, q = divmod(m, self.threads_q)
            if self.rows_of_one_image:
                image, p = divmod(row, config.tile_p // config.thread_p)
                p *= config.thread_p
            else:
                image, p = divmod(row, config.tile_p)
            starts.append(image * self.rows * row_pitch + p * row_step + q * config.thread_q)
        return wavefronts(starts, self.segment_vector, self._banks)

    @property
    def image_pitch(self) -> int:
        return self.rows * self.row_pitch

    @cached_property
    def channel_pitch(self) -> int:
        """Elements from channel to channel; channels last, neighbouring lanes copy channels, to different banks."""
        elements = self.config.tile_n * self.image_pitch
        if self.problem.x_layout == "nchw" or self.channel_lanes == 1:
            return elements
        step = max(self.unit, self._banks // self.channel_lanes)
        return elements + (step - elements) % self._banks

    @cached_property
    def channel_lanes(self) -> int:
        """Threads that copy channels of one place of the patch."""
        config = self.config
        if self.problem.x_layout == "nhwc":
            lanes = 1 << (config.block_c - 1).bit_length()
            while self.threads % lanes or lanes > _WARP:
                lanes //= 2
            return lanes
        choices = [g for g in range(1, config.block_c + 1) if self.threads % (g * _WARP) == 0]
        return min(choices, key=lambda g: (self._patch_instructions(g), g), default=1)

    def _patch_copies(self, channel_lanes: int) -> int:
        return ceil_div(self.places, self.threads // channel_lanes) * ceil_div(self.config.block_c, channel_lanes)

    def _patch_instructions(self, channel_lanes: int) -> int:
        """About 4 a copy and 5 a place."""
        return 4 * self._patch_copies(channel_lanes) + 5 * ceil_div(self.places, self.threads // channel_lanes)

    @property
    def patch_copies(self) -> int:
        """Copy instructions of a thread for the patch of one stage."""
        return self._patch_copies(self.channel_lanes)

    @property
    def filter_copies(self) -> int:
        """Copy instructions of a thread for the filters of one stage."""
        row_lanes = max(1, self.threads // (self.config.block_n // self.unit))
        channel_lanes = gcd(row_lanes, self.config.block_c)
        return ceil_div(self.taps, row_lanes // channel_lanes) * (self.config.block_c // channel_lanes)

    @cached_property
    def places(self) -> int:
        """Copies that fill one channel of the patch."""
        config = self.config
        if config.staging == "explicit":
            return config.tile_n * config.tile_p * self.columns * config.block_r
        return config.tile_n * self.rows * ceil_div(self.columns, config.x_vector)

    @property
    def has_plan(self) -> bool:
        return self.config.block_c < self.problem.c or self.channel_lanes > 1

    @property
    def rows_of_one_image(self) -> bool:
        return self.config.tile_p % self.config.thread_p == 0

    @property
    def threads_q(self) -> int:
        return self.config.tile_q // self.config.thread_q

    @property
    def block_m(self) -> int:
        return self.config.tile_n * self.config.tile_p * self.config.tile_q

    @property
    def thread_m(self) -> int:
        return self.config.thread_p * self.config.thread_q

    @property
    def threads_m(self) -> int:
        return self.block_m // self.thread_m

    @property
    def threads_n(self) -> int:
        return self.config.block_n // self.config.thread_n

    @property
    def slice_threads(self) -> int:
        return self.threads_m * self.threads_n

    @cached_property
    def threads(self) -> int:
        return self.slice_threads * self.config.slices

    @property
    def stage_elements(self) -> int:
        config = self.config
        return config.block_c * (self.channel_pitch + self.taps * config.block_n)

    @property
    def outputs_bytes(self) -> int:
        """Shared memory for a pass of outputs on their way to y."""
        config = self.config
        if config.store == "registers":
            return 0
        pixels, filters, teams = self.block_m, self.threads_n, 1
        if config.store == "warp":
            pixels, filters = config.lanes_m * self.thread_m, _WARP // config.lanes_m
            teams = self.slice_threads // _WARP
        pitch = round_up(pixels, self._banks) + self._banks // 2
        return self.problem.element_bytes * teams * config.store_n * filters * pitch

    @property
    def _sums_bytes(self) -> int:
        """Shared memory in which the first slice finds the others' accumulators."""
        return self.problem.element_bytes * (self.config.slices - 1) * self.block_m * self.config.block_n

    @property
    def pipeline_bytes(self) -> int:
        stages = self.problem.element_bytes * self.config.num_stages * self.stage_elements
        return stages + (8 * self.places if self.has_plan else 0)

    @property
    def outputs_offset(self) -> int:
        """Bytes of shared memory before the outputs on their way to y: a persistent CTA has them beside the stages."""
        return round_up(self.pipeline_bytes, 16) if self.config.persistent else 0

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return max(
            self.pipeline_bytes,
            self.outputs_offset + self.outputs_bytes,
            self.outputs_offset + self._sums_bytes,
        )

    @property
    def column_pitch(self) -> int:
        """Elements from column to column of the explicit window tensor; 0 without one."""
        if self.config.staging != "explicit":
            return 0
        return round_up(self.problem.r * self.problem.c, 4) if self.problem.x_layout == "nhwc" else self.problem.r

    @cached_property
    def tiles(self) -> tuple[int, int, int, int]:
        """CTAs along images, rows, columns, filters."""
        problem, config = self.problem, self.config
        return (
            ceil_div(problem.n, config.tile_n), ceil_div(problem.p, config.tile_p),
            ceil_div(problem.q, config.tile_q), ceil_div(problem.k, config.block_n),
        )  # fmt: skip

    @property
    def ctas(self) -> int:
        return prod(self.tiles)

    def launched_ctas(self, target: Target) -> int:
        """CTAs of the grid."""
        resident = target.sm_count * self.config.ctas_per_sm
        return min(self.ctas, resident) if self.config.persistent else self.ctas

    @property
    def steps(self) -> int:
        """Stages that a CTA goes through."""
        groups = self.problem.r // self.config.block_r * (self.problem.s // self.block_s)
        return groups * ceil_div(self.problem.c, self.config.block_c)

    @property
    def image_elements(self) -> int:
        """Elements of one image of what the kernel reads."""
        problem = self.problem
        if self.config.staging != "explicit":
            return problem.c * problem.h * problem.w
        return (1 if problem.x_layout == "nhwc" else problem.c) * problem.p * problem.padded_w * self.column_pitch

    @property
    def registers(self) -> int:
        """What a thread needs at the least: accumulators, a segment of each row, filters, addresses."""
        config = self.config
        numbers = self.thread_m * config.thread_n + config.thread_p * self.segment + config.thread_n
        return numbers * self.problem.element_bytes // 4 + 20

    @property
    def _row_ffmas(self) -> int:
        return self.block_s * self.thread_m * self.config.thread_n

    @property
    def unroll_c(self) -> int:
        """Channels as straight code: enough to make the loop's own instructions few."""
        if not self.config.unroll_r and self.config.block_r > 1:
            return 1
        return min(
            self.config.block_c // self.config.slices, ceil_div(_STRAIGHT_FFMAS, self.config.block_r * self._row_ffmas)
        )

    @property
    def straight_ffmas(self) -> int:
        """Multiply-adds in the straight code of the innermost loop's body."""
        return self.unroll_c * (self.config.block_r if self.config.unroll_r else 1) * self._row_ffmas
