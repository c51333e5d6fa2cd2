"""What a CTA of wgmma_rows.cu.j2 costs an SM: cycles of tensor core, shared memory and its share of DRAM, and waits.

The constants are rough cycles of an H200 SM, fitted to some twenty layers; no test holds them to measurements. The
estimates rank configs.
"""

from dataclasses import dataclass

from im2wingen.families.occupancy import SUSTAINED_CLOCK
from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_rows_config import SWIZZLE_BYTES, TILE_SLOTS, WgmmaRowsGeometry
from im2wingen.target import Target

_SMEM_BYTES = 128  # a cycle
_STEP_BYTES = 32  # along K, of a wgmma
_DRAM = 0.9  # share of the bandwidth that is reached
_PARTS = 1.1  # times as long, where more channels than 128 bytes of a pixel are wgmma's rows
_DRAM_BOUND = 2.0  # times the tensor core's demand
_DRAM_BOUND_SCALED = 2.0  # times that, of scaled elements: they take longer to turn
_OVERLAP = 0.25  # share of the less scarce resources that is not hidden behind the scarcest
_RAW_READS = 1.3  # a word of a raw row is read so many times, its bank conflicts included
_START = 860.0  # from the launch to the first product, besides what the cost model adds for a launch
_FILTER_BYTES = 60  # a cycle, that one SM of all gets from L2
_LOOK_UP = 65.0  # of a warp that packs, for each of its lanes' chunks: constant memory answers them one by one
PACK_KERNEL = 1200.0  # of the kernel that packs, what this one waits for besides its bytes
_LOAD = 300.0  # of the loading warp, for a block's rows
_LANES = 32
_BLOCK = 700.0  # of a transformer: waits and barriers of a block
_CHUNK = 70.0  # and for 32 chunks of it
_BORDER = 500.0  # and for 32 chunks of slots that begin or end beside the image
_ITEM = 900.0  # of a consumer: waits, barriers and stores of an item


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Cycles of an SM for the CTA with the most rows, as if there were nothing else."""

    tensor: float
    smem: float
    dram: float
    dram_bound: bool
    transformers: float
    in_strips: bool  # then transformers are ahead, if y takes the consumers longer to write than to multiply
    consumers: float
    loader: float
    start: float

    @property
    def total(self) -> float:
        awaited = 0.0 if self.in_strips and self.dram_bound else self.transformers
        pipes = (self.tensor, self.smem, self.dram, self.loader, awaited)
        busy = max(pipes) + _OVERLAP * (sum(pipes) - max(pipes))
        return self.start + max(busy, self.transformers, self.consumers)


def demands(geometry: WgmmaRowsGeometry, target: Target) -> Demands:
    problem, config = geometry.problem, geometry.config
    ctas = geometry.ctas(target)
    rows, segments = geometry.cta_rows(target)
    rows_of_segment = min(problem.p, ceil_div(rows, segments))
    items = segments * geometry.items(rows_of_segment)
    blocks = rows + segments * geometry.halo_blocks
    operand_rows = geometry.item_slots if config.channel_rows else config.item_tiles * (TILE_SLOTS + config.block_n)
    columns = geometry.item_slots if config.channel_rows else config.item_tiles * config.block_n
    item = geometry.products * max(columns / 2, operand_rows * _STEP_BYTES / _SMEM_BYTES)
    operands = items * geometry.products * operand_rows * _STEP_BYTES
    copies = 1 + geometry.mirrored_blocks / config.ring_blocks
    chunks = geometry.parts * geometry.planes * geometry.row_slots
    border = geometry.parts * geometry.planes * geometry.border_slots
    staged = blocks * (chunks * 16 * (copies + _RAW_READS) + geometry.raw_bytes)
    image = problem.c * problem.h * problem.w + problem.k * problem.p * problem.q
    bytes_a_cycle = _DRAM * target.dram_gbps * 1e3 / (target.clock_mhz * SUSTAINED_CLOCK)
    waves = max(1.0, ctas / target.sm_count)
    dram = problem.n * image * problem.element_bytes / bytes_a_cycle
    if config.channel_rows and problem.k * problem.element_bytes > SWIZZLE_BYTES:
        dram *= _PARTS
    filters = geometry.filter_bytes / _FILTER_BYTES if config.pack_kernel else packing_cycles(geometry)
    tensor = waves * items * item
    return Demands(
        tensor=tensor,
        smem=waves * (operands + staged) / _SMEM_BYTES,
        dram=dram,
        dram_bound=dram > _DRAM_BOUND * tensor * (_DRAM_BOUND_SCALED if config.scaled else 1.0),
        transformers=waves
        * blocks
        * (_BLOCK + ceil_div(chunks, _LANES) * _CHUNK + ceil_div(border, _LANES) * _BORDER)
        / config.num_transformer_warps,
        in_strips=config.row_order == "strips",
        consumers=waves * items * (_ITEM + item) / config.num_consumer_warpgroups,
        loader=waves * blocks * _LOAD,
        start=_START + waves * filters,
    )


def packing_cycles(geometry: WgmmaRowsGeometry) -> float:
    """Of a CTA that packs its own filters, before the first product."""
    return geometry.pack_rounds * min(_LANES, geometry.chunks) * _LOOK_UP


def cta_cycles(geometry: WgmmaRowsGeometry, target: Target) -> tuple[float, float]:
    """Busy and idle cycles of the CTA with the most rows."""
    wanted = demands(geometry, target)
    busy = max(wanted.tensor, wanted.smem)
    return busy, max(0.0, wanted.total - busy)
