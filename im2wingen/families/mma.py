"""The mma family: fp16, bf16, tf32, split fp32 and fp64 on tensor cores through mma.sync, sm_80 and later."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

from im2wingen.families.base import Config, Family, Launch, Plan
from im2wingen.families.climb import climb, preferring
from im2wingen.families.mma_choices import (
    LARGE_TILES,
    SMALL_TILES,
    copy_choices,
    orders,
    patch_k_choices,
    promote_choices,
    shape_choices,
    splits,
    warp_columns,
)
from im2wingen.families.mma_config import MmaConfig, MmaGeometry, Staging, padded_channels, run_channels
from im2wingen.families.mma_cost import priced, staging_registers, thread_registers
from im2wingen.families.mma_rules import RULES, launches_early, register_limit, unsupported
from im2wingen.families.mma_space import suggest
from im2wingen.families.occupancy import resident_ctas, sm_cycles
from im2wingen.families.support import (
    EARLY_CYCLES,
    early,
    is_quick,
    pack_filter,
    problem_values,
    unit_elements,
    window_transform,
)
from im2wingen.families.tiles import pixel_tiles
from im2wingen.problem import ConvProblem
from im2wingen.target import PRESETS, Target

_CLIMBS = 4  # starts of the search for the default
_SAVED, _SPILLED = 16, 1.3  # registers saved without harm, and the price that the default pays for more
_SPLIT_SPILLED = 4.0  # the same of split numbers, of which the compiler moves many about
_COPIED_BYTES = 16  # a cycle and SM, by kernels that only copy
_PASS = 3000.0  # cycles of such a kernel, besides its bytes


@lru_cache(maxsize=256)
def default(problem: ConvProblem, target: Target) -> MmaConfig:
    """The config with the least estimated time: the best of a few tiles and warps, bettered choice by choice."""

    quick = is_quick(problem) and launches_early(target)

    def rank(config: Config) -> tuple[float, str]:
        assert isinstance(config, MmaConfig)
        launches = plan(problem, target, config).launches
        cycles = sum(_cycles(launch, target) for launch in launches)
        wanted = thread_registers(problem, config)
        wanted += staging_registers(problem, config)
        spills = wanted - _SAVED > register_limit(target, config)
        # the model sees no difference in spread copies, or here in an early launch: it pays beside quick packing
        early_start = quick and len(launches) > 1 and config.staging != "tap"
        extras = (config.programmatic_launch != early_start) + config.spread_copies
        price = _SPLIT_SPILLED if splits(problem) else _SPILLED
        return cycles * (price if spills else 1.0), f"{extras} {config.digest()}"

    starts = [config for config in _starts(problem, target) if not MMA.broken_rules(problem, target, config)]
    if not starts:
        return _small(problem, target)
    best_of_tile = {config.tile: config for config in sorted(starts, key=rank, reverse=True)}
    best = sorted(best_of_tile.values(), key=rank)[:_CLIMBS]
    return min((climb(MMA, problem, target, config, rank) for config in best), key=rank)


def _cycles(launch: Launch, target: Target) -> float:
    """Estimated cycles of the whole launch; those that move memory alone do it at the speed of L2."""
    if not launch.busy_cycles:
        return _PASS + launch.l2_bytes / (_COPIED_BYTES * target.sm_count)
    resident = resident_ctas(launch, target)
    return sm_cycles(launch, target, resident, busy=launch.busy_cycles, idle=launch.idle_cycles)


def _starts(problem: ConvProblem, target: Target) -> list[MmaConfig]:
    """Every staging, order and layout of warps with the best tiles of each size."""
    unit = unit_elements(problem)
    usual = {"patch_k": 8 * unit, "block_k": 8 * unit, "num_stages": 3, "fragment_stages": 2, "ctas_per_sm": 2}
    others: list[Staging] = ["tap", "explicit"]
    tiles = pixel_tiles(problem, sizes=SMALL_TILES + LARGE_TILES, per_size=3)
    configs: dict[MmaConfig, None] = {}
    for way, columns, tile, rows in product([*orders(problem), *others], warp_columns(problem), tiles, (2, 4)):
        wanted: dict[str, object] = usual | {
            "staging": way if way in others else "window", "window_order": way, "warps_n,warp_n": columns,
            "tile_n,tile_p,tile_q": str(tile), "warps_m": rows,
        }  # fmt: skip
        configs[suggest(problem, target, preferring(wanted))] = None
    return list(configs)


def _small(problem: ConvProblem, target: Target) -> MmaConfig:
    """The first legal one of a short list, from large tiles to the smallest."""
    unit = unit_elements(problem)
    shape = shape_choices(problem, target)[0]
    order = orders(problem)[-1]
    channels = padded_channels(problem, order)
    patch_k = channels if order != "row" or channels <= 8 * unit else patch_k_choices(problem)[0]
    tiles = pixel_tiles(problem, sizes=((1, 32), *SMALL_TILES), per_size=2)
    stagings: tuple[Staging, ...] = ("window", "tap")
    for staging, tile, stages in product(stagings, sorted(tiles, key=lambda tile: -tile.pixels), (2, 1)):
        config = MmaConfig(
            staging=staging,
            window_order=order if staging == "window" else "row",
            tile_n=tile.n,
            tile_p=tile.p,
            tile_q=tile.q,
            warps_m=2 if tile.pixels > 32 else 1,
            warps_n=1,
            warps_k=1,
            warp_n=32 if problem.k > 16 else 16,
            patch_k=patch_k if staging == "window" else padded_channels(problem, "row"),
            block_k=max(2 * unit, int(shape.partition("k")[2])),
            mma_shape=shape,
            promote_k=promote_choices(problem)[-1],
            copy_bytes=copy_choices(problem, order if staging == "window" else "row")[0],
            num_stages=stages,
            fragment_stages=1,
            pad_rows=False,
            ctas_per_sm=1,
            spread_copies=False,
            programmatic_launch=False,
            tile_order="linear",
            fragment_order="linear",
        )
        if not MMA.broken_rules(problem, target, config):
            return config
    raise AssertionError(f"no default config for {problem.key} on {target.arch}")


def plan(problem: ConvProblem, target: Target, config: MmaConfig) -> Plan:
    geometry = MmaGeometry(problem=problem, config=config)
    launches: list[Launch] = []
    workspace: dict[str, int] = {}
    filter_name, source_name = "w", "x"
    if not problem.filter_is_krsc or config.window_order != "row" or geometry.channels != problem.c:
        channels = run_channels(problem) if geometry.run_order else geometry.channels
        launch, size = pack_filter(problem, order=config.window_order, channels=channels)
        launches.append(early(launch) if config.programmatic_launch else launch)
        workspace["packed"], filter_name = size, "packed"
    if config.staging == "explicit":
        launch, size = window_transform(problem, channels_last=True, column_pitch=geometry.channels)
        launches.append(launch)
        workspace["window"], source_name = size, "window"
    iterations = geometry.chunks * geometry.chunk_slices
    element = problem.element_bytes
    convolution = Launch(
        template="mma",
        values={
            **problem_values(problem),
            "STAGING": config.staging.upper(),
            "ORDER": config.window_order.upper(),
            "RUN_CHANNELS": run_channels(problem),
            "TF32": problem.precision == "tf32",
            "SPLIT": splits(problem),
            "MMA_M": config.mma_m,
            "MMA_K": config.mma_k,
            "PROMOTE_K": config.promote_k,
            "CHANNELS": geometry.channels,
            "TILE_N": config.tile_n,
            "TILE_P": config.tile_p,
            "TILE_Q": config.tile_q,
            "WARPS_M": config.warps_m,
            "WARPS_N": config.warps_n,
            "WARPS_K": config.warps_k,
            "WARP_M": config.warp_m,
            "WARP_N": config.warp_n,
            "PATCH_K": config.patch_k,
            "BLOCK_K": config.block_k,
            "COPY_BYTES": config.copy_bytes,
            "NUM_STAGES": config.num_stages,
            "FRAGMENT_STAGES": config.fragment_stages,
            "PAD_ROWS": config.pad_rows,
            "SPREAD_COPIES": config.spread_copies,
            "CTAS_PER_SM": config.ctas_per_sm,
            "PROGRAMMATIC_LAUNCH": config.programmatic_launch,
            "TILE_ORDER_ZIGZAG": config.tile_order == "zigzag",
            "FRAGMENT_ORDER_ZIGZAG": config.fragment_order == "zigzag",
        },
        grid=(geometry.ctas, 1, 1),
        block=config.threads,
        smem_bytes=geometry.smem_bytes,
        arguments=(source_name, filter_name, "bias", "y", "x", "w"),
        programmatic=config.programmatic_launch,
        pipe="mma",
        flops=2 * geometry.ctas * config.block_m * config.block_n * iterations * config.block_k,
        l2_bytes=geometry.ctas
        * element
        * (
            geometry.staged_elements
            + config.block_n * iterations * config.block_k
            + config.tile.pixels * config.block_n
        ),
    )
    convolution = priced(convolution, target, registers=thread_registers(problem, config))
    if launches and config.programmatic_launch:
        convolution = replace(convolution, hidden_cycles=convolution.hidden_cycles + EARLY_CYCLES)
    launches.append(convolution)
    return Plan(
        launches=tuple(launches), workspace=workspace, arithmetic="split" if splits(problem) else "direct"
    )  # fmt: skip


MMA = Family(
    name="mma",
    cores="tensor",
    config_type=MmaConfig,
    templates=("mma", "pack_filter", "window_transform"),
    archs=tuple(PRESETS),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
