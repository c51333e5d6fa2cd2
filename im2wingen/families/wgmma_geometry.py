"""What follows from a problem and a config of the wgmma family: planes, subtiles, stages, bytes of shared memory."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

from im2wingen.families.support import ceil_div, round_up
from im2wingen.families.wgmma_axes import horizontal, vertical
from im2wingen.families.wgmma_config import CHANNELS_M, WgmmaConfig
from im2wingen.families.wgmma_landing import Landing, landing_of
from im2wingen.families.wgmma_pieces import Pieces
from im2wingen.families.wgmma_split_memory import split_staging_bytes, splitting_bytes
from im2wingen.problem import ConvProblem

STEP_BYTES = 32  # along K, of a wgmma
_UNIT_BYTES = 16
_BARRIER_BYTES = 8
_LANDING_UNIT = 128  # bytes that what lands begins at a multiple of
BULK_STORE_GROUPS = 1  # of split operands: says that y leaves by bulk copies
SUM_GROUP_BYTES = 8 * CHANNELS_M * 4  # partial sums of 8 pixels


@dataclass(frozen=True, kw_only=True)  # no slots: numbers are kept
class WgmmaGeometry:
    """Numbers that follow from a problem and a config; the template derives the same ones."""

    problem: ConvProblem
    config: WgmmaConfig

    @property
    def element_bytes(self) -> int:
        """Of what is multiplied, where it is not split."""
        return 2 if self.config.arithmetic == "scaled" else self.problem.element_bytes

    @property
    def row_bytes(self) -> int:
        """Of a pixel's or a filter's chunk in shared memory: the swizzle's span."""
        return self.config.block_k * self.element_bytes

    @cached_property
    def patch_h(self) -> int:
        return vertical(self.problem).extent(self.config.tile_p)

    @property
    def patch_w(self) -> int:
        return self.config.tile_q if self.config.mapping == "repeated" else self.loaded_w

    @cached_property
    def loaded_w(self) -> int:
        """Columns of a patch as it is loaded."""
        return horizontal(self.problem).extent(self.config.tile_q)

    @property
    def patch_copies(self) -> int:
        """Of a patch's columns: one a tap of a row, where they are repeated."""
        return horizontal(self.problem).taps_of(0) if self.config.mapping == "repeated" else 1

    @cached_property
    def planes(self) -> int:
        return vertical(self.problem).used_planes * horizontal(self.problem).used_planes

    @cached_property
    def wgmma_n(self) -> int:
        config = self.config
        if config.mapping == "block":
            return 8 * config.tile_p
        pixels = ((config.joined_rows - 1) * self.patch_w + config.tile_q) * config.tile_n
        return round_up(pixels, self.columns_step(pixels))

    def columns_step(self, columns: int) -> int:
        """What the N of a wgmma of so many columns is a multiple of (PTX ISA, "wgmma.mma_async")."""
        return 16 if self.problem.precision == "int8" and columns > 32 else 8

    @property
    def groups_n(self) -> int:
        """Groups of 8 pixels of a subtile."""
        return self.wgmma_n // 8

    @property
    def exact(self) -> bool:
        """Whether a subtile holds no pixels that are not stored."""
        config = self.config
        return config.mapping == "block" or (self.wgmma_n == config.tile_q * config.tile_n and config.joined_rows == 1)

    @property
    def num_accumulators(self) -> int:
        """Accumulator registers of a consumer's thread, partial sums included."""
        partial = self.config.promotion or self.config.arithmetic == "split"
        return self.wgmma_n // 2 * self.config.own_subtiles * (2 if partial else 1)

    @cached_property
    def channels(self) -> int:
        """Of a patch: an NCHW x, and a scaled one, get there in whole 16-byte units."""
        problem = self.problem
        whole = problem.x_layout == "nhwc" and self.config.arithmetic != "scaled"
        return problem.c if whole else round_up(problem.c, _UNIT_BYTES // self.element_bytes)

    @cached_property
    def chunks(self) -> int:
        return ceil_div(self.channels, self.config.block_k)

    @cached_property
    def sum_groups(self) -> int:
        """Groups of 8 pixels of a consumer."""
        return self.config.own_subtiles * self.groups_n

    @property
    def share_groups(self) -> int:
        """Of them, what a CTA of a cluster adds up and stores."""
        return ceil_div(self.sum_groups, self.config.cluster_k)

    @property
    def shared_taps(self) -> int:
        """Taps of all chunks, which a cluster's CTAs share."""
        return self.chunks * self.problem.r * self.problem.s

    @property
    def taken_by_turns(self) -> bool:
        """Whether each patch stage serves a single consumer of split tiles, in every round.

        A wait tells a round from the next, not from the one after. A consumer that waits for a stage's patch must know
        that the stage's last patch has landed: since it waited for that itself, or since its turn says so (`ordered`).
        """
        return self.config.patch_stages % (self.config.num_consumer_warpgroups * self.planes * self.chunks) == 0

    @cached_property
    def least_patch_stages(self) -> int:
        """A patch is given back once the products of the next one of its tile are under way."""
        return 2 if self.planes * self.chunks > 1 else 1

    @property
    def products(self) -> int:
        """Wgmmas of a step: high * high, high * low and low * high where operands are split."""
        return 3 if self.config.arithmetic == "split" else 1

    @property
    def step_k(self) -> int:
        """Channels of a wgmma."""
        return STEP_BYTES // (2 if self.config.arithmetic == "split" else self.element_bytes)

    @property
    def plane_taps(self) -> list[int]:
        """Taps of each plane, the most first."""
        rows, columns = vertical(self.problem), horizontal(self.problem)
        planes = product(range(rows.used_planes), range(columns.used_planes))
        return [rows.taps_of(r) * columns.taps_of(s) for r, s in planes]

    @property
    def partial_sums(self) -> int:
        """Of a tile of split operands: the most whole ones of each patch, and one for each tap that remains."""
        taps = self.config.promotion_taps
        return self.chunks * sum(count // taps + count % taps for count in self.plane_taps)

    @cached_property
    def steps(self) -> int:
        """Steps along the channels of one tap."""
        last = self.channels - (self.chunks - 1) * self.config.block_k
        step = self.step_k
        return (self.chunks - 1) * self.config.block_k // step + ceil_div(last, step)

    @property
    def patch_bytes(self) -> int:
        return self.patch_copies * self.patch_h * self.patch_w * self.config.tile_n * self.row_bytes

    @property
    def loaded_bytes(self) -> int:
        """Of a patch as it is loaded; what lands whole serves the planes of all columns."""
        if self.config.input_staging == "transposed" and (landing := self.landing) and self.products > 1:
            planes = horizontal(self.problem).used_planes if landing.parts == 1 else 1
            return landing.stage_bytes * landing.parts // planes
        return self.patch_h * self.loaded_w * self.config.tile_n * self.row_bytes

    @property
    def filter_bytes(self) -> int:
        """Of one tap and chunk of a tile's filters, or of a consumer's where each has a ring of its own."""
        return self.filter_rows * self.row_bytes

    @property
    def filter_rings(self) -> int:
        """Rings of filter stages."""
        config = self.config
        return config.num_consumer_warpgroups if config.staggered and not config.filter_resident else 1

    @property
    def filter_rows(self) -> int:
        """Output channels of a filter stage."""
        return CHANNELS_M if self.filter_rings > 1 else self.config.block_n

    @property
    def filter_buffers(self) -> int:
        resident = self.problem.r * self.problem.s * self.chunks
        return resident if self.config.filter_resident else self.filter_rings * self.config.filter_stages

    @property
    def landing(self) -> Landing | None:
        """Of an NCHW x that is transposed while it is split, where that can be."""
        tile = self.config.tile
        return landing_of(
            self.problem, tile_n=tile.n, tile_p=tile.p, tile_q=tile.q, patch_h=self.patch_h, patch_w=self.loaded_w
        )

    @property
    def staged_groups(self) -> int:
        """Of split operands: groups of 8 pixels that a warp stages at a time; 0 where it does not."""
        groups = self.config.store_groups
        return groups if BULK_STORE_GROUPS < groups < self.groups_n else 0

    @property
    def bulk_stores(self) -> bool:
        """Whether an NCHW y of split operands leaves by bulk copies."""
        return self.config.arithmetic == "split" and self.config.store_groups == BULK_STORE_GROUPS < self.groups_n

    @property
    def own_rows(self) -> int:
        """Rows of y of a consumer's tile."""
        config = self.config
        shared = config.split == "pixels" and config.mapping != "block"
        return config.tile_p // (config.num_consumer_warpgroups if shared else 1)

    @cached_property
    def runs(self) -> bool:
        """Whether an NCHW y is staged image by image: tiles of several images, without pixels between rows."""
        config = self.config
        several = config.mapping == "rows" and (config.tile_n in (2, 4) or config.tile_n % 8 == 0)
        direct = config.arithmetic != "split" and config.cluster_k == 1
        return several and self.exact and self.problem.y_layout == "nchw" and direct

    @property
    def run_pixels(self) -> int:
        """Of `runs`: neighbours in y that are stored together."""
        config = self.config
        rows = config.store_groups // self.groups_n if config.tile_q == self.problem.q else 1
        return config.tile_q * max(1, rows)

    @property
    def staging_parts(self) -> int:
        """Of a consumer: who lets others copy stages a whole tile."""
        return max(1, self.sum_groups // self.config.store_groups) if self.config.stored_by_producers else 1

    @property
    def staging_bytes(self) -> int:
        """Of a consumer; padded against bank conflicts where y is NCHW."""
        problem, groups = self.problem, self.config.store_groups
        if self.config.bulk_store:
            return CHANNELS_M * self.bulk_pitch * problem.y_element_bytes
        if self.runs:
            words = ceil_div(groups // self.groups_n * self.config.tile_q * problem.y_element_bytes, 4)
            return self.config.tile_n * 4 * (CHANNELS_M * (words // 2 * 2 + 1) + 4)
        if problem.y_layout != "nhwc":
            groups += 1 + groups % 2
        return groups * 8 * CHANNELS_M * problem.y_element_bytes

    @property
    def bulk_pitch(self) -> int:
        """Of a bulk store: elements of a channel's run, with up to 7 in front; an odd number of 16 bytes."""
        config, unit = self.config, 16 // self.problem.y_element_bytes
        rows = config.tile_p // (config.num_consumer_warpgroups if config.split == "pixels" else 1)
        return ((rows * self.problem.q + 2 * unit - 2) // unit | 1) * unit

    @property
    def pieces(self) -> Pieces:
        """Of an x that is turned."""
        return Pieces(problem=self.problem, config=self.config, patch_h=self.patch_h, patch_w=self.patch_w)

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        if self.config.input_staging == "turned":
            return round_up(self._smem_bytes, 128) + self.pieces.smem_bytes
        return self._smem_bytes

    @property
    def _smem_bytes(self) -> int:
        """Without pieces of x."""
        config = self.config
        parts = config.num_consumer_warpgroups * self.staging_parts
        staging = parts * self.staging_bytes
        stages = config.patch_stages + self.filter_rings * config.filter_stages
        barriers = 2 * _BARRIER_BYTES * (stages + (parts if config.stored_by_producers else 0))
        flags = 2 * config.num_consumer_warpgroups * 4
        buffers = self.filter_buffers * self.filter_bytes + config.patch_stages * round_up(self.patch_bytes, 1024)
        if config.arithmetic == "split":
            told = splitting_bytes(config, filter_rings=self.filter_rings)
            end = round_up(buffers + barriers + flags + told, _LANDING_UNIT)
            landing = self.landing.stage_bytes if config.input_staging == "transposed" and self.landing else 0
            rows = self.own_rows if self.bulk_stores else None
            staging = split_staging_bytes(self.problem, config, staged_groups=self.staged_groups, bulk_rows=rows)
            return end + (max(landing, staging) if config.staging_over_buffers else landing + staging)
        if config.cluster_k > 1:  # sums and staging lie over the buffers
            sums = config.num_consumer_warpgroups * self.sum_groups * SUM_GROUP_BYTES
            return max(buffers, sums + staging) + barriers + flags
        if config.staging_over_buffers:
            return max(buffers, staging) + barriers + flags
        return buffers + staging + barriers + flags

    @property
    def tiles_k(self) -> int:
        return ceil_div(self.problem.k, self.config.block_n)

    def persistent_ctas(self, sm_count: int) -> int:
        """That compute all tiles; each with the same output channels where their filters stay resident."""
        ctas = min(self.tiles, sm_count)
        return ctas - ctas % self.tiles_k if self.config.filter_resident else ctas

    @cached_property
    def tiles(self) -> int:
        return self.config.tile.count(self.problem) * self.tiles_k
