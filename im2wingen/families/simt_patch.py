"""simt: who computes what, and how the patch lies in shared memory."""

from dataclasses import dataclass
from functools import cached_property

from im2wingen.families.simt_banks import wavefronts
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.support import ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem

WARP = 32
_BANKS_BYTES = 128  # that shared memory reads at once


@dataclass(frozen=True, kw_only=True)
class SimtPatch:
    """The threads of a CTA and the patch they copy, named as in parts/simt_geometry.cuh; sizes in elements."""

    problem: ConvProblem
    config: SimtConfig

    @property
    def unit(self) -> int:
        """Elements in 16 bytes."""
        return unit_elements(self.problem)

    @property
    def banks(self) -> int:
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
        return wavefronts(starts, self.segment_vector, self.banks)

    @property
    def image_pitch(self) -> int:
        return self.rows * self.row_pitch

    @cached_property
    def channel_pitch(self) -> int:
        """Elements from channel to channel; channels last, neighbouring lanes copy channels, to different banks."""
        elements = self.config.tile_n * self.image_pitch
        if self.problem.x_layout == "nchw" or self.channel_lanes == 1:
            return elements
        step = max(self.unit, self.banks // self.channel_lanes)
        return elements + (step - elements) % self.banks

    @cached_property
    def channel_lanes(self) -> int:
        """Threads that copy channels of one place of the patch."""
        config = self.config
        if self.problem.x_layout == "nhwc":
            lanes = 1 << (config.block_c - 1).bit_length()
            while self.threads % lanes or lanes > WARP:
                lanes //= 2
            return lanes
        choices = [g for g in range(1, config.block_c + 1) if self.threads % (g * WARP) == 0]
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

    @cached_property
    def places(self) -> int:
        """Copies that fill one channel of the patch."""
        config = self.config
        if config.staging == "explicit":
            return config.tile_n * config.tile_p * self.columns * config.block_r
        return config.tile_n * self.rows * ceil_div(self.columns, config.x_vector)

    @property
    def has_plan(self) -> bool:
        """Whether a copy's place is worked out ahead, for several channels or tap groups."""
        shared = self.tap_groups > 1 and self.one_plan
        return self.config.block_c < self.problem.c or self.channel_lanes > 1 or shared

    @property
    def one_plan(self) -> bool:
        """Whether all tap groups copy the same places."""
        return self.tap_groups == 1 or not (self.problem.has_padding or self.config.staging == "explicit")

    @property
    def tap_groups(self) -> int:
        return self.problem.r // self.config.block_r * (self.problem.s // self.block_s)

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
        warps_m = ceil_div(self.threads_m, self.config.lanes_m)  # the last one may have idle lanes
        return WARP * warps_m * ceil_div(self.threads_n * self.config.lanes_m, WARP)

    @cached_property
    def threads(self) -> int:
        return self.slice_threads * self.config.slices
