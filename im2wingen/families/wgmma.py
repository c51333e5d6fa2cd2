"""The wgmma family: fp16, bf16, tf32, split fp32, int8 and fp8 on Hopper's tensor cores, fed by TMA; sm_90a."""

from im2wingen.families import wgmma_rules
from im2wingen.families.base import AnyTarget, Family, Launch, Plan, TemplateValue, TensorMap
from im2wingen.families.support import (
    ceil_div,
    channels_last,
    early,
    filter_channels_last,
    pack_filter,
    problem_values,
)
from im2wingen.families.wgmma_axes import flattened, horizontal, vertical
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_cost import HIDDEN, cta_cycles
from im2wingen.families.wgmma_geometry import WgmmaGeometry
from im2wingen.families.wgmma_rules import RULES
from im2wingen.families.wgmma_scaled import scale_input
from im2wingen.families.wgmma_space import default, has_shapes, suggest
from im2wingen.families.wgmma_split import landing_maps, split_filter, split_filter_map
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_FILTER_PROMOTION_BYTES = 256
_PRODUCTS = {"fp16": "F16", "bf16": "BF16", "tf32": "TF32", "int8": "S8", "e4m3": "E4M3", "e5m2": "E5M2"}


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    reason = wgmma_rules.unsupported(problem, target)
    if reason is None and isinstance(target, Target) and not has_shapes(problem, target):
        return "no patch with its filters fits shared memory"
    return reason


def plan(problem: ConvProblem, target: Target, config: WgmmaConfig) -> Plan:
    problem = flattened(problem)
    geometry = WgmmaGeometry(problem=problem, config=config)
    launches: list[Launch] = []
    workspace: dict[str, int] = {}
    input_name, filter_name = "x", "w"
    split = config.arithmetic == "split"
    if config.arithmetic != "direct" or not problem.filter_is_krsc or geometry.channels != problem.c:
        launch, size = _packing(geometry)
        launches.append(launch)
        workspace["packed"], filter_name = size, "packed"
    if config.arithmetic == "scaled":
        turned, size = scale_input(geometry, target)
        launches += turned
        workspace["halves"], input_name = size, "halves"
    elif problem.x_layout != "nhwc" and config.input_staging == "tma":
        launch, size = channels_last(problem, channels=geometry.channels, beside=bool(launches))
        launches.append(launch)
        workspace["channels_last"], input_name = size, "channels_last"
    if launches and config.early_packing:
        launches[0] = early(launches[0])
    cluster = config.cluster_k
    # x is read before the filter is packed: only that may still run
    beside = config.programmatic_launch and bool(launches) and input_name == "x"
    one_tile = cluster > 1 or config.staging_over_buffers
    grid = geometry.tiles * cluster if one_tile else geometry.persistent_ctas(target.sm_count)
    taps = problem.r * problem.s
    gemm_k = taps * geometry.steps * geometry.step_k * geometry.products
    busy, idle = cta_cycles(geometry, target)
    filter_loads = grid if config.filter_resident else geometry.tiles
    maps = (_input_maps(geometry, input_name, filter_name), (_filter_map(geometry, filter_name),))
    launches.append(
        Launch(
            template="wgmma_split" if split else "wgmma",
            values={
                **problem_values(problem),
                "MAPPING": "BLOCK" if config.mapping == "block" else "ROWS",
                "SPLIT": config.split.upper(),
                "CHANNELS": geometry.channels,
                "PRODUCERS": config.num_producer_warpgroups,
                "CONSUMERS": config.num_consumer_warpgroups,
                "TRANSPOSED": config.input_staging != "tma",
                "TILE_N": config.tile_n,
                "TILE_P": config.tile_p,
                "TILE_Q": config.tile_q,
                "JOINED_ROWS": config.joined_rows,
                "WGMMA_N": geometry.wgmma_n,
                "BLOCK_K": config.block_k,
                "CLUSTER_K": cluster,
                "PATCH_STAGES": config.patch_stages,
                "FILTER_RESIDENT": config.filter_resident,
                "FILTER_STAGES": config.filter_stages,
                "PROGRAMMATIC_LAUNCH": config.programmatic_launch,
                "TILE_ORDER_ZIGZAG": config.tile_order == "zigzag",
                **(_split_values(geometry) if split else _direct_values(geometry, beside=beside)),
            },
            grid=(grid, 1, 1),
            block=config.threads,
            smem_bytes=geometry.smem_bytes,
            arguments=(
                *maps, "packed" if split else (_output_map(geometry, filter_name),), "bias", "y", "x", "w",
                *(() if split else (filter_name, input_name)),
            ),
            programmatic=config.programmatic_launch and not beside,
            beside=beside,
            cluster=cluster,
            pipe="mma",
            busy_cycles=busy,
            idle_cycles=idle,
            hidden_cycles=0.0 if split else HIDDEN,
            flops=2 * geometry.tiles * config.block_n * config.subtiles * geometry.wgmma_n * gemm_k,
            l2_bytes=geometry.tiles * geometry.planes * geometry.chunks * geometry.loaded_bytes
            + filter_loads * taps * geometry.chunks * geometry.filter_rings * geometry.filter_bytes
            + geometry.tiles * config.tile.pixels * config.block_n * problem.y_element_bytes,
        )
    )  # fmt: skip
    return Plan(launches=tuple(launches), workspace=workspace, arithmetic=config.arithmetic)


def _packing(geometry: WgmmaGeometry) -> tuple[Launch, int]:
    """The launch that writes workspace `packed`, the filter as it is loaded, and its bytes."""
    if geometry.config.arithmetic != "direct":
        return split_filter(geometry)
    problem, channels = geometry.problem, geometry.channels
    turned = filter_channels_last(problem, channels=channels)
    return turned or pack_filter(problem, order="row", channels=channels)


