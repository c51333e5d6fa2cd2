"""What a CTA of wgmma_pointwise.cu.j2 costs an SM: cycles of the scarcest of its pipes, and cycles that it waits.

The constants are rough cycles of an H200 SM; no test holds them to measurements. The estimates rank configs.
"""

from im2wingen.families.occupancy import SUSTAINED_CLOCK
from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_pointwise_config import SUBTILE_PIXELS, WgmmaPointwiseGeometry
from im2wingen.target import Target

_SMEM_BYTES = 128  # a cycle
_L2_BYTES = 60  # a cycle, for one SM of all
_TENSOR_BYTES = 4096  # products of elements of so many bytes, of an SM in a cycle
_STRIDED = {
    2: 8.0,
    4: 2.0,
}  # times as long to read x with a stride, in elements of so many bytes: word by word, with conflicts
_STORED_BYTES = 20  # a cycle
_DRAM = 0.9  # share of the bandwidth that is reached
_START = 1600.0  # from the launch to the first product, and from the last one to the end
_END_BYTES = 60.0  # a cycle, of the first stage and the last stores, with which nothing else overlaps
_TILE = 600.0  # between a tile's last product and its stores, of a consumer
_OVERLAP = 0.2  # share of the less scarce pipes that is not hidden behind the scarcest


def cta_cycles(geometry: WgmmaPointwiseGeometry, target: Target) -> tuple[float, float]:
    """Busy and idle cycles of the CTA with the most tiles."""
    problem, config = geometry.problem, geometry.config
    tiles = ceil_div(geometry.tiles, geometry.ctas(target))
    filters = 0 if config.filter_resident else geometry.filter_bytes
    subtiles = geometry.tile_pixels // SUBTILE_PIXELS
    blocks = geometry.tile_blocks
    loaded = geometry.chunks * (geometry.input_bytes + filters)
    words = geometry.input_bytes * (_STRIDED[problem.element_bytes] if problem.stride_w > 1 else 1.0)
    read = geometry.chunks * blocks * (words + subtiles * geometry.filter_bytes)
    stored = geometry.tile_pixels * blocks * config.block_n * problem.y_element_bytes
    pipes = (
        geometry.tile_products * problem.element_bytes / _TENSOR_BYTES,
        (loaded + read) / _SMEM_BYTES,
        loaded / _L2_BYTES + stored / _L2_BYTES,
    )
    busy = max(pipes) + _OVERLAP * (sum(pipes) - max(pipes))
    exposed = (stored / _STORED_BYTES + blocks * _TILE) / config.num_consumer_warpgroups
    ends = (geometry.input_bytes + filters + stored) / _END_BYTES
    return tiles * busy, _START + ends + tiles * exposed


def estimated_cycles(geometry: WgmmaPointwiseGeometry, target: Target) -> float:
    """Of the whole kernel."""
    problem = geometry.problem
    moved = (problem.c * problem.h * problem.w * problem.element_bytes
             + problem.k * problem.p * problem.q * problem.y_element_bytes) * problem.n  # fmt: skip
    dram = moved / (_DRAM * target.dram_gbps * 1e3) * target.clock_mhz * SUSTAINED_CLOCK
    busy, idle = cta_cycles(geometry, target)
    return max(busy + idle, dram) + _OVERLAP * min(busy + idle, dram)
