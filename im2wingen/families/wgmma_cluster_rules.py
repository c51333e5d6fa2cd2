"""What a wgmma config must obey because the CTAs of a cluster share gemm_k of a tile."""

from im2wingen.families.base import Rule
from im2wingen.families.wgmma_axes import flattened
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.problem import ConvProblem

CLUSTERS = (1, 2, 4, 8)  # sizes that every device takes


def _geometry(problem: ConvProblem, config: WgmmaConfig) -> WgmmaGeometry:
    return WgmmaGeometry(problem=flattened(problem), config=config)


CLUSTER_RULES = (
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
)
