"""What a wgmma config must obey, and which problems the family takes."""

from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.support import ceil_div, foreign_layout, unit_elements
from im2wingen.families.wgmma_axes import flattened, horizontal, vertical
from im2wingen.families.wgmma_cluster_rules import CLUSTER_RULES
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_landing import SPLIT_CHANNELS
from im2wingen.families.wgmma_split_rules import SPLIT_RULES
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_OTHER_REGISTERS = 36  # of a consumer's thread, beside its accumulators
_SPLIT_REGISTERS, _SPLIT_SUBTILE_REGISTERS = 20, 4  # likewise, of split operands; of each of its subtiles
_SCALES = 20  # likewise, of scaled operands
_LEAST_REGISTERS = 28  # likewise, at the launch; ptxas (CUDA 13.0) asks for 26 or more
_PRECISIONS = ("fp32", "fp16", "bf16", "tf32", "int8", "e4m3", "e5m2")
_MAX_INT8_TERMS = 2**17 - 1  # of magnitude 2^14 or less, that int32 holds the sum of
ROW_BYTES = (128, 64)  # of a chunk: the swizzles
_MAX_DIM = 2**31  # coordinates are 32-bit and signed


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    if not isinstance(target, Target):
        return f"needs a CUDA GPU, the target is {target.name}"
    if (reason := foreign_layout(problem)) is not None:
        return reason
    if problem.precision not in _PRECISIONS:
        return f"precision {problem.precision} is not one of {', '.join(_PRECISIONS)}"
    if problem.element_bytes == 1 and problem.x_layout != "nhwc":
        return f"precision {problem.precision} needs an NHWC x"
    if target.arch != "sm_90a":
        return f"needs sm_90a, the target is {target.arch}"
    if problem.groups != 1:
        return "groups above 1 are not supported"
    if (reason := _odd_strides(problem)) is not None:
        return reason
    if problem.precision == "int8" and problem.gemm_k > _MAX_INT8_TERMS:
        return f"R*S*C is {problem.gemm_k}; int32 holds any sum of {_MAX_INT8_TERMS} products of int8"
    if problem.precision == "fp32" and ceil_div(problem.c, SPLIT_CHANNELS) * problem.r * problem.s >= _MAX_DIM:
        return "a filter has 2^36 elements or more"
    if problem.stride_h > problem.h or problem.stride_w > problem.w or _has_empty_plane(problem):
        return "a stride leaves taps that lie in the padding alone"
    if max(problem.c * problem.padded_h * problem.padded_w, problem.k * problem.p * problem.q) * problem.n >= 2**38:
        return "an array has 2^38 elements or more"
    if max(problem.n, problem.padded_h * problem.padded_w, problem.p * problem.q) >= _MAX_DIM:
        return "an image has 2^31 pixels or more"
    return None


def _odd_strides(problem: ConvProblem) -> str | None:
    """The sentence where an NHWC array's strides are not what TMA takes."""
    unit, y_unit = unit_elements(problem), 16 // problem.y_element_bytes
    split = problem.precision == "fp32"  # its y leaves from registers
    odd_c = problem.x_layout == "nhwc" and problem.c % unit
    odd_k = problem.y_layout == "nhwc" and problem.k % y_unit and not split
    if not odd_c and not odd_k:
        return None
    multiples = f"C and K must be multiples of {unit}"
    if split:
        multiples = f"C must be a multiple of {unit}"
    elif unit != y_unit:
        multiples = f"C must be a multiple of {unit}, K of {y_unit}"
    return f"in NHWC, {multiples} (16 bytes, the step of TMA's strides)"


def _has_empty_plane(problem: ConvProblem) -> bool:
    """Whether a plane that taps read begins beyond the image."""
    axes = ((vertical(problem), problem.h), (horizontal(problem), problem.w))
    return any(axis.place(tap)[0] >= size for axis, size in axes for tap in range(axis.used_planes))


def _geometry(problem: ConvProblem, config: WgmmaConfig) -> WgmmaGeometry:
    return WgmmaGeometry(problem=flattened(problem), config=config)


