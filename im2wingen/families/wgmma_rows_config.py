"""A config of the wgmma_rows family, and the numbers that follow from it and a problem."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from im2wingen.families.base import Config
from im2wingen.families.support import ceil_div, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

SlotOrder = Literal["rows", "columns"]
RowOrder = Literal["strips", "units"]
TILE_SLOTS = CHANNELS_M = 64  # the M of wgmma
CHUNK_BYTES = 16
SECTOR_BYTES = 32
SWIZZLE_BYTES = 128  # of the channels of a pixel, that TMA stores at a time
_BARRIER_BYTES = 8
_SCALE_BYTES = 8
_PARTIAL_STEPS = 9  # of fp32, of products of high parts
_TWO_SETS_THREADS = 512  # of fp32: with more, registers are for one set of accumulators of partial sums
_SHORT_STEPS = 6  # of a window whose steps are partial sums
_OTHER_REGISTERS = 80  # of a thread that doesn't multiply, where consumers ask for more
_MAX_REGISTERS = 240
_COPYING_WARPS = 4
_SLOTS_STEP = 16  # of an item's slots, with channel_rows
_BOX_ALIGNMENT = 1024  # bytes, of boxes that TMA swizzles
_HELD_GROUPS = 2  # of copied items, that staging holds beside an item of each consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaRowsConfig(Config):
    """One way to run wgmma_rows.cu.j2; see its head and parameter block for the meaning of each field."""

    block_rows: int
    slot_columns: int
    slot_order: SlotOrder
    block_n: int  # output channels of a CTA
    row_items: bool  # an item's tiles stay within an output row
    scaled: bool  # tf32 as fp16, which has as many bits, of a common scale
    channel_rows: bool  # output channels are wgmma's M, their filters held in registers; else pixels are
    staged_y: bool  # an NCHW y is stored from shared memory, else from registers
    bulk_store: bool  # warps of their own store by bulk copies what is staged; else the consumers do
    copied_items: int  # that leave together, by a copy of each channel; 1 without bulk_store
    item_tiles: int
    num_consumer_warpgroups: int
    multiplying_consumers: int  # of them, at a time; the others wait or store
    num_transformer_warps: int
    team_warps: int  # transformers that write a block together
    raw_stages: int  # of a team
    ring_blocks: int
    row_order: RowOrder
    unit_rows: int  # 1 for strips
    l2_bursts: bool  # of x; units alone have them
    pack_kernel: bool  # packs the filters before this one; else each CTA packs its own
    programmatic_launch: bool  # beside its packing kernel; without one, while the kernel before it ends
    early_packing: bool  # the packing kernel begins while the kernel before it ends

    @property
    def threads(self) -> int:
        return 128 * self.num_consumer_warpgroups + 32 * self.other_warps

    @property
    def copying_warps(self) -> int:
        return _COPYING_WARPS if self.bulk_store else 0

    @property
    def held_items(self) -> int:
        """That bulk copies hold in staging, or will."""
        return _HELD_GROUPS * self.copied_items if self.bulk_store else 0

    @property
    def other_warps(self) -> int:
        """That don't multiply: transformers, the loading one, copying ones."""
        return self.num_transformer_warps + 1 + self.copying_warps

    @property
    def teams(self) -> int:
        return self.num_transformer_warps // self.team_warps

    @property
    def item_slots(self) -> int:
        """At most."""
        return TILE_SLOTS * self.item_tiles

    def registers(self, target: Target) -> int:
        """Of a thread at the launch, at most; an SM hands them out to four warps at a time."""
        return min(255, target.regs_per_sm // round_up(self.threads, 128) // 8 * 8)

    def asked_registers(self, target: Target) -> int:
        """Of a consumer's thread, once the others have given theirs back; 0 where those are no whole warpgroups."""
        if self.other_warps % 4:
            return 0
        left = self.registers(target) * self.threads - 32 * self.other_warps * _OTHER_REGISTERS
        return min(_MAX_REGISTERS, left // (128 * self.num_consumer_warpgroups) // 8 * 8)


@dataclass(frozen=True, kw_only=True)
class WgmmaRowsGeometry:
    """Numbers that follow from a problem and a config; the template derives the same ones."""

    problem: ConvProblem
    config: WgmmaRowsConfig

    @property
    def split(self) -> bool:
        """Whether elements are scaled and multiplied as halves: two of fp32, one of tf32."""
        return self.problem.precision == "fp32" or self.config.scaled

    @property
    def parts(self) -> int:
        """Of an element."""
        return 2 if self.problem.precision == "fp32" else 1

    @property
    def chunk_elements(self) -> int:
        return 8 if self.split else CHUNK_BYTES // self.problem.element_bytes

    @property
    def slot_elements(self) -> int:
        return self.config.block_rows * self.config.slot_columns * self.problem.c

    @property
    def planes(self) -> int:
        """Of one part."""
        return ceil_div(self.slot_elements, self.chunk_elements)

    @property
    def window_blocks(self) -> int:
        return ceil_div(self.problem.r, self.config.block_rows)

    @property
    def window_slots(self) -> int:
        return ceil_div(self.problem.s, self.config.slot_columns)

    @property
    def halo_blocks(self) -> int:
        step = self.config.block_rows * self.problem.dilation_h // self.problem.stride_h
        return (self.window_blocks - 1) * step

    @property
    def row_slots(self) -> int:
        """Slots of a block, those that no output pixel begins with included."""
        step = self.config.slot_columns * self.problem.dilation_w // self.problem.stride_w
        return self.problem.q + (self.window_slots - 1) * step

    @property
    def border_slots(self) -> int:
        """Slots of a block, some of whose columns lie beside the image: they are written element by element."""
        problem = self.problem
        first = min(ceil_div(problem.pad_left, problem.stride_w), self.row_slots)
        beyond = problem.pad_left + problem.w - self.config.slot_columns
        end = min(beyond // problem.stride_w + 1, self.row_slots) if beyond >= 0 else 0
        return self.row_slots - max(0, end - first)

    @cached_property
    def block_chunks(self) -> tuple[int, ...]:
        """16-byte pieces, in each block of a window, that hold a tap; even for split elements and row items."""
        config, problem = self.config, self.problem
        counts = []
        for block in range(self.window_blocks):
            rows = min(config.block_rows, problem.r - block * config.block_rows)
            used = 0
            for slot in range(self.window_slots):
                columns = min(config.slot_columns, problem.s - slot * config.slot_columns)
                used += self._used_planes(rows, columns)
            counts.append(round_up(used, 2) if self.split or config.row_items else used)
        return tuple(counts)

    @property
    def chunks(self) -> int:
        """16-byte pieces of a window that hold a tap, made even."""
        return round_up(sum(self.block_chunks), 2)

    def _used_planes(self, rows: int, columns: int) -> int:
        """Planes that hold a tap of the first rows and columns of a slot."""
        config, problem, unit = self.config, self.problem, self.chunk_elements
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
        """Pairs of chunks of a window."""
        return self.chunks // 2

    @property
    def products(self) -> int:
        """Wgmmas of a tile."""
        return self.steps * (3 if self.parts == 2 else 1)

    @property
    def partial_sums(self) -> int:
        """That a tile of split elements adds up in fp32."""
        if self.parts == 1:
            return self.window_blocks
        steps = 1 if self.is_short else _PARTIAL_STEPS
        return self.window_blocks + sum(ceil_div(chunks // 2, steps) for chunks in self.block_chunks)

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold sums, or filters."""
        tile = self.config.block_n // 2
        if self.split:
            return tile * (3 if self.partial_sums > 2 and self.config.threads <= _TWO_SETS_THREADS else 2)
        if self.config.channel_rows:
            return self.item_slots // 2 + 4 * self.steps
        return tile * self.config.item_tiles

    @property
    def item_slots(self) -> int:
        """That are multiplied together. With channel_rows these are of any number: even parts of a row."""
        most = self.config.item_slots
        if not self.config.channel_rows:
            return most
        return round_up(ceil_div(self.problem.q, ceil_div(self.problem.q, most)), _SLOTS_STEP)

    @property
    def output_map(self) -> bool:
        """Whether TMA stores y."""
        return self.config.channel_rows and self.problem.y_layout == "nhwc"

    @property
    def mirrored_blocks(self) -> int:
        if self.config.row_items:
            return 0
        last = self.item_slots - 1 + (self.row_slots - self.problem.q) + self.row_slots - 1
        return self.halo_blocks + last // self.row_slots

    @property
    def ring_bytes(self) -> int:
        slots = (self.config.ring_blocks + self.mirrored_blocks) * self.row_slots
        return self.parts * self.planes * slots * CHUNK_BYTES

    @property
    def raw_bytes(self) -> int:
        """Of one raw buffer."""
        problem = self.problem
        parts, pixel = (1, problem.c) if problem.x_layout == "nhwc" else (problem.c, 1)
        rows = self.config.block_rows * problem.w * pixel * problem.element_bytes
        return parts * round_up(15 + rows + 4, 16)

    @property
    def is_short(self) -> bool:
        """Whether steps are partial sums, of split elements."""
        return self.steps <= _SHORT_STEPS

    @property
    def filter_bytes(self) -> int:
        """Of the channels of a CTA."""
        scales = _SCALE_BYTES if self.split else 0
        return (self.parts * self.chunks * CHUNK_BYTES + scales) * self.config.block_n

    @property
    def pack_rounds(self) -> int:
        """In which the consumers' threads pack the filters of a CTA, a chunk each."""
        return ceil_div(self.chunks * self.config.block_n, 128 * self.config.num_consumer_warpgroups)

    def items(self, rows: int) -> int:
        """Of a segment of so many output rows."""
        if self.config.row_items:
            return rows * ceil_div(self.problem.q, self.item_slots)
        return ceil_div((rows - 1) * self.row_slots + self.problem.q, self.item_slots)

    @property
    def least_ring(self) -> int:
        """Blocks that a consumer must have, and one for each team."""
        return max(self.mirrored_blocks + 1, self.halo_blocks + 1, self.config.teams)

    @property
    def staging_bytes(self) -> int:
        """Where consumers turn items of an NCHW y into runs of pixels, or TMA finds those of an NHWC y."""
        config = self.config
        if self.output_map:
            return config.num_consumer_warpgroups * self.item_slots * config.block_n * self.problem.element_bytes
        if not config.staged_y:
            return 0
        consumers, slots = config.num_consumer_warpgroups, self.item_slots
        items = whole = config.held_items + consumers
        long = config.row_order == "strips" and self.problem.p * self.problem.q >= whole * slots
        changes = 1 if long and whole > 1 else whole - 1  # of the segment, between staged items
        if self.parts == 2 and consumers >= 3 and not config.bulk_store:  # blocks need the room more
            items = consumers - 1 if self.is_short else 2
        ring = items * slots * self.problem.element_bytes + 2 * SECTOR_BYTES * (changes + 1)
        if config.bulk_store:
            return config.block_n // 2 * (2 * ring + SECTOR_BYTES)
        return config.block_n * (ring + CHUNK_BYTES)

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        config = self.config
        buffers = config.teams * config.raw_stages
        bias = config.block_n * 4 if self.split and self.problem.epilogue != "none" else 0
        blocks = config.ring_blocks + self.mirrored_blocks
        scales = _SCALE_BYTES * (blocks + 2 * config.num_transformer_warps) if self.split else 0
        staged = 0
        if config.staged_y:
            staged = 2 * (config.held_items + 3 * config.num_consumer_warpgroups)
        barriers = (2 * config.ring_blocks + 2 * buffers + config.num_consumer_warpgroups + 1 + staged) * _BARRIER_BYTES
        whole = self.ring_bytes + buffers * self.raw_bytes + self.filter_bytes
        if config.bulk_store:  # staging begins with a sector
            whole = round_up(whole, SECTOR_BYTES)
        if self.output_map:
            whole = round_up(whole, _BOX_ALIGNMENT)
        return whole + self.staging_bytes + bias + scales + barriers

    @property
    def blocks_k(self) -> int:
        """CTAs that share the output channels of a pixel."""
        return ceil_div(self.problem.k, self.config.block_n)

    def consumer_registers(self, target: Target) -> int:
        """What a consumer's thread asks for, 0 for what it has: split elements have three sets of accumulators, and
        with channel_rows filters are there.
        """
        return self.config.asked_registers(target) if self.split or self.config.channel_rows else 0

    @property
    def segments(self) -> int:
        """Pieces of work that CTAs may take: output rows or units."""
        problem, config = self.problem, self.config
        return problem.n * (problem.p if config.row_order == "strips" else ceil_div(problem.p, config.unit_rows))

    def ctas(self, target: Target) -> int:
        """Of the persistent grid."""
        return min(max(1, target.sm_count // self.blocks_k), self.segments) * self.blocks_k

    def cta_rows(self, target: Target) -> tuple[int, int]:
        """Output rows of the CTA with the most, and the segments that they are in."""
        problem, config = self.problem, self.config
        pieces = ceil_div(self.segments, self.ctas(target) // self.blocks_k)
        if config.row_order == "strips":
            return pieces, ceil_div(pieces, problem.p)
        return pieces * min(config.unit_rows, problem.p), pieces
