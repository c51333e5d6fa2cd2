"""What a CTA of wgmma.cu.j2 costs an SM: cycles of its tensor core, and cycles that it waits.

The constants are rough cycles of an H200 SM; no test holds them to measurements yet. The estimates rank configs.
"""

from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_axes import flattens
from im2wingen.families.wgmma_geometry import STEP_BYTES, SUM_GROUP_BYTES, WgmmaGeometry
from im2wingen.target import Target

_SMEM_BYTES = 128  # a cycle, that the tensor core can read
_SMEM_SHARE = 0.95  # of it, that several readers and writers get
_L2_BYTES = 40  # a cycle, for one SM of all
_SHORT_ROWS = 0.7  # of it, where TMA brings rows of 64 bytes
_FIRST_PATCH = 4500.0  # from the launch to the first product
HIDDEN = 3900.0  # of it, that passes in the gap before the kernel; measured of direct arithmetic
_EPILOGUE_GROUP = 22.0  # for 8 pixels of a subtile to be rounded, staged and stored
_EPILOGUE_PIXELS = 45.0  # likewise, of an NCHW y
_ROW = 2400.0  # likewise, over the pixels of a row
_EPILOGUE_RUNS, _EPILOGUE_FEW = 24.0, 80.0  # likewise, image by image; of 2 or 4 of them
_RUN_WORDS = 2.3  # times as long, of elements of 4 bytes, direct; fitted to a few 1x1 layers
_JOINED = (
    1.7  # times as long, a tile of joined rows of one image that consumers store in an NCHW y; measured of one layer
)
_RUN = 500.0  # likewise, of all consumers, over the pixels that are neighbours in y
_STAGED, _STAGED_FEW = 10.0, 40.0  # likewise, by a consumer that lets the producers copy; of 2 or 4 images
_COPIED, _COPIED_RUN = 200.0, 3600.0  # and by these; and over the pixels that are neighbours in y
_EPILOGUE, _REFILL = 700.0, 300.0  # of a tile besides; and until a consumer that is alone multiplies again
_STORE = 400.0  # from a store that has read staging to the next one's, besides its groups
_EXPOSED = 0.3  # share of the epilogue during which no other consumer multiplies, but for the last tile
_EXPOSED_PIXELS = 0.8  # likewise, of an NCHW y whose tile the consumers share
_EXPOSED_TURNS = 0.1  # likewise, of consumers that multiply in turn, where y leaves by bulk copies
_TAP, _TAP_ALONE = 40.0, 30.0  # barriers between the products of two taps, of a streamed filter; of one consumer
_TURN = 100.0  # from the products of a tile to the next one's, of consumers that multiply in turn, for an NCHW y
_SPLIT_EPILOGUE_GROUP = 45.0  # likewise, from registers
_SPLIT_BYTES = 12.0  # a cycle, of patches that two warps split
_LANDED_BYTES = 6.0  # likewise, and transpose
_SPLITTING = 0.1  # share of the splitters' time that consumers lose
_RUN_END = 2.0  # an NCHW y of split operands: an end of what is stored together, for each output channel
_APART = 4  # times as cheap, where consumers begin apart
_PROMOTION = 150.0  # from the last product of a partial sum to the first of the next, besides an FMA for each number
_PATCH = 150.0  # likewise, of two patches
_PIECE = 500.0  # of x that is turned, besides what each warp turns of it at a time:
_TURNED, _TURNED_SHORT = 250.0, 445.0  # in rows of 128 bytes, and of 64
_TURNING = 0.3  # share of the shorter of turning and multiplying that does not pass meanwhile
_SHORT_PRODUCTS = 1.03  # times as long, of rows of 64 bytes, beside the stores of an NCHW y
_LATENCY = 1100.0  # from a filter stage that is free to the one that has landed there
_PASS = 4000.0  # a kernel before this one, besides its bytes
_SCALED = 1.12  # times the estimate, of scaled tf32, whose y is of 4 bytes; measured beside direct tf32
_EXCHANGE = 500.0  # of a cluster's sums, besides their bytes: two barriers and the way to a peer
_PEER_BYTES = 16  # a cycle, that an SM reads of its peers' shared memory
_NARROW, _NARROW_PIXEL = 32, 9.5  # TMA for a pixel of fewer bytes; it also passes those that a stride leaves out
_PATCH_LATENCY = 1500.0  # from a patch stage that is free to the patch that has landed there
_SHARED_STAGE = 28.0  # until a stage is free that one more consumer of the pixels reads, where a patch has one tap
_DRAIN_BYTES = 25.0  # a cycle, of the last tile's halves in y; not seen where a filter is one tap
_FEW_STAGES = 500.0  # at each patch that is not loaded while the one before it is read