RULES = (
    *SPLIT_RULES,
    Rule(
        sentence="num_consumer_warpgroups is from 1 to 3",
        holds=lambda problem, target, config: 1 <= config.num_consumer_warpgroups <= 3,
    ),
    Rule(
        sentence="block_k is 128 or 64 bytes of channels",
        holds=lambda problem, target, config: _geometry(problem, config).row_bytes in ROW_BYTES,
    ),
    Rule(
        sentence="block mapping is for one image, columns in whole groups of 8, no joined rows, of int8 4 or even rows",
        holds=lambda problem, target, config: config.mapping != "block" or _blocks_fit(_geometry(problem, config)),
    ),
    Rule(
        sentence="joined_rows divides tile_p",
        holds=lambda problem, target, config: config.tile_p % config.joined_rows == 0,
    ),
    Rule(
        sentence="a subtile has at most 256 pixels",
        holds=lambda problem, target, config: _geometry(problem, config).wgmma_n <= 256,
    ),
    Rule(
        sentence="a patch has at most 256 rows, columns and images",
        holds=lambda problem, target, config: (
            max(_geometry(problem, config).patch_h, _geometry(problem, config).patch_w, config.tile_n) <= 256
        ),
    ),
    Rule(
        sentence="split pixels gives each consumer as many subtiles",
        holds=lambda problem, target, config: (
            config.split != "pixels" or config.subtiles % config.num_consumer_warpgroups == 0
        ),
    ),
    Rule(
        sentence="one consumer has nothing to split: split is pixels",
        holds=lambda problem, target, config: config.num_consumer_warpgroups > 1 or config.split == "pixels",
    ),
    Rule(
        sentence="no consumer computes channels beyond K alone",
        holds=lambda problem, target, config: config.block_n - 64 < problem.k,
    ),
    Rule(
        sentence=(
            "patch_stages is 2 or more where a tile has several patches; so is filter_stages where the filter streams, "
            "and no less than promotion_taps"
        ),
        holds=lambda problem, target, config: (
            config.patch_stages >= _geometry(problem, config).least_patch_stages
            and (config.filter_resident or config.filter_stages >= max(2, config.promotion_taps))
        ),
    ),
    Rule(
        sentence="input_staging is tma, or for an NCHW x transposed (split arithmetic) or turned (direct)",
        holds=lambda problem, target, config: (
            config.input_staging == "tma"
            or (problem.x_layout == "nchw" and (config.input_staging == "transposed") == (config.arithmetic == "split"))
        ),
    ),
    Rule(
        sentence="turned input staging is for 16-bit elements, no stride, tiles of one image, rows of x that are "
        "multiples of 16 bytes (or patches of whole rows without padding, and images that are), and at most 248 "
        "columns of a patch, those in front of it included",
        holds=lambda problem, target, config: (
            config.input_staging != "turned" or _geometry(problem, config).pieces.possible
        ),
    ),
    Rule(
        sentence="piece_stages is 2 or more where x is turned, else 1",
        holds=lambda problem, target, config: (
            config.piece_stages >= 2 if config.input_staging == "turned" else config.piece_stages == 1
        ),
    ),
    Rule(
        sentence="bulk_store is for an NCHW y, tiles of whole rows of one image whose patches have 8 columns or more, "
        "without padding, cluster or stored_by_producers",
        holds=lambda problem, target, config: not config.bulk_store or stores_runs(_geometry(problem, config)),
    ),
    Rule(
        sentence="num_producer_warpgroups is 1, or 2 where they transpose or split for several consumers",
        holds=lambda problem, target, config: (
            config.num_producer_warpgroups == 1
            or (
                config.num_producer_warpgroups == 2
                and (config.input_staging != "tma" or config.arithmetic == "split")
                and config.num_consumer_warpgroups > 1
            )
        ),
    ),
    Rule(
        sentence="split tiles needs a resident filter",
        holds=lambda problem, target, config: config.split != "tiles" or config.filter_resident,
    ),
    Rule(
        sentence="split tiles is ordered, or patch_stages is a multiple of the patches of a tile for each consumer",
        holds=lambda problem, target, config: (
            config.split != "tiles" or config.ordered or _geometry(problem, config).taken_by_turns
        ),
    ),
    Rule(
        sentence="promotion is for fp8",
        holds=lambda problem, target, config: not config.promotion or problem.precision in ("e4m3", "e5m2"),
    ),
    Rule(
        sentence="ordered is for split tiles",
        holds=lambda problem, target, config: not config.ordered or config.split == "tiles",
    ),
    Rule(
        sentence="a resident filter has filter_stages 1; where it is not that of all output channels, tile_order is "
        "linear, arithmetic direct, and the grid can be a multiple of the tiles along K",
        holds=lambda problem, target, config: (
            not config.filter_resident
            or (config.filter_stages == 1 and stays_resident(_geometry(problem, config), target))
        ),
    ),
    *CLUSTER_RULES,
    Rule(
        sentence="stored_by_producers is for an NCHW y without padding of x, patches that TMA brings, no cluster, and "
        "staging that does not lie over the buffers",
        holds=lambda problem, target, config: (
            not config.stored_by_producers
            or (
                problem.y_layout == "nchw"
                and not problem.has_padding
                and config.input_staging == "tma"
                and config.cluster_k == 1
                and not config.staging_over_buffers
            )
        ),
    ),
    Rule(
        sentence="staging_over_buffers is for one tile a CTA, without a cluster, that is not split in tiles",
        holds=lambda problem, target, config: (
            not config.staging_over_buffers
            or (
                config.cluster_k == 1
                and config.split != "tiles"
                and _geometry(problem, config).tiles <= target.sm_count
            )
        ),
    ),
    Rule(
        sentence="store_groups divides the groups of 8 pixels of a subtile, and cuts no pixel's images apart; or, "
        "where an NCHW y is staged image by image, it is those of a part of the consumer's subtiles",
        holds=lambda problem, target, config: config.arithmetic == "split" or _stores_fit(_geometry(problem, config)),
    ),
    Rule(
        sentence="early_packing needs a kernel that prepares w or x",
        holds=lambda problem, target, config: not config.early_packing or prepares(_geometry(problem, config)),
    ),
    Rule(
        sentence="l2_promotion_bytes is 64, 128 or 256",
        holds=lambda problem, target, config: config.l2_promotion_bytes in (64, 128, 256),
    ),
    Rule(
        sentence="the accumulators fit a consumer's registers",
        holds=lambda problem, target, config: (
            _geometry(problem, config).num_accumulators + other_registers(config) <= config.consumer_registers
        ),
    ),
    Rule(
        sentence="the accumulators of one wgmma fit the registers at the launch",
        holds=lambda problem, target, config: (
            _geometry(problem, config).wgmma_n // 2 + _LEAST_REGISTERS <= target.regs_per_sm // config.threads
        ),
    ),
    Rule(
        sentence="filters, patches and staging fit shared memory",
        holds=lambda problem, target, config: _geometry(problem, config).smem_bytes <= target.smem_per_block_bytes,
    ),
    Rule(
        sentence="there are at most 2^30 tiles",
        holds=lambda problem, target, config: _geometry(problem, config).tiles <= 2**30,
    ),
)