def _split_values(geometry: WgmmaGeometry) -> dict[str, TemplateValue]:
    """What wgmma_split.cu.j2 has and wgmma.cu.j2 has not."""
    config = geometry.config
    return {
        "REPEATED": config.mapping == "repeated",
        "PROMOTION_TAPS": config.promotion_taps,
        "STAGGERED": config.staggered,
        "STAGED_GROUPS": geometry.staged_groups,
        "BULK_STORES": geometry.bulk_stores,
        "STAGING_OVER_LANDING": config.staging_over_buffers,
        "LANDING": (geometry.landing.kind if geometry.landing else "rectangles").upper(),
        "LANDED_PARTS": geometry.landing.parts if geometry.landing and config.input_staging == "transposed" else 1,
    }


def _direct_values(geometry: WgmmaGeometry, *, beside: bool) -> dict[str, TemplateValue]:
    """What wgmma.cu.j2 has and wgmma_split.cu.j2 has not."""
    config, pieces = geometry.config, geometry.pieces
    scaled = config.arithmetic == "scaled"
    return {
        "SUM": "int32_t" if geometry.problem.precision == "int8" else "float",
        "PRODUCT": "F16" if scaled else _PRODUCTS[geometry.problem.precision],
        "SCALED": scaled,
        "PIECE_STAGES": config.piece_stages,
        "WHOLE_ROWS": pieces.whole_rows,
        "LINE_ROWS": pieces.line_rows,
        "PIECE_LINES": pieces.lines,
        "BULK_STORED": config.bulk_store,
        "STORE_GROUPS": config.store_groups,
        "STAGING_OVER_BUFFERS": config.staging_over_buffers,
        "STORED_BY_PRODUCERS": config.stored_by_producers,
        "PROMOTION": config.promotion,
        "ORDERED": config.ordered,
        "BESIDE_PACKING": beside,
    }


def _input_maps(geometry: WgmmaGeometry, name: str, filter_name: str) -> tuple[TensorMap, ...]:
    """One a plane, in the template's order: the plane's (C, N, columns, rows)."""
    problem, config = geometry.problem, geometry.config
    if config.input_staging == "transposed" and config.arithmetic == "split":
        return landing_maps(geometry)
    if config.input_staging == "turned":
        return (geometry.pieces.tensor_map(),)
    rows, columns = vertical(problem), horizontal(problem)
    element, channels, row_step = geometry.element_bytes, geometry.channels, problem.w * geometry.channels
    maps = []
    for r in range(rows.used_planes):
        for s in range(columns.used_planes):
            top, left = rows.place(r)[0], columns.place(s)[0]
            maps.append(
                TensorMap(
                    array=name, element="fp16" if config.arithmetic == "scaled" else problem.precision,
                    offset_bytes=(top * row_step + left * channels) * element,
                    dims=(
                        channels, problem.n, ceil_div(problem.w - left, problem.stride_w),
                        ceil_div(problem.h - top, problem.stride_h),
                    ),
                    strides_bytes=(
                        problem.h * row_step * element, problem.stride_w * channels * element,
                        problem.stride_h * row_step * element,
                    ),
                    box=(config.block_k, config.tile_n, geometry.patch_w, geometry.patch_h),
                    swizzle_bytes=geometry.row_bytes, l2_promotion_bytes=config.l2_promotion_bytes,
                )
            )  # fmt: skip
    return tuple(maps)


def _filter_map(geometry: WgmmaGeometry, name: str) -> TensorMap:
    """The filters' (C, R*S, K); of split or scaled operands the (halves of a row, K, chunks * R*S)."""
    problem, config = geometry.problem, geometry.config
    if config.arithmetic != "direct":
        return split_filter_map(geometry, promotion_bytes=_FILTER_PROMOTION_BYTES)
    tap_bytes = geometry.channels * problem.element_bytes
    return TensorMap(
        array=name, element=problem.precision, dims=(geometry.channels, problem.r * problem.s, problem.k),
        strides_bytes=(tap_bytes, problem.r * problem.s * tap_bytes), box=(config.block_k, 1, config.block_n),
        swizzle_bytes=geometry.row_bytes, l2_promotion_bytes=_FILTER_PROMOTION_BYTES,
    )  # fmt: skip


def _output_map(geometry: WgmmaGeometry, filter_name: str) -> TensorMap:
    """The (K, N, Q, P) of y; a box is what is stored at once: of rows mapping, one output row.

    An NCHW y is stored without TMA, and so is a cluster's share; the filter's map stands in.
    """
    problem, config = geometry.problem, geometry.config
    if problem.y_layout != "nhwc" or config.cluster_k > 1:
        return _filter_map(geometry, filter_name)
    pixel = problem.k * problem.y_element_bytes
    if config.mapping == "block":
        columns, rows = 8, config.store_groups
    elif config.store_groups == geometry.groups_n:
        columns, rows = config.tile_q, 1
    else:
        columns, rows = config.store_groups * 8 // config.tile_n, 1
    return TensorMap(
        array="y", element=problem.y_dtype,
        dims=(problem.k, problem.n, problem.q, problem.p),
        strides_bytes=(problem.p * problem.q * pixel, pixel, problem.q * pixel),
        box=(128 // problem.y_element_bytes, config.tile_n, columns, rows), swizzle_bytes=128,
    )  # fmt: skip


WGMMA = Family(
    name="wgmma",
    cores="tensor",
    config_type=WgmmaConfig,
    templates=("wgmma", "wgmma_split", "pack_filter", "split_filter", "scale_input", "channels_last"),
    archs=("sm_90a",),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
