"""simt: what follows from a config and a problem: stages, outputs, launches, what a thread needs."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from im2wingen.families.simt_patch import WARP, SimtPatch
from im2wingen.families.support import ceil_div, round_up
from im2wingen.target import Target

_STRAIGHT_FFMAS = 128  # multiply-adds after which the instructions of a loop hardly count


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
        if config.store == "bulk":
            return (
                self.problem.element_bytes
                * config.block_n
                * self._outputs_pitch(config.tile_n * config.tile_p * self._box_row)
            )
        pixels, filters, teams = self.block_m, self.threads_n, 1
        if config.store == "warp":
            pixels, filters = config.lanes_m * self.thread_m, WARP // config.lanes_m
            teams = self.slice_threads // WARP
        return self.problem.element_bytes * teams * config.store_n * filters * self._outputs_pitch(pixels)

    def _outputs_pitch(self, pixels: int) -> int:
        """Elements from filter to filter: neighbouring filters lie half of the banks apart."""
        return round_up(pixels, self.banks) + self.banks // 2

    @property
    def _whole_rows(self) -> bool:
        """Whether the rows of a box are whole rows of y."""
        return self.config.tile_q >= self.problem.q

    @property
    def _box_row(self) -> int:
        """Outputs of a row of the box that lie in y where its columns are those of y."""
        return min(self.config.tile_q, self.problem.q)

    @property
    def runs_aligned(self) -> bool:
        """Whether the box's outputs of a filter lie in y in runs that begin and end at 16-byte boundaries."""
        problem = self.problem
        row = problem.q if self._whole_rows else gcd(problem.q, self._box_row)
        run = self.config.tile_p * row if self._whole_rows else row
        return problem.p * problem.q % self.unit == 0 and run % self.unit == 0

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
