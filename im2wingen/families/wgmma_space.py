"""The search space of the wgmma family, and its default config."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, product
from typing import TypeVar

from im2wingen.families.base import Arithmetic, Choose
from im2wingen.families.wgmma_axes import flattened
from im2wingen.families.wgmma_cluster_rules import CLUSTERS
from im2wingen.families.wgmma_config import CHANNELS_M, InputStaging, Order, Split, WgmmaConfig
from im2wingen.families.wgmma_cost import estimated_cycles
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_landing import SPLIT_CHANNELS
from im2wingen.families.wgmma_rules import ROW_BYTES, RULES, other_registers, stays_resident
from im2wingen.families.wgmma_split_rules import arithmetics
from im2wingen.families.wgmma_split_space import (
    fits,
    least_filter_stages,
    likely,
    may_be_resident,
    promotions,
    split_stagings,
    split_store_groups,
    staggers,
)
from im2wingen.families.wgmma_tilings import tiled
from im2wingen.families.wgmma_ways import early_packings, piece_stages, runs_of_rows, ways
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
_FINALISTS = 40  # shapes of each kind whose stages are looked at
_SHAPES_OF_A_KIND = 12  # candidates for the fields of _SHAPE_FIELDS, of each kind
_HOPELESS = 2.0  # times the least estimate
_SHAPE_FIELDS = (
    "mapping", "split", "num_consumer_warpgroups", "tile_n", "tile_p", "tile_q", "joined_rows", "block_k", "cluster_k",
    "filter_resident", "input_staging", "num_producer_warpgroups", "stored_by_producers", "bulk_store",
)  # fmt: skip
_SPLITS: tuple[tuple[Split, int], ...] = (
    ("filters", 2), ("pixels", 2), ("tiles", 2), ("pixels", 1), ("filters", 3), ("pixels", 3),
)  # fmt: skip
_MANY_TAPS = 4  # of a patch of split operands: it is multiplied for longer than the next one takes to land and be split
_MAX_PATCH_STAGES, _MAX_FILTER_STAGES = 6, 12
_MOST_OF_ONE_TAP = 10  # patch stages and filter stages, which such a patch needs as many of


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> WgmmaConfig:
    """A config from the search space; its picks are legal together. Promotion costs time and is not searched."""
    problem = flattened(problem)
    found = shapes(problem, target)
    config = found[choose(",".join(_shape_fields(problem)), list(found))]
    producers = _choose_of(choose, "num_producer_warpgroups", _producers(config, problem, target))
    config = replace(config, num_producer_warpgroups=producers)
    config = replace(config, piece_stages=_choose_of(choose, "piece_stages", piece_stages(config, problem, target)))
    config = replace(config, store_groups=_choose_of(choose, "store_groups", _store_groups(config, problem, target)))
    config = replace(config, staggered=_choose_of(choose, "staggered", staggers(config, problem, target)))
    config = replace(config, promotion_taps=_choose_of(choose, "promotion_taps", promotions(config, problem, target)))
    config = replace(config, patch_stages=_choose_of(choose, "patch_stages", _patch_stages(config, problem, target)))
    config = replace(config, filter_stages=_choose_of(choose, "filter_stages", _filter_stages(config, problem, target)))
    return replace(
        config,
        ordered=_choose_of(choose, "ordered", _orders(config, problem)),
        l2_promotion_bytes=choose("l2_promotion_bytes", [128, 256, 64]),
        programmatic_launch=choose("programmatic_launch", [True, False]),
        early_packing=_choose_of(choose, "early_packing", early_packings(config, problem)),
        tile_order=_choose_of(choose, "tile_order", _tile_orders(config, problem)),
    )


def default(problem: ConvProblem, target: Target) -> WgmmaConfig:
    """The first choice of everything: the shape with the least estimated time, and as many stages as fit."""

    def first(name: str, choices: Sequence[T], /) -> T:
        return choices[0]

    return suggest(problem, target, first)


def _choose_of(choose: Choose, name: str, choices: Sequence[T]) -> T:
    """A pick whose choices depend on earlier ones; they go into the name, and a single one is no choice."""
    return choices[0] if len(choices) == 1 else choose(f"{name}.{'_'.join(map(str, choices))}", choices)


@lru_cache(maxsize=64)
def shapes(problem: ConvProblem, target: Target) -> Mapping[str, WgmmaConfig]:
    """Candidates by name, the least estimated time first; empty where no patch fits shared memory."""
    problem = flattened(problem)

    def cycles_of(config: WgmmaConfig, *, finished: bool = False) -> float:
        if not finished:  # its filter stages are not those it will have
            config = replace(config, filter_stages=_MAX_FILTER_STAGES)
        return estimated_cycles(WgmmaGeometry(problem=problem, config=config), target)

    legal = [config for config in _all_shapes(problem, target) if _may_fit(problem, target, config)]
    # stages take the longest to find: only for what could be among the best if two patches fit
    legal.sort(key=lambda config: cycles_of(likely(config, problem)))
    ranked: list[tuple[float, str, WgmmaConfig]] = []
    finalists: Counter[tuple[str, ...]] = Counter()
    for config in legal:
        kind = (*_kind(config), str(config.num_consumer_warpgroups if config.arithmetic != "split" else 0))
        if finalists[kind] < _FINALISTS:
            finished = [one for one in _finished(config, problem, target) if not _broken(problem, target, one)]
            finalists[kind] += bool(finished)
            ranked += [(cycles_of(one, finished=True), one.digest(), one) for one in finished]
    ranked.sort(key=lambda entry: entry[:2])
    found: dict[str, WgmmaConfig] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    for cycles, _, config in ranked:
        if cycles > _HOPELESS * ranked[0][0]:
            break
        kind = _kind(config)
        counts[kind] += 1
        if counts[kind] <= _SHAPES_OF_A_KIND:
            found["x".join(str(getattr(config, field)) for field in _shape_fields(problem))] = config
    return found


def _finished(config: WgmmaConfig, problem: ConvProblem, target: Target) -> Iterator[WgmmaConfig]:
    """With stores and stages, in all ways that are allowed."""
    for way in ways(config, problem):
        if way != config and _broken(problem, target, way):
            continue
        one = replace(way, piece_stages=piece_stages(way, problem, target)[0])
        stored = replace(one, store_groups=_store_groups(one, problem, target)[0])
        stored = replace(stored, staggered=staggers(stored, problem, target)[0])
        stored = replace(stored, promotion_taps=promotions(stored, problem, target)[0])
        loaded = replace(stored, patch_stages=_patch_stages(stored, problem, target)[0])
        yield replace(loaded, filter_stages=_filter_stages(loaded, problem, target)[0])


def _shape_fields(problem: ConvProblem) -> list[str]:
    """For split operands producers are chosen after the shape."""
    names = [name for name in _SHAPE_FIELDS if problem.precision != "fp32" or name != "num_producer_warpgroups"]
    return ["arithmetic", *names] if len(arithmetics(problem)) > 1 else names


def _kind(config: WgmmaConfig) -> tuple[str, ...]:
    roles = (config.num_producer_warpgroups, config.cluster_k > 1, config.stored_by_producers, config.bulk_store)
    return config.arithmetic, config.mapping, config.split, config.input_staging, *map(str, roles)


def has_shapes(problem: ConvProblem, target: Target) -> bool:
    """Whether `shapes` finds any, told sooner."""
    problem = flattened(problem)
    return any(not _broken(problem, target, config) for config in _all_shapes(problem, target))


def _all_shapes(problem: ConvProblem, target: Target) -> Iterator[WgmmaConfig]:
    """With the fewest stages and the smallest stores, so that what is legal at all is found."""
    for arithmetic in arithmetics(problem):
        yield from _shapes_of(problem, target, arithmetic)


def _shapes_of(problem: ConvProblem, target: Target, arithmetic: Arithmetic) -> Iterator[WgmmaConfig]:
    stagings: list[InputStaging] = ["tma"]
    element_bytes = 2 if arithmetic == "scaled" else problem.element_bytes
    block_k_choices = [row_bytes // element_bytes for row_bytes in ROW_BYTES]
    if arithmetic == "split":
        block_k_choices = [SPLIT_CHANNELS]
        stagings = split_stagings(problem, target)
    for (split, consumers), block_k, resident, staging in product(_SPLITS, block_k_choices, (False, True), stagings):
        if arithmetic == "split" and (split == "tiles" or (resident and not may_be_resident(problem, target))):
            continue
        base = WgmmaConfig(
            arithmetic=arithmetic, promotion_taps=1, mapping="rows", split=split, num_consumer_warpgroups=consumers,
            input_staging=staging, num_producer_warpgroups=1, staggered=False,
            tile_n=1, tile_p=1, tile_q=1, joined_rows=1, block_k=block_k, cluster_k=1, patch_stages=1,
            filter_resident=resident, filter_stages=1 if resident else 2, store_groups=1, l2_promotion_bytes=128,
            staging_over_buffers=False, stored_by_producers=False, bulk_store=False, piece_stages=1, promotion=False,
            ordered=split == "tiles", programmatic_launch=False, early_packing=False, tile_order="linear",
        )  # fmt: skip
        for config in chain(tiled(problem, base), runs_of_rows(problem, base)):
            tiles = WgmmaGeometry(problem=problem, config=config).tiles
            if tiles <= target.sm_count and arithmetic == "split":
                yield replace(config, staging_over_buffers=staging == "transposed")
            elif tiles <= target.sm_count:
                yield replace(config, staging_over_buffers=split != "tiles")
                yield from _clusters(config, tiles, target)
            else:
                yield config


def _clusters(config: WgmmaConfig, tiles: int, target: Target) -> Iterator[WgmmaConfig]:
    """The config with its tiles shared, where they leave half of the device idle or more."""
    if not config.filter_resident and config.input_staging == "tma" and config.arithmetic == "direct":
        yield from (replace(config, cluster_k=size) for size in CLUSTERS[1:] if tiles * size <= target.sm_count)


def _may_fit(problem: ConvProblem, target: Target, config: WgmmaConfig) -> bool:
    """Whether a shape obeys the rules that most of them break, told soon."""
    if config.block_n - CHANNELS_M >= problem.k:
        return False
    geometry = WgmmaGeometry(problem=problem, config=config)
    if geometry.wgmma_n > 256 or max(geometry.patch_h, geometry.patch_w) > 256:
        return False
    if config.mapping == "block" and geometry.wgmma_n % geometry.columns_step(geometry.wgmma_n):
        return False
    if geometry.num_accumulators + other_registers(config) > config.consumer_registers:
        return False
    if config.split == "pixels" and config.subtiles % config.num_consumer_warpgroups:
        return False
    if config.filter_resident and not stays_resident(geometry, target):
        return False
    return fits(problem, target, _smallest(geometry))


def _broken(problem: ConvProblem, target: Target, config: WgmmaConfig) -> bool:
    smallest = _smallest(WgmmaGeometry(problem=problem, config=config))
    return not all(rule.holds(problem, target, smallest) for rule in RULES)


def _smallest(geometry: WgmmaGeometry) -> WgmmaConfig:
    """The config with the fewest stages and the stores that take the least shared memory."""
    config = geometry.config
    groups = 2 if config.tile_n > 8 else config.store_groups
    if config.cluster_k > 1:
        groups = geometry.share_groups
    elif geometry.runs or not geometry.exact or config.arithmetic == "split":
        groups = geometry.groups_n
    return replace(config, patch_stages=geometry.least_patch_stages, store_groups=groups)


def _store_groups(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """The largest that leaves room for stages of patches and filters, and the next smaller."""
    geometry = WgmmaGeometry(problem=problem, config=config)
    groups = geometry.groups_n
    if config.cluster_k > 1:
        return [geometry.share_groups]
    if config.bulk_store:
        return [groups]
    if config.arithmetic == "split":
        return split_store_groups(config, problem, target)
    if geometry.runs:
        rows = config.own_subtiles
        whole = [groups * g for g in range(rows, 0, -1) if rows % g == 0]
    elif not geometry.exact:
        return [groups]
    else:
        whole = [g for g in range(groups, 0, -1) if groups % g == 0 and g * 8 % config.tile_n == 0]
    filters = [1] if config.filter_resident else [4, 3, 2]
    for patches, filter_stages in [(p, f) for p in range(2, geometry.least_patch_stages - 1, -1) for f in filters]:
        roomy = replace(config, patch_stages=patches, filter_stages=filter_stages)
        if fitting := [g for g in whole if fits(problem, target, replace(roomy, store_groups=g))]:
            return fitting[:2]
    return whole[-1:]


def _producers(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """Of split operands, that are split by two warps or six; of all else a shape has its own."""
    more = replace(config, num_producer_warpgroups=2)
    if config.arithmetic != "split" or _broken(problem, target, more):
        return [config.num_producer_warpgroups]
    # measured: six warps pay where they transpose, or for many taps
    return [2, 1] if config.input_staging == "transposed" or problem.r * problem.s > 9 else [1, 2]


def _orders(config: WgmmaConfig, problem: ConvProblem) -> list[bool]:
    if config.split != "tiles":
        return [False]
    return [True, False] if WgmmaGeometry(problem=problem, config=config).taken_by_turns else [True]


def _tile_orders(config: WgmmaConfig, problem: ConvProblem) -> list[Order]:
    one = config.filter_resident and WgmmaGeometry(problem=problem, config=config).tiles_k > 1
    return ["linear"] if one else ["linear", "zigzag"]


def _patch_stages(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """As many as fit beside filter stages, most useful first: two patches of many taps, or many of few taps."""
    geometry = WgmmaGeometry(problem=problem, config=config)
    taps = problem.r * problem.s // geometry.planes  # of a patch
    one_tap = taps == 1 and not config.filter_resident
    most = _MOST_OF_ONE_TAP if one_tap else _MAX_PATCH_STAGES
    least, useful = geometry.least_patch_stages, 2 if taps > 4 else 4 if taps > 1 else most
    if config.arithmetic == "split":
        useful = 2 if min(geometry.plane_taps) >= _MANY_TAPS else 3  # one is split while the next one lands
    fitting = []
    for stages in range(least, most + 1):
        beside = 1 if config.filter_resident else max(3, min(stages * taps, most))
        if config.arithmetic == "split" and not config.filter_resident:
            beside = config.promotion_taps + 3
        if not fits(problem, target, replace(config, patch_stages=stages, filter_stages=beside)):
            break
        fitting.append(stages)
    fitting = fitting or [least]
    if config.split == "tiles":
        return sorted(fitting, reverse=True)[:3]
    step = max(1, len(fitting) // 4)  # deep rings differ little from the next
    return sorted(fitting, key=lambda stages: abs(stages - useful))[::step][:3]


def _filter_stages(config: WgmmaConfig, problem: ConvProblem, target: Target) -> list[int]:
    """What is left of shared memory, and less."""
    if config.filter_resident:
        return [1]
    least = least_filter_stages(config)
    downwards = range(_MAX_FILTER_STAGES, least, -1)
    most = next((count for count in downwards if fits(problem, target, replace(config, filter_stages=count))), least)
    return sorted({most, max(least, most * 2 // 3), max(least, most // 2)}, reverse=True)