def tile_cycles(geometry: WgmmaGeometry) -> tuple[float, float]:
    """Of one tile, or a CTA's share: the scarcest of tensor core, shared memory and L2; and the epilogue."""
    problem, config = geometry.problem, geometry.config
    if config.cluster_k > 1:
        return _share_cycles(geometry)
    taps = problem.r * problem.s
    products = config.subtiles * (config.num_consumer_warpgroups if config.split == "filters" else 1)
    tensor = taps * geometry.steps * geometry.products * products * _product_cycles(geometry.wgmma_n)
    if config.arithmetic == "split":
        own = tensor / config.num_consumer_warpgroups
        tensor = max(tensor, own + geometry.partial_sums * (_PROMOTION + geometry.wgmma_n / 2 * config.own_subtiles))
    elif geometry.row_bytes < 128 and problem.y_layout == "nchw":
        tensor *= _SHORT_PRODUCTS
    if config.arithmetic != "split" and not config.filter_resident:
        tensor += taps * geometry.chunks * (_TAP if config.num_consumer_warpgroups > 1 else _TAP_ALONE)
        waits = (tensor + taps * geometry.chunks * _LATENCY) / max(1, config.filter_stages - 1)
        tensor = max(tensor, waits)
    loads = geometry.planes * geometry.chunks * geometry.loaded_bytes
    if not config.filter_resident:
        loads += taps * geometry.chunks * geometry.filter_rings * geometry.filter_bytes
    tensor += geometry.planes * geometry.chunks * _PATCH
    if config.ordered and problem.y_layout == "nchw":
        tensor += _TURN
    if config.patch_stages == 1:
        tensor += geometry.planes * geometry.chunks * (_FEW_STAGES + geometry.patch_bytes / _L2_BYTES)
    stored = config.tile.pixels * config.block_n * problem.y_element_bytes
    group = _SPLIT_EPILOGUE_GROUP if config.arithmetic == "split" else _group_cycles(geometry)
    stores = 2 if geometry.bulk_stores else geometry.sum_groups / min(config.store_groups, geometry.sum_groups)
    epilogue = _EPILOGUE + (stores - 1) * _STORE + geometry.sum_groups * group
    landing = loads / _load_bytes(geometry)
    if flattens(problem) and config.split == "pixels" and not config.filter_resident:
        landing += geometry.chunks * (config.num_consumer_warpgroups - 1) * _SHARED_STAGE
    busy = max(tensor, landing + stored / _L2_BYTES)
    if config.patch_stages == 2:  # a plane of few taps doesn't hide the next plane's landing
        planes = [(tensor * count / taps, landing / geometry.planes) for count in geometry.plane_taps]
        busy = max(busy, sum(map(max, planes)))
    patches = geometry.planes * geometry.chunks
    busy = max(busy, (busy + patches * _PATCH_LATENCY) / config.patch_stages)
    if problem.c * geometry.element_bytes < _NARROW:
        pixels = geometry.planes * geometry.chunks * geometry.patch_bytes / geometry.row_bytes
        busy = max(busy, pixels * problem.stride_h * problem.stride_w * _NARROW_PIXEL)
    if config.arithmetic == "split":
        patches = geometry.planes * geometry.chunks * geometry.loaded_bytes
        written = geometry.planes * geometry.chunks * geometry.patch_bytes
        operands = taps * geometry.steps * geometry.products * products * (64 + geometry.wgmma_n) * STEP_BYTES
        # what lands, is looked at for its scale, split and written back; and what the tensor core reads
        shared = operands + 2 * patches + written + loads
        rate = _SPLIT_BYTES if config.input_staging == "tma" else _LANDED_BYTES
        busy = max(busy, (patches + written) / 2 / rate, shared / (_SMEM_BYTES * _SMEM_SHARE))
        busy += _SPLITTING * patches / _SPLIT_BYTES + _run_ends(geometry)
    if config.stored_by_producers:
        consumers = 1 if config.split == "tiles" else config.num_consumer_warpgroups
        busy = max(busy, consumers * geometry.sum_groups * (_COPIED + _COPIED_RUN / _run_pixels(geometry)))
        epilogue = _EPILOGUE / 2 + geometry.sum_groups * (_STAGED_FEW if 1 < config.tile_n < 8 else _STAGED)
    if config.input_staging == "turned":
        pieces = geometry.pieces
        turned = _TURNED if geometry.row_bytes > 64 else _TURNED_SHORT
        turning = geometry.chunks * pieces.count * (_PIECE + pieces.turns * turned)
        busy = max(busy, turning) + _TURNING * min(busy, turning)
    return busy, epilogue


def _share_cycles(geometry: WgmmaGeometry) -> tuple[float, float]:
    problem, config = geometry.problem, geometry.config
    taps, all_taps = ceil_div(geometry.shared_taps, config.cluster_k), problem.r * problem.s
    products = config.subtiles * (config.num_consumer_warpgroups if config.split == "filters" else 1)
    steps = geometry.steps / geometry.chunks
    tensor = taps * (products * steps * _product_cycles(geometry.wgmma_n) + _TAP)
    patches = (
        geometry.planes * ceil_div(taps, all_taps) if taps >= all_taps else ceil_div(taps * geometry.planes, all_taps)
    )
    loads = patches * geometry.patch_bytes + taps * geometry.filter_bytes
    sums = config.num_consumer_warpgroups * geometry.sum_groups * SUM_GROUP_BYTES
    exchange = _EXCHANGE + sums / _SMEM_BYTES + sums / _PEER_BYTES
    epilogue = _EPILOGUE + exchange + config.store_groups * _group_cycles(geometry)
    return max(tensor, loads / _load_bytes(geometry)) + patches * _PATCH, epilogue


