"""What a wgmma config must obey because of split operands."""

from im2wingen.families.base import Arithmetic, Rule
from im2wingen.families.wgmma_axes import flattened
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_landing import SPLIT_CHANNELS
from im2wingen.problem import ConvProblem

# More of 32 channels in a partial sum would be less exact than a chain of fp32 FMAs; verify_data has the figures.
MAX_PROMOTION_TAPS = 4
SPLIT_STORE_GROUPS = (4, 8)  # that a warp stages at a time
_UNIT = 4  # numbers in 16 bytes


def _geometry(problem: ConvProblem, config: WgmmaConfig) -> WgmmaGeometry:
    return WgmmaGeometry(problem=flattened(problem), config=config)


def arithmetics(problem: ConvProblem) -> tuple[Arithmetic, ...]:
    """What a problem's elements may be multiplied by."""
    if problem.precision == "fp32":
        return ("split",)
    return ("direct", "scaled") if problem.precision == "tf32" else ("direct",)


SPLIT_RULES = (
    Rule(
        sentence="arithmetic is split for fp32, direct or scaled for tf32, direct for all else",
        holds=lambda problem, target, config: config.arithmetic in arithmetics(problem),
    ),
    Rule(
        sentence="scaled arithmetic has input_staging tma, no cluster, no stored_by_producers, and a tile_n of 1, 2, 4 "
        "or a multiple of 8",
        holds=lambda problem, target, config: (
            config.arithmetic != "scaled"
            or (
                config.input_staging == "tma"
                and config.cluster_k == 1
                and not config.stored_by_producers
                and (config.tile_n in (1, 2, 4) or config.tile_n % 8 == 0)
            )
        ),
    ),
    Rule(
        sentence="promotion_taps is at most 4 and the taps of a plane in split arithmetic, 1 in direct",
        holds=lambda problem, target, config: (
            config.promotion_taps <= min(MAX_PROMOTION_TAPS, _geometry(problem, config).plane_taps[0])
            if config.arithmetic == "split"
            else config.promotion_taps == 1
        ),
    ),
    Rule(
        sentence="split arithmetic takes block_k 32, and split filters or pixels",
        holds=lambda problem, target, config: (
            config.arithmetic != "split" or (config.block_k == SPLIT_CHANNELS and config.split != "tiles")
        ),
    ),
    Rule(
        sentence="split arithmetic transposes an x where W is a multiple of 4 (16 bytes, the step of TMA's strides) "
        "or, of stride_w 1, H*W or, for tiles of whole images, C; and tile_n is 1, 2, 4 or a multiple of 8",
        holds=lambda problem, target, config: (
            config.arithmetic != "split"
            or config.input_staging == "tma"
            or _geometry(problem, config).landing is not None
        ),
    ),
    Rule(
        sentence="repeated mapping is for split arithmetic that transposes x",
        holds=lambda problem, target, config: (
            config.mapping != "repeated" or (config.arithmetic == "split" and config.input_staging == "transposed")
        ),
    ),
    Rule(
        sentence="staggered is for two consumers of split arithmetic and tiles of several patches",
        holds=lambda problem, target, config: (
            not config.staggered
            or (
                config.arithmetic == "split"
                and config.num_consumer_warpgroups == 2
                and _geometry(problem, config).least_patch_stages > 1
            )
        ),
    ),
    Rule(
        sentence="store_groups of split arithmetic are all of a subtile, or 4 or 8 of an NCHW y, which cut no pixel's "
        "images apart, or 1, for bulk copies of whole rows of it, no block mapping: then K*P*Q is a multiple of 4 "
        "where a consumer's tile has all rows, else P*Q and the numbers of its rows",
        holds=lambda problem, target, config: config.arithmetic != "split" or _stores_fit(_geometry(problem, config)),
    ),
    Rule(
        sentence="split arithmetic has no clusters, and consumers store its y: no stored_by_producers; and no "
        "staging_over_buffers, but over an NCHW x that lands to be transposed",
        holds=lambda problem, target, config: (
            config.arithmetic != "split"
            or (
                config.cluster_k == 1
                and not config.stored_by_producers
                and (config.input_staging == "transposed" or not config.staging_over_buffers)
            )
        ),
    ),
)


def _stores_fit(geometry: WgmmaGeometry) -> bool:
    groups, staged = geometry.config.store_groups, geometry.staged_groups
    if geometry.bulk_stores:
        return stores_in_bulk(geometry)
    if not staged:
        return groups == geometry.groups_n
    whole = staged * 8 % geometry.config.tile_n == 0
    return geometry.problem.y_layout == "nchw" and staged in SPLIT_STORE_GROUPS and whole


def stores_in_bulk(geometry: WgmmaGeometry) -> bool:
    """Whether a consumer's tile is runs of an NCHW y that begin and end at 16-byte boundaries."""
    problem, config, rows = geometry.problem, geometry.config, geometry.own_rows
    if problem.y_layout != "nchw" or config.mapping == "block" or config.tile_q < problem.q:
        return False
    plane = problem.p * problem.q
    if rows >= problem.p:
        return problem.k * plane % _UNIT == 0
    return plane % _UNIT == rows * problem.q % _UNIT == 0
