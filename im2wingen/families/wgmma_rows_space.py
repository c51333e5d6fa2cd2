"""The search space of the wgmma_rows family, and its default config."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, TypeVar

from im2wingen.families.base import Choose
from im2wingen.families.support import ceil_div, is_quick, round_up
from im2wingen.families.wgmma_rows_config import (
    TILE_SLOTS,
    RowOrder,
    SlotOrder,
    WgmmaRowsConfig,
    WgmmaRowsGeometry,
)
from im2wingen.families.wgmma_rows_cost import PACK_KERNEL, demands, packing_cycles
from im2wingen.families.wgmma_rows_rules import RULES
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

T = TypeVar("T")
_SHAPE_FIELDS = ("block_rows", "slot_columns", "slot_order", "block_n", "row_items", "channel_rows", "scaled")
_ITEMS = ((False, False), (True, False), (True, True))  # row_items and channel_rows, which needs them
_SHAPES = 10
_EACH_KIND = 2  # of these at least: with channel_rows, scaled, and without
_HOPELESS = 2.0  # times the least estimate
_STEPS = (1, 2, 3, 4, 6, 8)  # strides of a block or slot that is less than the window
_CHANNELS = (256, 192, 128, 96, 64, 48, 32, 16, 8)
_LONG_TILE = 600.0  # cycles of a tile whose barriers and stores another consumer hides
_SPARE_BLOCKS = 7  # of the ring, beyond those that items hold: transformers write them
_UNIT_ROWS = (2, 1, 4, 8)
_MAX_PACK_ROUNDS = 4
_PACKED_ALONE = 1.5  # times the packing kernel's cycles, that a CTA may take to pack its filters itself
_L2_SIZES = 2  # of x, w and y together, from which on their traffic is DRAM's
# Of the first choice's unit, one a consumer: of fewer, one that is half empty costs more than bursts gain.
_UNIT_TILES = 3
_FEW_ROWS = 4  # of a CTA: they wait for x longer than for anything else
_BEGINNING_ROWS = 50  # of a CTA: up to so many, it counts how soon the ring is full
_LONG_ITEM = 96  # slots; with channel_rows each item costs more, and each CTA more before its first one
_MANY_ROWS = 0.5  # L2 sizes of x, w and y together, from which on a CTA has enough of them
_SHORT_CHANNEL_ROWS = 1.4  # times the estimate where items are shorter or few
_EVEN = 1.05  # and where y is all that takes time
_TURNING = 1.45  # times the estimate, of scaled elements: they take longer to turn
_CRAMPED = 1.4  # times the estimate where two consumers and a spare block don't fit
_COPIED_BYTES = (512, 768, 1024, 256)  # of a channel, by a bulk copy: the longer, the fewer fit staging
_COPIED_CHANNEL_ROWS = (768, 1024, 512, 256)  # with channel_rows, whose items are fewer in staging
_WHOLE_GROUP = 3  # transformers that are a warpgroup with the loading warp, which may hand registers to consumers


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> WgmmaRowsConfig:
    """A config from the search space; its picks are legal together."""
    found = shapes(problem, target)
    config = found[choose(",".join(_SHAPE_FIELDS), list(found))]
    bursts = _streams(config, problem, target) or _is_brief(config, problem, target)
    units = bursts and _suits_units(problem)
    orders: list[RowOrder] = ["units", "strips"] if units else ["strips", "units"]
    config = replace(config, row_order=choose("row_order." + "_".join(orders), orders))

    def fitting(field: str, values: Sequence[T]) -> list[T]:
        return [value for value in values if not _broken(_with(config, problem, field, value), problem, target)]

    stagings = fitting("staged_y", _stagings(config, problem, target))
    config = _with(config, problem, "staged_y", _choose_of(choose, "staged_y", stagings))
    bulk = fitting("bulk_store", _bulk_stores(config, problem, target))
    config = _with(config, problem, "bulk_store", _choose_of(choose, "bulk_store", bulk))

    for field, values in (
        ("item_tiles", _item_tiles(config, problem, target)),
        ("copied_items", _copied_items),
        ("num_consumer_warpgroups", _consumers(config, problem, target)),
        ("multiplying_consumers", _turns),
        ("num_transformer_warps", _transformers),
        ("team_warps", _teams),
        ("raw_stages", partial(_raw_stages, target)),
        ("ring_blocks", partial(_rings, target)),
    ):
        wanted = values(config, problem) if callable(values) else values
        config = _with(config, problem, field, _choose_of(choose, field, fitting(field, wanted)))
    if config.row_order == "units":
        config = replace(
            config,
            unit_rows=_choose_of(choose, "unit_rows", [rows for rows in _UNIT_ROWS if rows == 1 or rows <= problem.p]),
            l2_bursts=choose("l2_bursts", [True, False]),
        )
    config = replace(config, pack_kernel=_choose_of(choose, "pack_kernel", _pack_kernels(config, problem)))
    early = [True, False] if is_quick(problem) else [False, True]
    if not config.pack_kernel:
        return replace(config, programmatic_launch=_choose_of(choose, "programmatic_launch", early))
    config = replace(config, programmatic_launch=_choose_of(choose, "programmatic_launch", [True, False]))
    return replace(config, early_packing=choose("early_packing", early))


def default(problem: ConvProblem, target: Target) -> WgmmaRowsConfig:
    """The first choice of everything: the shape with the least estimated time, and rules of thumb for the rest."""

    def first(name: str, choices: Sequence[T], /) -> T:
        return choices[0]

    return suggest(problem, target, first)


def _choose_of(choose: Choose, name: str, choices: Sequence[T]) -> T:
    """A pick whose choices depend on earlier ones; they go into the name, and a single one is no choice."""
    return choices[0] if len(choices) == 1 else choose(f"{name}.{'_'.join(map(str, choices))}", choices)


def _with(config: WgmmaRowsConfig, problem: ConvProblem, field: str, value: Any) -> WgmmaRowsConfig:
    """The config with another value; until they are chosen, teams are as few and the ring as small as may be."""
    changes: dict[str, Any] = {field: value}
    if field == "num_transformer_warps":
        changes["team_warps"] = value
    if field == "num_consumer_warpgroups":
        changes["multiplying_consumers"] = value
    changed = replace(config, **changes)
    return changed if field == "ring_blocks" else replace(changed, ring_blocks=_least_ring(changed, problem))


def _least_ring(config: WgmmaRowsConfig, problem: ConvProblem) -> int:
    return WgmmaRowsGeometry(problem=problem, config=config).least_ring


def _broken(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> bool:
    return not all(rule.holds(problem, target, config) for rule in RULES)


def _channel_rows_factor(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> float:
    """Channels as rows pay where items are long and many, and DRAM is not all that they wait for."""
    long = WgmmaRowsGeometry(problem=problem, config=replace(config, item_tiles=2)).item_slots >= _LONG_ITEM
    if not (long and problem.compulsory_bytes > _MANY_ROWS * target.l2_bytes):
        return _SHORT_CHANNEL_ROWS
    return _EVEN if _is_dram_bound(config, problem, target) else 1.0


def _is_cramped(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> bool:
    """Whether a second consumer and a spare block don't fit."""
    return _broken(replace(config, num_consumer_warpgroups=2, ring_blocks=config.ring_blocks + 1), problem, target)