def _load_bytes(geometry: WgmmaGeometry) -> float:
    return _L2_BYTES if geometry.row_bytes >= 128 else _SHORT_ROWS * _L2_BYTES


def _run_pixels(geometry: WgmmaGeometry) -> int:
    """Neighbours in an NCHW y that are stored together."""
    if geometry.runs:
        return geometry.run_pixels
    return 8 if geometry.config.mapping == "block" else geometry.config.tile_q


def _group_cycles(geometry: WgmmaGeometry) -> float:
    if geometry.problem.y_layout == "nhwc":
        return _EPILOGUE_GROUP
    if geometry.runs:
        group = _EPILOGUE_RUNS if geometry.config.tile_n >= 8 else _EPILOGUE_FEW
        cycles = group + _RUN * geometry.config.num_consumer_warpgroups / geometry.run_pixels
        words = geometry.problem.y_element_bytes == 4 and geometry.config.arithmetic == "direct"
        return cycles * (_RUN_WORDS if words else 1.0)
    return _EPILOGUE_PIXELS + _ROW / _run_pixels(geometry)


def _run_ends(geometry: WgmmaGeometry) -> float:
    """Of a tile of split operands: for the sectors of an NCHW y that are stored in parts."""
    problem, config = geometry.problem, geometry.config
    if problem.y_layout == "nhwc":
        return 0
    if geometry.bulk_stores:
        run = geometry.own_rows * problem.q * (8 if geometry.own_rows >= problem.p else 1)
    elif geometry.staged_groups:
        run = config.tile_q
    elif config.tile_n > 1 or config.tile_q % 2 or problem.q % 2:
        run = max(1, 8 // config.tile_n)
    else:
        run = 8 * config.own_subtiles if config.mapping == "block" else config.tile_q
    return 2 * _RUN_END * config.block_n * config.tile.pixels / run / (_APART if config.staggered else 1)


def _product_cycles(n: int) -> float:
    """Of a wgmma of n pixels."""
    return max(n / 2, (64 + n) * STEP_BYTES / _SMEM_BYTES)


def cta_cycles(geometry: WgmmaGeometry, target: Target) -> tuple[float, float]:
    """Busy and idle cycles of the CTA with the most tiles."""
    config = geometry.config
    share = ceil_div(geometry.tiles, geometry.persistent_ctas(_units(target, config.cluster_k)))
    busy, epilogue = tile_cycles(geometry)
    fill = _FIRST_PATCH + (geometry.filter_buffers * geometry.filter_bytes / _L2_BYTES if config.filter_resident else 0)
    if config.cluster_k > 1:
        return share * busy, share * (fill + epilogue)
    if geometry.problem.y_element_bytes == 2 and geometry.problem.r * geometry.problem.s > 1:
        fill += 2 * config.tile.pixels * config.block_n / _DRAIN_BYTES
    if config.num_consumer_warpgroups == 1:
        refill = _REFILL if config.arithmetic != "split" else 0
        return share * busy, fill + share * (epilogue + refill)
    in_bulk = geometry.problem.y_layout == "nhwc" or config.bulk_store
    exposed = _EXPOSED_TURNS if config.ordered and in_bulk else _EXPOSED
    if geometry.problem.y_layout == "nchw" and config.split != "tiles":
        exposed = _EXPOSED_PIXELS
    return share * busy, fill + (1 + exposed * (share - 1)) * epilogue


def _units(target: Target, cluster_k: int) -> int:
    """CTAs, or clusters of them, that run at once: larger ones leave SMs of a processing cluster idle."""
    usable = target.sm_count if cluster_k <= 2 else target.sm_count * 10 // 11
    return max(1, usable // cluster_k)


def estimated_cycles(geometry: WgmmaGeometry, target: Target) -> float:
    """Of the kernel, and of those before it that bring an NCHW x into NHWC, or write scaled operands."""
    problem, cycles = geometry.problem, sum(cta_cycles(geometry, target))
    if geometry.config.arithmetic == "scaled":
        numbers = problem.n * problem.h * problem.w * (problem.c * problem.element_bytes + geometry.channels * 2)
        return _SCALED * (cycles + 3 * _PASS + numbers / (1e3 * target.dram_gbps) * target.clock_mhz)
    if problem.x_layout == "nhwc" or geometry.config.input_staging != "tma":
        return cycles
    x_bytes = problem.n * problem.c * problem.h * problem.w * problem.element_bytes
    return cycles + _PASS + 2 * x_bytes / (1e3 * target.dram_gbps) * target.clock_mhz
