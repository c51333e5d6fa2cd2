"""Family `simt`: fp32 and fp64 on the CUDA cores, an implicit GEMM over im2win windows in shared memory."""

from im2wingen.families.base import Family, Launch, Plan, TemplateValue
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_cost import cta_cycles, resident_ctas
from im2wingen.families.simt_default import default
from im2wingen.families.simt_geometry import SimtGeometry
from im2wingen.families.simt_rules import RULES, unsupported
from im2wingen.families.simt_space import suggest
from im2wingen.families.support import filters_last, problem_values, round_up, window_transform
from im2wingen.problem import ConvProblem
from im2wingen.target import PRESETS, Target


def plan(problem: ConvProblem, target: Target, config: SimtConfig) -> Plan:
    """Pack the filter, write the window tensor if staging is explicit, convolve."""
    geometry = SimtGeometry(problem=problem, config=config)
    pack, packed_bytes = filters_last(problem)
    if config.staging != "explicit":
        return Plan(launches=(pack, _convolution(geometry, target, "x")), workspace={"packed": packed_bytes})
    transform, window_bytes = window_transform(
        problem, channels_last=problem.x_layout == "nhwc", column_pitch=geometry.column_pitch
    )
    return Plan(
        launches=(pack, transform, _convolution(geometry, target, "window")),
        workspace={"packed": packed_bytes, "window": window_bytes},
    )


def _convolution(geometry: SimtGeometry, target: Target, source: str) -> Launch:
    problem, config = geometry.problem, geometry.config
    staged_bytes = problem.element_bytes * geometry.steps * config.block_c * (
        config.tile_n * geometry.rows * geometry.columns + geometry.taps * config.block_n
    )  # fmt: skip
    gemm_k = problem.r * problem.s * round_up(problem.c, config.block_c)
    busy, idle = cta_cycles(geometry, target)
    ctas = geometry.launched_ctas(target)
    return Launch(
        template="simt",
        values=_values(geometry),
        grid=(ctas, 1, 1), block=geometry.threads, smem_bytes=geometry.smem_bytes,
        arguments=(source, "packed", "bias", "y", "x", "w"),
        pipe="ffma", flops=2 * geometry.ctas * geometry.block_m * config.block_n * gemm_k,
        l2_bytes=geometry.ctas * staged_bytes + problem.element_bytes * problem.gemm_m * problem.k,
        ctas_per_sm_by_threads=min(resident_ctas(geometry, target), target.max_threads_per_sm // geometry.threads),
        busy_cycles=busy * geometry.ctas / ctas, idle_cycles=idle,
    )  # fmt: skip


def _values(geometry: SimtGeometry) -> dict[str, TemplateValue]:
    problem, config = geometry.problem, geometry.config
    return {
        **problem_values(problem),
        "STAGING": "explicit_window" if config.staging == "explicit" else config.staging,
        "TILE_N": config.tile_n, "TILE_P": config.tile_p, "TILE_Q": config.tile_q,
        "BLOCK_N": config.block_n, "BLOCK_C": config.block_c, "BLOCK_R": config.block_r,
        "THREAD_P": config.thread_p, "THREAD_Q": config.thread_q, "THREAD_N": config.thread_n,
        "SLICES": config.slices, "LANES_M": config.lanes_m,
        "NUM_STAGES": config.num_stages, "CTAS_PER_SM": config.ctas_per_sm,
        "UNROLL_C": config.unroll_c, "READS": config.reads, "UNROLL_R": config.block_r if config.unroll_r else 1,
        "X_VECTOR": config.x_vector,
        "CHANNEL_LANES": geometry.channel_lanes, "PHASE_PITCH": geometry.phase_pitch,
        "ROW_PITCH": geometry.row_pitch, "CHANNEL_PITCH": geometry.channel_pitch,
        "COLUMN_PITCH": geometry.column_pitch, "FILTERS": round_up(problem.k, geometry.unit),
        "STORE": config.store, "STORE_N": config.store_n,
        "PERSISTENT": config.persistent, "OUTPUTS_OFFSET": geometry.outputs_offset,
        "TILE_ORDER_ZIGZAG": config.tile_order == "zigzag", "FRAGMENT_ORDER_ZIGZAG": config.fragment_order == "zigzag",
        "FILTERS_OUTER": config.fragment_outer == "filters", "ACCUMULATORS": config.accumulators,
    }  # fmt: skip


SIMT = Family(
    name="simt",
    cores="cuda",
    config_type=SimtConfig,
    templates=("simt", "filters_last", "window_transform"),
    archs=tuple(PRESETS),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
