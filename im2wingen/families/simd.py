"""Family `simd`: fp32, fp64, bf16 and int8 on the CPU's vectors and tiles, windows read in place, filter packed."""

from im2wingen.cpu_target import CPU_PRESETS, CpuTarget
from im2wingen.families.base import Family, Launch, Plan, TemplateValue
from im2wingen.families.simd_config import PREFETCH_STEPS, SimdConfig, SimdGeometry, has_planes, images_together
from im2wingen.families.simd_cost import busy_cycles
from im2wingen.families.simd_default import default
from im2wingen.families.simd_rules import RULES, unsupported
from im2wingen.families.simd_space import suggest
from im2wingen.families.support import problem_values
from im2wingen.problem import ConvProblem

_ELEMENT = {"bf16": "uint16_t"}  # whose bits it is
_ISA = {"x86-64-avx512": "AVX512", "x86-64-avx2": "AVX2", "aarch64-neon": "NEON", "generic": "GENERIC"}


def plan(problem: ConvProblem, target: CpuTarget, config: SimdConfig) -> Plan:
    """Pack the filter, write the window tensor if it is explicit, convolve."""
    geometry = SimdGeometry.of(problem, target, config)
    shared = _problem_values(problem) | _filter_values(geometry)
    pack = _launch(
        "simd_pack",
        shared,
        ("w", "packed"),
        l2_bytes=problem.element_bytes * problem.k * problem.gemm_k + geometry.packed_bytes,
    )
    workspace = {"packed": geometry.packed_bytes}
    explicit = config.window == "explicit"
    convolution = _launch(
        "simd", shared | _values(geometry), ("window" if explicit else "x", "packed", "bias", "y"),
        flops=problem.flops, l2_bytes=problem.compulsory_bytes, busy_cycles=busy_cycles(geometry),
    )  # fmt: skip
    if not explicit:
        return Plan(launches=(pack, convolution), workspace=workspace)
    values = _problem_values(problem) | {"IMAGES": images_together(problem)}
    window = _launch("simd_window", values, ("x", "window"), l2_bytes=2 * problem.im2win_bytes)
    return Plan(launches=(pack, window, convolution), workspace=workspace | {"window": problem.im2win_bytes})


def _launch(
    template: str, values: dict[str, TemplateValue], arguments: tuple[str, ...], *, flops: int = 0, l2_bytes: int,
    busy_cycles: float = 0.0,
) -> Launch:  # fmt: skip
    return Launch(
        template=template, values=values, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=arguments,
        pipe="ffma" if flops else "memory", flops=flops, l2_bytes=l2_bytes, busy_cycles=busy_cycles,
    )  # fmt: skip


def _problem_values(problem: ConvProblem) -> dict[str, TemplateValue]:
    types = {"ELEMENT": problem.precision, "OUTPUT": problem.y_dtype}
    own = {name: _ELEMENT[element] for name, element in types.items() if element in _ELEMENT}
    return problem_values(problem) | own


def _filter_values(geometry: SimdGeometry) -> dict[str, TemplateValue]:
    config = geometry.config
    return {
        "ISA": _ISA[geometry.target.arch], "LANES": geometry.lanes, "IMAGES": images_together(geometry.problem),
        "PIXELS_IN_LANES": config.vector_of == "pixels", "VECTORS_K": config.vectors_k, "BLOCK_C": geometry.chunk_words,
        "TAPS_INNER": config.steps == "taps", "PRODUCT": config.product.upper(),
        "ROUNDS_BY_ITSELF": "avx512_bf16" in geometry.target.features,
    }  # fmt: skip


def _values(geometry: SimdGeometry) -> dict[str, TemplateValue]:
    problem, config = geometry.problem, geometry.config
    return {
        "WINDOW": "explicit_window" if config.window == "explicit" else config.window,
        "TILE_N": config.tile_n, "TILE_P": config.tile_p, "TILE_Q": config.tile_q,
        "BLOCK_P": config.block_p, "BLOCK_K": config.block_k, "UNROLL": config.unroll,
        "PREFETCH": PREFETCH_STEPS[config.prefetch], "PIXELS_INNER": config.inner_loop == "pixels",
        "IMAGES_INNER": config.item_order == "pixels", "TILE_ORDER_ZIGZAG": config.tile_order == "zigzag",
        "STORE_PAST_CACHES": config.store == "streamed",
        "STAGED": has_planes(problem) and config.store != "cached", "DYNAMIC": config.schedule == "dynamic",
    }  # fmt: skip


SIMD = Family(
    name="simd",
    cores=None,
    config_type=SimdConfig,
    templates=("simd", "simd_pack", "simd_window"),
    archs=tuple(CPU_PRESETS),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
