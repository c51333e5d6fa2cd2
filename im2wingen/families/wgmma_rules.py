"""What a wgmma config must obey, and which problems the family takes."""

from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.support import foreign_layout, unit_elements
from im2wingen.families.wgmma_config import WgmmaConfig, WgmmaGeometry, horizontal, vertical
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_OTHER_REGISTERS = 36  # of a consumer's thread, beside its accumulators
_LEAST_REGISTERS = 28  # likewise, at the launch; ptxas (CUDA 13.0) asks for 26 or more
ROW_BYTES = (128, 64)  # of a chunk: the swizzles
CLUSTERS = (1, 2, 4, 8)  # sizes that every device takes
_MAX_DIM = 2**31  # coordinates are 32-bit and signed


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    if not isinstance(target, Target):
        return f"needs a CUDA GPU, the target is {target.name}"
    if (reason := foreign_layout(problem)) is not None:
        return reason
    if problem.precision not in ("fp16", "bf16", "tf32"):
        return f"precision {problem.precision} is not one of fp16, bf16, tf32"
    if target.arch != "sm_90a":
        return f"needs sm_90a, the target is {target.arch}"
    if problem.groups != 1:
        return "groups above 1 are not supported"
    unit = unit_elements(problem)
    if (problem.x_layout == "nhwc" and problem.c % unit) or (problem.y_layout == "nhwc" and problem.k % unit):
        return f"in NHWC, C and K must be multiples of {unit} (16 bytes, the step of TMA's strides)"
    if problem.stride_h > problem.h or problem.stride_w > problem.w or _has_empty_plane(problem):
        return "a stride leaves taps that lie in the padding alone"
    if max(problem.c * problem.padded_h * problem.padded_w, problem.k * problem.p * problem.q) * problem.n >= 2**38:
        return "an array has 2^38 elements or more"
    if max(problem.n, problem.padded_h * problem.padded_w, problem.p * problem.q) >= _MAX_DIM:
        return "an image has 2^31 pixels or more"
    return None


def _has_empty_plane(problem: ConvProblem) -> bool:
    """Whether a plane that taps read begins beyond the image."""
    axes = ((vertical(problem), problem.h), (horizontal(problem), problem.w))
    return any(axis.place(tap)[0] >= size for axis, size in axes for tap in range(axis.used_planes))


def _geometry(problem: ConvProblem, config: WgmmaConfig) -> WgmmaGeometry:
    return WgmmaGeometry(problem=problem, config=config)


RULES = (
    Rule(
        sentence="num_consumer_warpgroups is from 1 to 3",
        holds=lambda problem, target, config: 1 <= config.num_consumer_warpgroups <= 3,
    ),
    Rule(
        sentence="block_k is 128 or 64 bytes of channels",
        holds=lambda problem, target, config: _geometry(problem, config).row_bytes in ROW_BYTES,
    ),
    Rule(
        sentence="block mapping is for one image, columns in whole groups of 8, and no joined rows",
        holds=lambda problem, target, config: (
            config.mapping != "block" or (config.tile_n == 1 and config.tile_q % 8 == 0 and config.joined_rows == 1)
        ),
    ),
    Rule(
        sentence="joined_rows divides tile_p in rows mapping",
        holds=lambda problem, target, config: config.mapping != "rows" or config.tile_p % config.joined_rows == 0,
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
        sentence="patch_stages is 2 or more where a tile has several patches, filter_stages where the filter streams",
        holds=lambda problem, target, config: (
            config.patch_stages >= _geometry(problem, config).least_patch_stages
            and (config.filter_resident or config.filter_stages >= 2)
        ),
    ),
    Rule(
        sentence="transposed input staging is for an NCHW x",
        holds=lambda problem, target, config: config.input_staging == "tma" or problem.x_layout == "nchw",
    ),
    Rule(
        sentence="num_producer_warpgroups is 1, or 2 where they transpose for several consumers",
        holds=lambda problem, target, config: (
            config.num_producer_warpgroups == 1
            or (
                config.num_producer_warpgroups == 2
                and config.input_staging == "transposed"
                and config.num_consumer_warpgroups > 1
            )
        ),
    ),
    Rule(
        sentence="prefetch is for transposed input staging",
        holds=lambda problem, target, config: not config.prefetch or config.input_staging == "transposed",
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
        sentence="ordered is for split tiles",
        holds=lambda problem, target, config: not config.ordered or config.split == "tiles",
    ),
    Rule(
        sentence="a resident filter is that of all output channels, and filter_stages is 1 then",
        holds=lambda problem, target, config: (
            not config.filter_resident or (_geometry(problem, config).tiles_k == 1 and config.filter_stages == 1)
        ),
    ),
    Rule(
        sentence="cluster_k is 1, 2, 4 or 8",
        holds=lambda problem, target, config: config.cluster_k in CLUSTERS,
    ),
    Rule(
        sentence="a cluster streams its filter, and TMA brings its patches",
        holds=lambda problem, target, config: (
            config.cluster_k == 1 or (not config.filter_resident and config.input_staging == "tma")
        ),
    ),
    Rule(
        sentence="a cluster has no more CTAs than taps of all chunks",
        holds=lambda problem, target, config: config.cluster_k <= _geometry(problem, config).shared_taps,
    ),
    Rule(
        sentence="clusters are for grids that fill no more than the device, one tile each",
        holds=lambda problem, target, config: (
            config.cluster_k == 1 or _geometry(problem, config).tiles * config.cluster_k <= target.sm_count
        ),
    ),
    Rule(
        sentence="store_groups of a cluster is a CTA's share of a consumer's groups of 8 pixels, rounded up",
        holds=lambda problem, target, config: (
            config.cluster_k == 1 or config.store_groups == _geometry(problem, config).share_groups
        ),
    ),
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
        holds=lambda problem, target, config: _stores_fit(_geometry(problem, config)),
    ),
    Rule(
        sentence="l2_promotion_bytes is 64, 128 or 256",
        holds=lambda problem, target, config: config.l2_promotion_bytes in (64, 128, 256),
    ),
    Rule(
        sentence="the accumulators fit a consumer's registers",
        holds=lambda problem, target, config: (
            _geometry(problem, config).num_accumulators + _OTHER_REGISTERS <= config.consumer_registers
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


def _stores_fit(geometry: WgmmaGeometry) -> bool:
    config = geometry.config
    if geometry.runs:
        return geometry.sum_groups % config.store_groups == 0 and config.store_groups % geometry.groups_n == 0
    if config.store_groups == geometry.groups_n or config.cluster_k > 1:
        return True
    whole = geometry.groups_n % config.store_groups == 0 and config.store_groups * 8 % config.tile_n == 0
    return whole and geometry.exact