def _is_dram_bound(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> bool:
    return demands(WgmmaRowsGeometry(problem=problem, config=config), target).dram_bound


def _streams(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> bool:
    """Whether writing y is most of the time, of long rows or of more than L2 holds."""
    long = _UNIT_ROWS[0] * problem.q > (_UNIT_TILES - 1) * TILE_SLOTS
    large = problem.compulsory_bytes > _L2_SIZES * target.l2_bytes
    return (long or large) and _is_dram_bound(config, problem, target)


def _is_brief(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> bool:
    """Whether a CTA waits for few rows, so that bursts pay, units give it no more, and none is transformed twice."""
    strips = WgmmaRowsGeometry(problem=problem, config=replace(config, row_order="strips"))
    units = WgmmaRowsGeometry(problem=problem, config=replace(config, row_order="units", unit_rows=_UNIT_ROWS[0]))
    rows = strips.cta_rows(target)[0]
    few = strips.halo_blocks == 0 and 1 < rows <= _FEW_ROWS and units.cta_rows(target)[0] <= rows
    wanted = demands(units, target)
    return few and wanted.dram > wanted.tensor


def _suits_units(problem: ConvProblem) -> bool:
    """Runs of an NCHW y end with a unit, and split rows take long to turn."""
    return problem.y_layout == "nhwc" and problem.precision != "fp32"


def _is_long(config: WgmmaRowsConfig, problem: ConvProblem) -> bool:
    return WgmmaRowsGeometry(problem=problem, config=config).products * config.block_n / 2 > _LONG_TILE


@lru_cache(maxsize=64)
def shapes(problem: ConvProblem, target: Target) -> Mapping[str, WgmmaRowsConfig]:
    """Candidates by name, the least estimated time first, with the fewest buffers; empty where none fits."""

    def cycles_of(config: WgmmaRowsConfig) -> float:
        # as if there were enough of everything
        roomy = replace(config, num_consumer_warpgroups=3, num_transformer_warps=4, ring_blocks=config.ring_blocks + 8)
        if _suits_units(problem) and _streams(config, problem, target):
            roomy = replace(roomy, row_order="units", unit_rows=min(_UNIT_ROWS[0], problem.p))
        roomy = replace(roomy, pack_kernel=_pack_kernels(roomy, problem)[0])
        total = demands(WgmmaRowsGeometry(problem=problem, config=roomy), target).total
        total += PACK_KERNEL if roomy.pack_kernel else 0.0
        if config.channel_rows:
            total *= _channel_rows_factor(config, problem, target)
        total *= _TURNING if config.scaled else 1.0
        return total * (_CRAMPED if _is_cramped(config, problem, target) else 1.0)

    legal = [config for config in _all_shapes(problem) if not _broken(config, problem, target)]
    ranked = sorted(((cycles_of(config), i) for i, config in enumerate(legal)))
    promising = [legal[i] for cycles, i in ranked if cycles <= _HOPELESS * ranked[0][0]]
    kept = [
        config
        for kind in dict.fromkeys(map(_kind, promising))
        for config in [one for one in promising if _kind(one) == kind][:_EACH_KIND]
    ]
    others = [config for config in promising if config not in kept][: _SHAPES - len(kept)]
    return {
        "x".join(str(getattr(config, field)) for field in _SHAPE_FIELDS): config
        for config in promising
        if config in kept or config in others
    }


def _kind(config: WgmmaRowsConfig) -> tuple[bool, bool]:
    return config.channel_rows, config.scaled


def has_shapes(problem: ConvProblem, target: Target) -> bool:
    """Whether `shapes` finds any, told sooner."""
    return any(not _broken(config, problem, target) for config in _all_shapes(problem))


def _all_shapes(problem: ConvProblem) -> Iterator[WgmmaRowsConfig]:
    nchw = problem.y_layout == "nchw"
    for block_n in _block_ns(problem.k):
        for block_rows in _parts(problem.r, problem.stride_h, problem.dilation_h):
            for slot_columns in _parts(problem.s, problem.stride_w, problem.dilation_w):
                orders = _slot_orders(slot_columns, problem.stride_w)
                for slot_order, (row_items, channel_rows), scaled in product(orders, _ITEMS, _scaled(problem)):
                    staged = nchw and (problem.element_bytes == 2 or channel_rows)
                    whole_group = problem.precision == "fp32" or channel_rows or scaled
                    transformers = _WHOLE_GROUP if whole_group else 1
                    config = WgmmaRowsConfig(
                        block_rows=block_rows, slot_columns=slot_columns, slot_order=slot_order, block_n=block_n,
                        row_items=row_items, channel_rows=channel_rows, scaled=scaled, staged_y=staged,
                        bulk_store=staged and channel_rows, copied_items=1, item_tiles=1,
                        num_consumer_warpgroups=1, multiplying_consumers=1,
                        num_transformer_warps=transformers, team_warps=transformers,
                        raw_stages=1, ring_blocks=1, row_order="strips", unit_rows=1, l2_bursts=False,
                        pack_kernel=True, programmatic_launch=False, early_packing=False,
                    )  # fmt: skip
                    yield replace(config, ring_blocks=_least_ring(config, problem))


def _scaled(problem: ConvProblem) -> tuple[bool, ...]:
    return (True, False) if problem.precision == "tf32" else (False,)


def _parts(window: int, stride: int, dilation: int) -> list[int]:
    """Sizes of a block or slot: the whole window, or some strides; a row or column of a dilated one."""
    if window > 1 and dilation > 1:
        return [1]
    return [window, *(stride * step for step in _STEPS if stride * step < window)]


def _slot_orders(columns: int, stride: int) -> Sequence[SlotOrder]:
    """Columns first where neighbouring slots share some."""
    if columns == 1:
        return ("rows",)
    return ("columns", "rows") if columns > stride else ("rows", "columns")


def _block_ns(k: int) -> list[int]:
    """Channels of a CTA: all of K, rounded up to groups of 8, 16 or 32 neighbours, or a part of it."""
    whole = {round_up(k, group) for group in (8, 16, 32)}
    parts = {size for size in _CHANNELS if size < k}
    even = {round_up(ceil_div(k, count), 32) for count in range(2, 9)}
    return sorted((size for size in whole | parts | even if size <= _CHANNELS[0]), reverse=True)


def _consumers(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> tuple[int, ...]:
    if _is_dram_bound(config, problem, target):
        return (3, 2, 4, 1)
    if _is_long(config, problem) and config.row_items:
        return (2, 3, 4, 1)
    return (3, 2, 4, 1) if _is_long(config, problem) else (3, 4, 2, 1)


def _item_tiles(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> list[int]:
    """Tiles of an item, none of which lies beyond its row; one where more staging would cost a consumer."""
    if config.channel_rows:
        several = True
    elif config.staged_y:
        several = problem.element_bytes == 2 and not _is_long(config, problem)
    else:
        several = _streams(config, problem, target)
    wanted = (2, 1, 4) if several else (1, 2, 4) if config.staged_y else (1, 2)
    return [tiles for tiles in wanted if not config.row_items or (tiles - 1) * TILE_SLOTS < problem.q]


def _turns(config: WgmmaRowsConfig, problem: ConvProblem) -> list[int]:
    """One consumer at a time where a tile is long, else all."""
    consumers = config.num_consumer_warpgroups
    wanted = (1, consumers, 2) if _is_long(config, problem) else (consumers, 1, 2)
    return [turns for turns in dict.fromkeys(wanted) if consumers % turns == 0]


def _stagings(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> tuple[bool, bool]:
    """Staging first, unless its room is needed for a second consumer or a spare block."""
    cramped = _is_cramped(_with(config, problem, "staged_y", True), problem, target)
    return (False, True) if cramped else (True, False)


def _bulk_stores(config: WgmmaRowsConfig, problem: ConvProblem, target: Target) -> list[bool]:
    """Bulk copies first where 16-bit elements of a large y are most of the time; else consumers, who store sooner."""
    if not config.staged_y:
        return [False]
    large = problem.element_bytes == 2 and problem.compulsory_bytes > _L2_SIZES * target.l2_bytes
    first = large and _is_dram_bound(config, problem, target)
    return [first, not first]


def _copied_items(config: WgmmaRowsConfig, problem: ConvProblem) -> list[int]:
    if not config.bulk_store:
        return [1]
    item = WgmmaRowsGeometry(problem=problem, config=config).item_slots * problem.element_bytes
    sizes = _COPIED_CHANNEL_ROWS if config.channel_rows else _COPIED_BYTES
    return list(dict.fromkeys([*(max(1, size // item) for size in sizes), 1]))


def _transformers(config: WgmmaRowsConfig, problem: ConvProblem) -> tuple[int, ...]:
    if problem.precision == "fp32":
        # two consumers beside so many have registers for both sets of sums
        several = config.row_items and config.num_consumer_warpgroups == 2
        many = several and WgmmaRowsGeometry(problem=problem, config=config).halo_blocks > 0
        return (_WHOLE_GROUP + 4, _WHOLE_GROUP, 4, 2, 6, 1) if many else (_WHOLE_GROUP, _WHOLE_GROUP + 4, 4, 2, 6, 1)
    if config.channel_rows:
        return (_WHOLE_GROUP, _WHOLE_GROUP + 4, 4, 2, 6, 1)
    if config.staged_y:
        return (_WHOLE_GROUP, 4, 2, 6, 1)
    return (4, 3, 2, 6, 1)


def _teams(config: WgmmaRowsConfig, problem: ConvProblem) -> list[int]:
    """All transformers together where raw rows and ring are large or units short, else each alone; or in pairs."""
    warps = config.num_transformer_warps
    together = problem.element_bytes == 4 and (config.row_items or config.row_order == "units")
    wanted = (warps, 1, 2) if together else (1, 2, warps)
    return [team for team in dict.fromkeys(wanted) if warps % team == 0]


def _raw_stages(target: Target, config: WgmmaRowsConfig, problem: ConvProblem) -> tuple[int, ...]:
    """Two of each team; one where long tiles that are staged want a block rather, and rows are many."""
    if problem.precision != "fp32" or not config.staged_y or config.row_items or not _is_long(config, problem):
        return (2, 1, 3)
    rows, _ = WgmmaRowsGeometry(problem=problem, config=config).cta_rows(target)
    return (1, 2, 3) if rows > _BEGINNING_ROWS else (2, 1, 3)


def _pack_kernels(config: WgmmaRowsConfig, problem: ConvProblem) -> list[bool]:
    """Whether a kernel packs the filters; few of them are sooner packed by each CTA."""
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    if geometry.split or geometry.pack_rounds > _MAX_PACK_ROUNDS:
        return [True]
    return [False, True] if packing_cycles(geometry) <= _PACKED_ALONE * PACK_KERNEL else [True, False]


def _rings(target: Target, config: WgmmaRowsConfig, problem: ConvProblem) -> list[int]:
    """Blocks that items and some spare ones hold, no more than a CTA has; and fewer, and more."""
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    held = ceil_div(config.num_consumer_warpgroups * config.item_slots, geometry.row_slots) + geometry.halo_blocks
    rows, segments = geometry.cta_rows(target)
    least = _least_ring(config, problem)
    wanted = max(least, min(held + _SPARE_BLOCKS, rows + segments * geometry.halo_blocks))
    sizes = [*range(wanted, least, -1), wanted + 4, least]
    return list(dict.fromkeys(sizes))
