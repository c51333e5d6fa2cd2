"""A config of the wgmma_rows family, and the numbers that follow from it and a problem."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from im2wingen.families.base import Config
from im2wingen.families.support import ceil_div, round_up, unit_elements
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

SlotOrder = Literal["rows", "columns"]
RowOrder = Literal["strips", "units"]
TILE_SLOTS = 64  # the M of wgmma
_CHUNK_BYTES = 16
_BARRIER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaRowsConfig(Config):
    """One way to run wgmma_rows.cu.j2; see its head and parameter block for the meaning of each field."""

    block_rows: int
    slot_columns: int
    slot_order: SlotOrder
    block_n: int  # output channels of a CTA
    item_tiles: int
    num_consumer_warpgroups: int
    num_transformer_warps: int
    raw_stages: int  # of a transformer
    ring_blocks: int
    row_order: RowOrder
    unit_rows: int  # 1 for strips
    l2_bursts: bool  # of x; units alone have them
    programmatic_launch: bool

    @property
    def threads(self) -> int:
        return 128 * self.num_consumer_warpgroups + 32 * self.num_transformer_warps + 32

    @property
    def item_slots(self) -> int:
        return TILE_SLOTS * self.item_tiles

    def registers(self, target: Target) -> int:
        """Of a thread, at most; an SM hands them out to four warps at a time."""
        return min(255, target.regs_per_sm // round_up(self.threads, 128) // 8 * 8)


@dataclass(frozen=True, kw_only=True)
class WgmmaRowsGeometry:
    """Numbers that follow from a problem and a config; the template derives the same ones."""

    problem: ConvProblem
    config: WgmmaRowsConfig

    @property
    def slot_elements(self) -> int:
        return self.config.block_rows * self.config.slot_columns * self.problem.c

    @property
    def planes(self) -> int:
        return ceil_div(self.slot_elements, unit_elements(self.problem))

    @property
    def window_blocks(self) -> int:
        return ceil_div(self.problem.r, self.config.block_rows)

    @property
    def window_slots(self) -> int:
        return ceil_div(self.problem.s, self.config.slot_columns)

    @property
    def halo_blocks(self) -> int:
        step = self.config.block_rows // self.problem.stride_h if self.window_blocks > 1 else 0
        return (self.window_blocks - 1) * step

    @property
    def row_slots(self) -> int:
        """Slots of a block, those that no output pixel begins with included."""
        step = self.config.slot_columns // self.problem.stride_w if self.window_slots > 1 else 0
        return self.problem.q + (self.window_slots - 1) * step

    @cached_property
    def chunks(self) -> int:
        """16-byte pieces of a window that hold a tap, made even."""
        config, problem = self.config, self.problem
        used = 0
        for block in range(self.window_blocks):
            rows = min(config.block_rows, problem.r - block * config.block_rows)
            for slot in range(self.window_slots):
                columns = min(config.slot_columns, problem.s - slot * config.slot_columns)
                used += self._used_planes(rows, columns)
        return used + used % 2

    def _used_planes(self, rows: int, columns: int) -> int:
        """Planes that hold a tap of the first rows and columns of a slot."""
        config, problem, unit = self.config, self.problem, unit_elements(self.problem)
        if config.slot_order == "columns":
            outer, inner, outer_step = columns, rows * problem.c, config.block_rows * problem.c
        elif problem.x_layout == "nhwc":
            outer, inner, outer_step = rows, columns * problem.c, config.slot_columns * problem.c
        else:
            outer, inner, outer_step = rows * problem.c, columns, config.slot_columns
        begins = (i * outer_step for i in range(outer))
        return len({plane for begin in begins for plane in range(begin // unit, (begin + inner - 1) // unit + 1)})

    @property
    def steps(self) -> int:
        """Wgmmas of a tile."""
        return self.chunks // 2

    @property
    def mirrored_blocks(self) -> int:
        last = self.config.item_slots - 1 + (self.row_slots - self.problem.q) + self.row_slots - 1
        return self.halo_blocks + last // self.row_slots

    @property
    def ring_bytes(self) -> int:
        return self.planes * (self.config.ring_blocks + self.mirrored_blocks) * self.row_slots * _CHUNK_BYTES

    @property
    def raw_bytes(self) -> int:
        """Of one raw buffer."""
        problem = self.problem
        parts, pixel = (1, problem.c) if problem.x_layout == "nhwc" else (problem.c, 1)
        rows = self.config.block_rows * problem.w * pixel * problem.element_bytes
        return parts * round_up(15 + rows + 4, 16)

    @property
    def filter_bytes(self) -> int:
        """Of the channels of a CTA."""
        return self.chunks * self.config.block_n * _CHUNK_BYTES

    @property
    def item_step(self) -> int:
        """Slots from one item to the next."""
        return self.config.item_slots - (0 if self.problem.y_layout == "nhwc" else 2)

    @property
    def staging_bytes(self) -> int:
        """Where consumers turn items of an NCHW y into rows of channels."""
        if self.problem.y_layout == "nhwc":
            return 0
        pitch = self.config.item_slots * self.problem.element_bytes + _CHUNK_BYTES
        return self.config.num_consumer_warpgroups * self.config.block_n * pitch

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        config = self.config
        buffers = config.num_transformer_warps * config.raw_stages
        bias = 0 if self.problem.epilogue == "none" else config.block_n * 4
        barriers = (2 * config.ring_blocks + 2 * buffers + 1) * _BARRIER_BYTES
        return self.ring_bytes + buffers * self.raw_bytes + self.filter_bytes + self.staging_bytes + bias + barriers

    @property
    def blocks_k(self) -> int:
        """CTAs that share the output channels of a pixel."""
        return ceil_div(self.problem.k, self.config.block_n)

    @property
    def segments(self) -> int:
        """Pieces of work that CTAs may take: output rows or units."""
        problem, config = self.problem, self.config
        return problem.n * (problem.p if config.row_order == "strips" else ceil_div(problem.p, config.unit_rows))

    def ctas(self, target: Target) -> int:
        """Of the persistent grid."""
        return min(max(1, target.sm_count // self.blocks_k), self.segments) * self.blocks_k
