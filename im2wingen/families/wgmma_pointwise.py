"""The wgmma_pointwise family: 1x1 convolutions of an NCHW x on Hopper's tensor cores; sm_90a."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import TypeVar

from im2wingen.families.base import AnyTarget, Choose, Family, Launch, Plan, Rule, TensorMap
from im2wingen.families.support import ceil_div, not_for_hopper, problem_values, round_up
from im2wingen.families.wgmma_pointwise_config import (
    ROW_BYTES,
    WgmmaPointwiseConfig,
    WgmmaPointwiseGeometry,
    batch_lines,
    is_flat,
    rows_merged,
)
from im2wingen.families.wgmma_pointwise_cost import cta_cycles, estimated_cycles
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
_PRECISIONS = ("fp16", "bf16", "tf32")
_UNIT_BYTES = 16  # of TMA's strides
_BLOCKS_N = (256, 224, 192, 160, 128, 96, 64)
_MAX_STAGES = 12
_MAX_TILES = 2**30
_LEAST_REGISTERS = 32  # of a thread, beside the sums of a wgmma; ptxas (CUDA 13.0) asks for 30 or more
_HOPELESS = 2.5  # times the least estimate
_SHAPE_FIELDS = "num_consumer_warpgroups,subtiles,block_n,filter_resident"


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    """The sentence why the family can't run the problem, or None."""
    if (reason := not_for_hopper(problem, target, _PRECISIONS)) is not None:
        return reason
    if problem.x_layout != "nchw":
        return "needs an NCHW x"
    if problem.r * problem.s != 1 or problem.has_padding or problem.groups != 1:
        return "needs a 1x1 filter without padding and groups"
    unit = _UNIT_BYTES // problem.element_bytes
    if problem.c % unit:
        return f"C must be a multiple of {unit} (16 bytes, the step of TMA's strides)"
    if is_flat(problem):
        if problem.h * problem.w % unit:
            return f"H * W must be a multiple of {unit} (16 bytes, the step of TMA's strides)"
    elif problem.stride_w > 2:
        return "stride_w must be 1 or 2"
    elif problem.h % rows_merged(problem) or problem.stride_h % rows_merged(problem):
        return (
            f"H and stride_h must be multiples of {rows_merged(problem)} (16 bytes of rows, the step of TMA's strides)"
        )
    if max(problem.c * problem.h * problem.w, problem.k * problem.p * problem.q) * problem.n >= 2**38:
        return "an array has 2^38 elements or more"
    if max(problem.n * problem.h * problem.w, 16 * problem.c, 16 * problem.k) >= 2**30:
        return "the batch has 2^30 pixels, or a pixel 2^26 channels, or more"
    if batch_lines(problem) * ceil_div(problem.k, max(_BLOCKS_N)) >= _MAX_TILES:
        return "y has 2^30 tiles or more"
    return None


