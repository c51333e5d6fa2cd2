"""simt: what a kernel can choose."""

from dataclasses import dataclass
from typing import Literal

from im2wingen.families.base import Config

Staging = Literal["window", "tap", "explicit"]
Reads = Literal["free", "ordered", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimtConfig(Config):
    """One simt kernel; templates/simt.cu.j2 draws the tile."""

    staging: Staging
    tile_n: int  # images, rows and columns of outputs of a CTA
    tile_p: int
    tile_q: int
    block_n: int  # filters of a CTA
    block_c: int  # channels of a stage
    block_r: int  # filter rows of a stage; divides R
    thread_p: int  # rows (or images) and columns of outputs and filters of a thread
    thread_q: int
    thread_n: int
    slices: Literal[1, 2, 4]  # teams of threads, each of which computes the box from its share of a stage's channels
    lanes_m: Literal[1, 2, 4, 8, 16, 32]  # lanes of a warp along the pixels
    num_stages: Literal[1, 2, 3, 4]
    ctas_per_sm: int  # that the registers must leave room for
    persistent: bool  # a CTA takes boxes in turn, and copies the next one's inputs ahead
    unroll_r: bool  # the filter rows of a stage as straight code
    unroll_c: int  # channels of a stage as straight code; divides a slice's
    # of shared memory: as early as the compiler likes, or in order; "rows": in order, one of a thread's rows at a time
    reads: Reads
    x_vector: Literal[1, 2, 4]  # input elements of one copy
    # from registers, or by way of shared memory: pixel by pixel of the box, by runs of y, or these by bulk copies
    store: Literal["registers", "shared", "sectors", "bulk"]
    store_n: int  # filters of a thread that go through shared memory at once; divides thread_n; 1 from registers
    tile_order: Literal["linear", "zigzag"]
    fragment_order: Literal["linear", "zigzag"]
    fragment_outer: Literal["pixels", "filters"]  # the outer loop over a thread's tile, within a tap
    # their registers: as the stores want them, at will, or those of neighbouring pixels together (in one of two ways)
    accumulators: Literal["stored", "copied", "placed", "shifted"]