def prepares(geometry: WgmmaGeometry) -> bool:
    """Whether kernels before the last one write w or x in another order."""
    problem, config = geometry.problem, geometry.config
    if config.arithmetic != "direct" or not problem.filter_is_krsc or geometry.channels != problem.c:
        return True
    return problem.x_layout != "nhwc" and config.input_staging == "tma"


def stays_resident(geometry: WgmmaGeometry, target: Target) -> bool:
    """Whether each CTA can keep the filters of its output channels."""
    config = geometry.config
    several = config.tile_order == "linear" and config.arithmetic != "split" and not config.staging_over_buffers
    return geometry.tiles_k == 1 or (several and geometry.tiles_k <= target.sm_count)


def stores_runs(geometry: WgmmaGeometry) -> bool:
    """Whether y can leave by bulk copies of a channel's rows."""
    problem, config = geometry.problem, geometry.config
    rows = config.mapping == "rows" and config.tile_n == 1 and config.tile_q == problem.q and geometry.patch_w >= 8
    plain = problem.y_layout == "nchw" and not problem.has_padding and config.arithmetic != "split"
    return rows and plain and config.cluster_k == 1 and not config.stored_by_producers


def _blocks_fit(geometry: WgmmaGeometry) -> bool:
    config = geometry.config
    columns = geometry.wgmma_n
    whole = config.tile_q % 8 == 0 and columns % geometry.columns_step(columns) == 0
    return whole and config.tile_n == 1 and config.joined_rows == 1


def other_registers(config: WgmmaConfig) -> int:
    """Of a consumer's thread, beside its accumulators."""
    if config.arithmetic == "split":
        return _SPLIT_REGISTERS + _SPLIT_SUBTILE_REGISTERS * config.own_subtiles
    return _OTHER_REGISTERS + (_SCALES if config.arithmetic == "scaled" else 0)


def _stores_fit(geometry: WgmmaGeometry) -> bool:
    config = geometry.config
    if geometry.runs:
        return geometry.sum_groups % config.store_groups == 0 and config.store_groups % geometry.groups_n == 0
    if config.store_groups == geometry.groups_n or config.cluster_k > 1:
        return True
    if config.bulk_store:
        return False
    whole = geometry.groups_n % config.store_groups == 0 and config.store_groups * 8 % config.tile_n == 0
    return whole and geometry.exact
