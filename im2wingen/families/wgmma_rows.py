"""The wgmma_rows family: first layers (few input channels) on Hopper's tensor cores; sm_90a."""

from im2wingen.families import wgmma_rows_rules
from im2wingen.families.base import AnyTarget, Family, Launch, Plan, TensorMap
from im2wingen.families.support import EARLY_CYCLES, ceil_div, early, problem_values
from im2wingen.families.wgmma_rows_config import CHUNK_BYTES, SWIZZLE_BYTES, WgmmaRowsConfig, WgmmaRowsGeometry
from im2wingen.families.wgmma_rows_cost import PACK_KERNEL, cta_cycles
from im2wingen.families.wgmma_rows_rules import RULES
from im2wingen.families.wgmma_rows_space import default, has_shapes, suggest
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_PACK_THREADS = 256
_PACK_SPLIT_THREADS = 128


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    reason = wgmma_rows_rules.unsupported(problem, target)
    if reason is None and isinstance(target, Target) and not has_shapes(problem, target):
        return "no block of rows with its filters fits shared memory"
    return reason


def plan(problem: ConvProblem, target: Target, config: WgmmaRowsConfig) -> Plan:
    geometry = WgmmaRowsGeometry(problem=problem, config=config)
    ctas = geometry.ctas(target)
    window = {
        **problem_values(problem),
        "BLOCK_ROWS": config.block_rows,
        "SLOT_COLUMNS": config.slot_columns,
        "SLOT_ORDER": config.slot_order.upper(),
        "WGMMA_N": config.block_n,
        "ROW_ITEMS": config.row_items,
    }
    parts = {"PARTS": geometry.parts} if geometry.split else {}
    packed_bytes = geometry.blocks_k * geometry.filter_bytes
    threads = _PACK_SPLIT_THREADS if geometry.split else _PACK_THREADS
    channels = geometry.blocks_k * config.block_n
    packing = Launch(
        template="pack_rows_split" if geometry.split else "pack_rows",
        values={**window, **parts, "THREADS": threads, "PROGRAMMATIC_LAUNCH": False},
        grid=(channels if geometry.split else ceil_div(packed_bytes // CHUNK_BYTES, threads), 1, 1),
        block=threads, smem_bytes=0, arguments=("w", "packed"), l2_bytes=2 * packed_bytes,
        idle_cycles=PACK_KERNEL,
    )  # fmt: skip
    begins_early = config.early_packing if config.pack_kernel else config.programmatic_launch
    busy, idle = cta_cycles(geometry, target)
    multiply = Launch(
        template="wgmma_rows",
        values={
            **window,
            "BF16": problem.precision == "bf16",
            "SPLIT": geometry.split,
            "PARTS": geometry.parts,
            "ITEM_TILES": config.item_tiles,
            "STAGED_Y": config.staged_y,
            "CHANNEL_ROWS": config.channel_rows,
            "ITEM_SLOTS": geometry.item_slots,
            "OUTPUT_MAP": geometry.output_map,
            "BULK_STORE": config.bulk_store,
            "COPIED_ITEMS": config.copied_items,
            "CONSUMERS": config.num_consumer_warpgroups,
            "MULTIPLYING": config.multiplying_consumers,
            "TRANSFORMERS": config.num_transformer_warps,
            "TEAM_WARPS": config.team_warps,
            "RAW_STAGES": config.raw_stages,
            "RING_BLOCKS": config.ring_blocks,
            "CONSUMER_REGISTERS": geometry.consumer_registers(target),
            "ROW_ORDER": config.row_order.upper(),
            "UNIT_ROWS": config.unit_rows,
            "BURSTS": config.l2_bursts,
            "PACK_KERNEL": config.pack_kernel,
            "PROGRAMMATIC_LAUNCH": config.programmatic_launch,
        },
        grid=(ctas, 1, 1),
        block=config.threads,
        smem_bytes=geometry.smem_bytes,
        arguments=(
            "x", "packed" if config.pack_kernel else "w", "bias", "y", "w",
            (_output_map(geometry),) if geometry.output_map else "y",
        ),
        programmatic=config.programmatic_launch and not config.pack_kernel,
        # x is loaded before the filters are packed: only these may still run
        beside=config.programmatic_launch and config.pack_kernel,
        hidden_cycles=EARLY_CYCLES * begins_early,
        pipe="mma",
        busy_cycles=busy,
        idle_cycles=idle,
        flops=2 * problem.n * problem.p * geometry.row_slots * geometry.blocks_k * config.block_n
        * geometry.products * 2 * geometry.chunk_elements,
        l2_bytes=geometry.blocks_k * problem.n * problem.p * geometry.raw_bytes + ctas * geometry.filter_bytes
        + problem.gemm_m * problem.k * problem.element_bytes,
    )  # fmt: skip
    return Plan(
        launches=(early(packing) if config.early_packing else packing, multiply) if config.pack_kernel else (multiply,),
        workspace={"packed": packed_bytes} if config.pack_kernel else {},
        arithmetic="scaled" if config.scaled else "split" if geometry.split else "direct",
    )


def _output_map(geometry: WgmmaRowsGeometry) -> TensorMap:
    """The (K, Q, N * P) of an NHWC y; boxes are 128 bytes of channels of an item."""
    problem = geometry.problem
    pixel = problem.k * problem.element_bytes
    return TensorMap(
        array="y", element=problem.y_dtype, dims=(problem.k, problem.q, problem.n * problem.p),
        strides_bytes=(pixel, problem.q * pixel), box=(SWIZZLE_BYTES // problem.element_bytes, geometry.item_slots, 1),
        swizzle_bytes=SWIZZLE_BYTES,
    )  # fmt: skip


WGMMA_ROWS = Family(
    name="wgmma_rows",
    cores="tensor",
    config_type=WgmmaRowsConfig,
    templates=("wgmma_rows", "pack_rows", "pack_rows_split"),
    archs=("sm_90a",),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
