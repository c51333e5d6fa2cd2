"""simt: what follows from a config and a problem: stages, outputs, launches, what a thread needs."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from im2wingen.families.simt_patch import WARP, SimtPatch
from im2wingen.families.support import ceil_div, round_up
from im2wingen.target import Target

_SECTOR_BYTES = 32  # of global memory that are written at once


def copies_in_bulk(target: Target) -> bool:
    """Whether the target has bulk copies from shared to global memory."""
    return target.compute_capability >= 90


@dataclass(frozen=True, kw_only=True)
class SimtGeometry(SimtPatch):
    """The kernel's derived constants, named as in parts/simt_geometry.cuh; sizes in elements unless named bytes."""

    @property
    def filter_copies(self) -> int:
        """Copy instructions of a thread for the filters of one stage."""
        row_lanes = max(1, self.threads // (self.config.block_n // self.unit))
        channel_lanes = gcd(row_lanes, self.config.block_c)
        return ceil_div(self.taps, row_lanes // channel_lanes) * (self.config.block_c // channel_lanes)

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
        pitch = self._boxes_pitch if config.store == "shared" else self._runs_pitch
        filters = config.block_n if config.store == "bulk" else config.store_n * self.threads_n
        return self.problem.element_bytes * filters * pitch

    @property
    def _whole_rows(self) -> bool:
        """Whether the rows of a box are whole rows of y."""
        return self.config.tile_q >= self.problem.q

    @property
    def run(self) -> int:
        """Outputs of a filter without gaps in y: the box's rows in an image if they are whole, else one of them."""
        return self.config.tile_p * self.problem.q if self._whole_rows else self.config.tile_q

    @property
    def runs(self) -> int:
        """Runs of a filter."""
        return self.config.tile_n * (1 if self._whole_rows else self.config.tile_p)

    @property
    def run_alignment(self) -> int:
        """Elements of which runs begin at multiples in y; as many as a sector of 32 bytes has at most."""
        problem = self.problem
        row = self.run if self._whole_rows else gcd(problem.q, self.config.tile_q)
        return gcd(_SECTOR_BYTES // problem.element_bytes, problem.p * problem.q, row)

    @property
    def run_vector(self) -> int:
        """Elements of a thread's vector within a run."""
        row = self.problem.q if self._whole_rows else self.config.tile_q
        return self._aligned_width(gcd(self.run_alignment, row, self.config.thread_q))

    @property
    def _boxes_pitch(self) -> int:
        """Elements from filter to filter where outputs lie pixel by pixel: a warp writes to different banks."""
        stored = min(self._aligned_width(self.problem.q), self._aligned_width(self.config.tile_q))
        written, lanes_m = self._aligned_width(self.config.thread_q), self.config.lanes_m
        lanes = min(lanes_m, self.banks // written // (2 if lanes_m < WARP else 1))
        apart = max(stored, written * (lanes if self.config.thread_q // written % 2 else 1))
        return round_up(self.block_m, self.banks) + apart

    @property
    def _runs_pitch(self) -> int:
        """Elements from filter to filter; neighbouring filters lie apart by half of the banks, or by a few."""
        sector = _SECTOR_BYTES // self.problem.element_bytes
        run_pitch = round_up(self.run + sector - self.run_alignment, self.unit)
        apart = self.banks // 2 if self.run_vector == self.unit else 4 * self.run_vector
        return round_up(self.runs * run_pitch, self.banks) + apart

    def _aligned_width(self, extent: int) -> int:
        """The widest vector, of 16 bytes at most, that an extent is whole vectors of."""
        return next(v for v in (self.unit, self.unit // 2, 1) if extent % v == 0)

    @property
    def _sums_bytes(self) -> int:
        """Shared memory in which the first slice finds the others' accumulators."""
        return (
            self.problem.element_bytes
            * (self.config.slices - 1)
            * self.slice_threads
            * self.thread_m
            * self.config.thread_n
        )

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
        return self.tap_groups * ceil_div(self.problem.c, self.config.block_c)

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
        rows, taps = (1, ceil_div(self.block_s, self.phases)) if config.reads == "rows" else (config.thread_p, 1)
        numbers = self.thread_m * config.thread_n + rows * self.segment + taps * config.thread_n
        return numbers * self.problem.element_bytes // 4 + 20

    @property
    def rows_read(self) -> float:
        """Patch rows that a thread reads for a channel and filter row; free reads keep those that filter rows share."""
        config, problem = self.config, self.problem
        kept = config.reads == "free" and config.unroll_r and self.shared_rows and self.rows_of_one_image
        if not kept or (problem.stride_h, problem.dilation_h) != (1, 1):
            return config.thread_p
        return (config.thread_p + config.block_r - 1) / config.block_r

    @property
    def row_ffmas(self) -> int:
        """Multiply-adds of a thread for one channel and filter row."""
        return self.block_s * self.thread_m * self.config.thread_n

    @property
    def straight_ffmas(self) -> int:
        """Multiply-adds in the straight code of the innermost loop's body."""
        return self.config.unroll_c * (self.config.block_r if self.config.unroll_r else 1) * self.row_ffmas
