"""What a CTA of wgmma.cu.j2 costs an SM: cycles of its tensor core, and cycles that it waits.

The constants are rough cycles of an H200 SM; no test holds them to measurements yet. The estimates rank configs.
"""

from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_config import STEP_BYTES, WgmmaGeometry
from im2wingen.target import Target

_SMEM_BYTES = 128  # a cycle, that the tensor core can read
_SMEM_SHARE = 0.95  # of it, that several readers and writers get
_L2_BYTES = 40  # a cycle, for one SM of all
_FIRST_PATCH = 4500.0  # from the launch to the first product
_EPILOGUE_GROUP = 22.0  # for 8 pixels of a subtile to be rounded, staged and stored
_EPILOGUE = 700.0  # of a tile besides
_EXPOSED = 0.15  # share of the epilogue during which no other consumer multiplies, but for the last tile
_TAP = 40.0  # barriers between the products of two taps, of a streamed filter
_SPLIT_EPILOGUE_GROUP = 45.0  # likewise, from registers
_SPLIT_BYTES = 12.0  # a cycle, of patches that two warps split
_PROMOTION = 150.0  # from the last product of a partial sum to the first of the next, besides an FMA for each number
_TRANSPOSED_BYTES = 5.0  # a cycle, of patches whose pixels a warpgroup transposes in whole vectors
_PASS = 4000.0  # a kernel before this one, besides its bytes
_FEW_STAGES = 500.0  # at each patch that is not loaded while the one before it is read


def tile_cycles(geometry: WgmmaGeometry) -> tuple[float, float]:
    """Of one tile: the scarcest of tensor core, shared memory and L2; and the epilogue."""
    problem, config = geometry.problem, geometry.config
    n, taps = geometry.wgmma_n, problem.r * problem.s
    product = max(n / 2, (64 + n) * STEP_BYTES / _SMEM_BYTES)
    products = config.subtiles * (config.num_consumer_warpgroups if config.split == "filters" else 1)
    tensor = taps * geometry.steps * geometry.products * products * product
    if config.arithmetic == "split":
        own = tensor / config.num_consumer_warpgroups
        tensor = max(tensor, own + geometry.partial_sums * (_PROMOTION + geometry.wgmma_n / 2 * config.own_subtiles))
    elif not config.filter_resident:
        tensor += taps * geometry.chunks * _TAP
    loads = geometry.planes * geometry.chunks * geometry.patch_bytes
    if not config.filter_resident:
        loads += taps * geometry.chunks * geometry.filter_bytes
    if config.patch_stages == 1:
        tensor += geometry.planes * geometry.chunks * (_FEW_STAGES + geometry.patch_bytes / _L2_BYTES)
    stores = config.tile.pixels * config.block_n * problem.y_element_bytes
    group = _SPLIT_EPILOGUE_GROUP if config.arithmetic == "split" else _EPILOGUE_GROUP
    epilogue = _EPILOGUE + config.own_subtiles * geometry.groups_n * group
    busy = max(tensor, (loads + stores) / _L2_BYTES)
    if config.arithmetic == "split":
        patches = geometry.planes * geometry.chunks * geometry.patch_bytes
        operands = taps * geometry.steps * geometry.products * products * (64 + n) * STEP_BYTES
        # what lands, is looked at for its scale, split and written back; and what the tensor core reads
        shared = operands + 3 * patches + loads
        busy = max(busy, patches / _SPLIT_BYTES, shared / (_SMEM_BYTES * _SMEM_SHARE))
    if config.input_staging == "transposed":
        patches = geometry.planes * geometry.chunks * geometry.patch_bytes
        whole = problem.stride_w == 1 and problem.w % 4 == 0
        rate = _TRANSPOSED_BYTES * config.num_producer_warpgroups
        busy = max(busy, patches / (rate if whole else rate / 2))
    return busy, epilogue


def cta_cycles(geometry: WgmmaGeometry, target: Target) -> tuple[float, float]:
    """Busy and idle cycles of the CTA with the most tiles."""
    config = geometry.config
    share = ceil_div(geometry.tiles, min(geometry.tiles, target.sm_count))
    busy, epilogue = tile_cycles(geometry)
    fill = _FIRST_PATCH + (geometry.filter_buffers * geometry.filter_bytes / _L2_BYTES if config.filter_resident else 0)
    if config.num_consumer_warpgroups == 1:
        return share * busy, fill + share * epilogue
    return share * busy, fill + (1 + _EXPOSED * (share - 1)) * epilogue


def estimated_cycles(geometry: WgmmaGeometry, target: Target) -> float:
    """Of the kernel, and of the one that brings an NCHW x into NHWC before it."""
    problem, cycles = geometry.problem, sum(cta_cycles(geometry, target))
    if problem.x_layout == "nhwc" or geometry.config.input_staging == "transposed":
        return cycles
    x_bytes = problem.n * problem.c * problem.h * problem.w * problem.element_bytes
    return cycles + _PASS + 2 * x_bytes / (1e3 * target.dram_gbps) * target.clock_mhz
