"""A config of the wgmma family, and the numbers that follow from it alone."""

from dataclasses import dataclass
from typing import Literal

from im2wingen.families.base import Arithmetic, Config
from im2wingen.families.tiles import PixelTile

Mapping = Literal["rows", "block", "repeated"]
Split = Literal["filters", "pixels", "tiles"]
Order = Literal["linear", "zigzag"]
InputStaging = Literal["tma", "transposed", "turned"]

_REGISTERS = 65536  # of an SM
CHANNELS_M = 64  # output channels of a wgmma


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaConfig(Config):
    """One way to run wgmma.cu.j2 or wgmma_split.cu.j2; their heads and parameter blocks say what each field means."""

    arithmetic: Arithmetic  # of fp32: split in halves; of tf32 also scaled: one half; of all else the tensor cores' own
    mapping: Mapping  # of the pixels of a subtile to wgmma's N; repeated: rows, of a patch that repeats columns
    split: Split  # what the consumers share
    input_staging: InputStaging  # of an NCHW x: tma after a kernel that brings it into NHWC; or TMA brings it as it is,
    # and it is turned in shared memory, or (split operands) transposed while it is split
    piece_stages: int  # of x that is turned; else 1
    num_producer_warpgroups: int
    num_consumer_warpgroups: int
    tile_n: int
    tile_p: int
    tile_q: int
    joined_rows: int
    block_k: int
    cluster_k: int  # CTAs of a cluster, which share gemm_k of a tile; 1: none
    patch_stages: int
    filter_resident: bool
    filter_stages: int  # 1 where the filter is resident
    staggered: bool  # split operands: consumers begin half a tile apart, each with filter stages of its own
    promotion_taps: int  # of split operands: taps of a partial sum on the tensor cores; else 1
    store_groups: int
    stored_by_producers: bool  # an NCHW y is copied from staging by the producers' idle warps
    bulk_store: bool  # an NCHW y of whole rows leaves staging by bulk copies
    staging_over_buffers: bool  # of what is stored, where each CTA has one tile
    l2_promotion_bytes: int  # of x
    promotion: bool  # of fp8: sums of block_k channels of a tap, cut to about 14 bits, are added up in fp32
    ordered: bool  # consumers of different tiles take strict turns
    programmatic_launch: bool
    early_packing: bool  # the first kernel that prepares w or x begins while the kernel before the plan ends
    tile_order: Order

    @property
    def tile(self) -> PixelTile:
        return PixelTile(n=self.tile_n, p=self.tile_p, q=self.tile_q)

    @property
    def consumer_registers(self) -> int:
        """Of a consumer's thread."""
        if self.num_consumer_warpgroups == 1:
            return 255
        at_launch = _REGISTERS // self.threads // 8 * 8
        given = at_launch * self.threads // 128 - self.num_producer_warpgroups * self.producer_registers
        return given // self.num_consumer_warpgroups // 8 * 8

    @property
    def producer_registers(self) -> int:
        """Likewise, where there are several consumers."""
        if self.num_producer_warpgroups == 2 or self.stored_by_producers:
            return 40
        if self.input_staging != "tma" or self.arithmetic == "split":
            return 56
        return 24 if self.num_consumer_warpgroups == 2 else 32

    @property
    def block_n(self) -> int:
        """Output channels of a tile."""
        return CHANNELS_M * (self.num_consumer_warpgroups if self.split == "filters" else 1)

    @property
    def threads(self) -> int:
        return 128 * (self.num_producer_warpgroups + self.num_consumer_warpgroups)

    @property
    def subtiles(self) -> int:
        return self.tile_q // 8 if self.mapping == "block" else self.tile_p // self.joined_rows

    @property
    def own_subtiles(self) -> int:
        """Of a consumer."""
        return self.subtiles // (self.num_consumer_warpgroups if self.split == "pixels" else 1)