def _rule(sentence: str, holds: Callable[[WgmmaPointwiseGeometry, Target], bool]) -> Rule:
    return Rule(
        sentence=sentence,
        holds=lambda problem, target, config: holds(WgmmaPointwiseGeometry(problem=problem, config=config), target),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        sentence="num_consumer_warpgroups must be 2 or 3, block_n a multiple of 8 up to 256, below K + 8",
        holds=lambda problem, target, config: (
            config.num_consumer_warpgroups in (2, 3)
            and config.block_n % 8 == 0
            and config.block_n <= min(256, round_up(problem.k, 8))
        ),
    ),
    _rule("the sums and the pixels of a stage must fit a consumer's registers",
          lambda g, t: g.registers <= g.config.consumer_registers),
    _rule("the sums of one wgmma must fit the registers at the launch",
          lambda g, t: g.config.block_n // 2 + _LEAST_REGISTERS <= t.regs_per_sm // g.config.threads),
    _rule("y must have fewer than 2^30 tiles", lambda g, t: g.tiles < _MAX_TILES),
    _rule("a warp's lanes must load the tile's lines and its filters", lambda g, t: g.tile_lines < 32),
    _rule("the stages must hold a tile's channels of x, where it has several blocks of output channels",
          lambda g, t: g.tile_blocks == 1 or g.config.stages >= g.chunks),
    _rule("there must be two stages or more, that fit shared memory beside resident filters",
          lambda g, t: g.config.stages > 1 and g.smem_bytes <= t.smem_per_block_bytes),
)  # fmt: skip


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> WgmmaPointwiseConfig:
    found = _shapes(problem, target)
    config = found[choose(_SHAPE_FIELDS, list(found))]
    most = config.stages
    stages = sorted({most, max(2, most * 2 // 3), max(2, most // 2)}, reverse=True)
    if len(stages) > 1:
        config = replace(config, stages=choose(f"stages.{'_'.join(map(str, stages))}", stages))
    return replace(config, programmatic_launch=choose("programmatic_launch", [True, False]))


def default(problem: ConvProblem, target: Target) -> WgmmaPointwiseConfig:
    """The shape with the least estimated time, and as many stages as fit."""

    def first(name: str, choices: Sequence[T], /) -> T:
        return choices[0]

    return suggest(problem, target, first)


@lru_cache(maxsize=64)
def _shapes(problem: ConvProblem, target: Target) -> dict[str, WgmmaPointwiseConfig]:
    """Candidates by name, the least estimated time first, each with as many stages as fit."""
    ranked = sorted(
        (estimated_cycles(WgmmaPointwiseGeometry(problem=problem, config=config), target), config.digest(), config)
        for config in _all_shapes(problem, target)
    )
    return {
        "x".join(str(getattr(config, field)) for field in _SHAPE_FIELDS.split(",")): config
        for cycles, _, config in ranked
        if cycles <= _HOPELESS * ranked[0][0]
    }


def _all_shapes(problem: ConvProblem, target: Target) -> Iterator[WgmmaPointwiseConfig]:
    widest = round_up(problem.k, 8)
    blocks = sorted({min(widest, block) for block in _BLOCKS_N})
    for consumers, subtiles, block_n, resident in product((2, 3), (1, 2), blocks, (False, True)):
        shape = WgmmaPointwiseConfig(
            num_consumer_warpgroups=consumers, subtiles=subtiles, block_n=block_n, stages=2, filter_resident=resident,
            programmatic_launch=True,
        )  # fmt: skip
        roomy = [replace(shape, stages=stages) for stages in range(_MAX_STAGES, 1, -1)]
        legal = (one for one in roomy if all(rule.holds(problem, target, one) for rule in RULES))
        yield from (one for one in [next(legal, None)] if one is not None)


def plan(problem: ConvProblem, target: Target, config: WgmmaPointwiseConfig) -> Plan:
    geometry = WgmmaPointwiseGeometry(problem=problem, config=config)
    ctas = geometry.ctas(target)
    busy, idle = cta_cycles(geometry, target)
    filter_loads = ctas * geometry.blocks_k if config.filter_resident else geometry.tiles
    launch = Launch(
        template="wgmma_pointwise",
        values={
            **problem_values(problem),
            "BF16": problem.precision == "bf16",
            "ITEM_SLOTS": config.block_n,
            "SUBTILES": config.subtiles,
            "CONSUMERS": config.num_consumer_warpgroups,
            "STAGES": config.stages,
            "ROWS_MERGED": rows_merged(problem),
            "FILTER_RESIDENT": config.filter_resident,
            "PROGRAMMATIC_LAUNCH": config.programmatic_launch,
        },
        grid=(ctas, 1, 1), block=config.threads, smem_bytes=geometry.smem_bytes,
        arguments=((_input_map(geometry),), (_filter_map(geometry),), "bias", "y"),
        programmatic=config.programmatic_launch,
        pipe="mma", busy_cycles=busy, idle_cycles=idle,
        flops=2 * geometry.tiles * geometry.tile_products,
        l2_bytes=geometry.chunks * (geometry.tiles * geometry.input_bytes + filter_loads * geometry.filter_bytes)
        + problem.gemm_m * problem.k * problem.y_element_bytes,
    )  # fmt: skip
    return Plan(launches=(launch,))


def _input_map(geometry: WgmmaPointwiseGeometry) -> TensorMap:
    """The (W, H, C, N) of x with its merged rows, or its (H * W, 1, C, N); a box is a line of a stage's channels."""
    problem = geometry.problem
    merged = rows_merged(problem)
    columns, rows = (problem.h * problem.w, 1) if is_flat(problem) else (problem.w * merged, problem.h // merged)
    row, channel = columns * problem.element_bytes, problem.h * problem.w * problem.element_bytes
    return TensorMap(
        array="x", element=problem.precision, dims=(columns, rows, problem.c, problem.n),
        strides_bytes=(row, channel, problem.c * channel), box=(geometry.line, 1, geometry.line, 1),
        swizzle_bytes=ROW_BYTES, l2_promotion_bytes=128,
    )  # fmt: skip


def _filter_map(geometry: WgmmaPointwiseGeometry) -> TensorMap:
    """The (C, 1, K) of w."""
    problem = geometry.problem
    filter_bytes = problem.c * problem.element_bytes
    return TensorMap(
        array="w", element=problem.precision, dims=(problem.c, 1, problem.k),
        strides_bytes=(filter_bytes, filter_bytes), box=(geometry.line, 1, geometry.config.block_n),
        swizzle_bytes=ROW_BYTES, l2_promotion_bytes=256,
    )  # fmt: skip


WGMMA_POINTWISE = Family(
    name="wgmma_pointwise",
    cores="tensor",
    config_type=WgmmaPointwiseConfig,
    templates=("wgmma_pointwise",),
    archs=("sm_90a",),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
