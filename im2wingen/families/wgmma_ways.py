"""Ways to bring x in and y out for a shape of the wgmma family's search space."""

from collections.abc import Iterator
from dataclasses import replace

from im2wingen.families.support import ceil_div
from im2wingen.families.wgmma_config import InputStaging, WgmmaConfig
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_rules import prepares, stores_runs
from im2wingen.families.wgmma_split_space import fits
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_SMALL_FILTER = 1 << 20  # bytes
_PIECE_STAGES = (6, 4, 3, 2)
_MOST_JOINED = 16  # rows of a tile whose channels are runs in y


def ways(config: WgmmaConfig, problem: ConvProblem) -> Iterator[WgmmaConfig]:
    """A shape whose NHWC x comes by TMA, likewise for an NCHW x, with each kind of stores for y.

    The fewest pieces, where x is turned. Some of what comes may break rules.
    """
    if config.arithmetic == "split":
        yield config
        return
    for staging, producers in _stagings(config, problem):
        brought = replace(config, input_staging=staging, num_producer_warpgroups=producers)
        if staging == "turned":
            brought = replace(brought, piece_stages=_PIECE_STAGES[-1])
        in_bulk = replace(brought, bulk_store=True)
        if stores_runs(WgmmaGeometry(problem=problem, config=in_bulk)):
            yield in_bulk
        else:
            yield brought
        by_producers = problem.y_layout == "nchw" and staging == "tma" and config.arithmetic == "direct"
        if by_producers and not config.staging_over_buffers:
            yield replace(brought, stored_by_producers=True)


def _stagings(config: WgmmaConfig, problem: ConvProblem) -> Iterator[tuple[InputStaging, int]]:
    yield "tma", 1
    if problem.x_layout == "nhwc" or config.cluster_k > 1 or config.arithmetic == "scaled":
        return
    if WgmmaGeometry(problem=problem, config=config).pieces.possible:
        yield "turned", 1
        if config.num_consumer_warpgroups > 1:
            yield "turned", 2


def piece_stages(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """As many as fit beside the fewest stages of all else that keep the tensor core busy."""
    if config.input_staging != "turned":
        return [1]
    roomy = replace(config, patch_stages=2, filter_stages=1 if config.filter_resident else 4)
    return [count for count in _PIECE_STAGES if fits(problem, target, replace(roomy, piece_stages=count))] or [2]


def runs_of_rows(problem: ConvProblem, base: WgmmaConfig) -> Iterator[WgmmaConfig]:
    """`base` with tiles of more joined rows than others have: whole rows of one image of an NCHW y."""
    if problem.y_layout == "nhwc" or base.arithmetic == "split" or problem.q > 256:
        return
    shared = base.num_consumer_warpgroups if base.split == "pixels" else 1
    for joined in range(9, min(problem.p, _MOST_JOINED) + 1):
        config = replace(base, tile_q=problem.q, joined_rows=joined, tile_p=joined * shared)
        if WgmmaGeometry(problem=problem, config=config).wgmma_n > 256:
            return
        if ceil_div(problem.p, joined) > shared - 1:
            yield config


def early_packings(config: WgmmaConfig, problem: ConvProblem) -> list[bool]:
    """Where kernels prepare w or x: early if the filter is small, else their CTAs are in the way of those before."""
    if not prepares(WgmmaGeometry(problem=problem, config=config)):
        return [False]
    early = problem.k * problem.gemm_k * problem.element_bytes <= _SMALL_FILTER
    return [early, not early]
