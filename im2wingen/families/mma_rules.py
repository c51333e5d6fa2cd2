"""What an mma config must obey, and which problems the family takes."""

from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.mma_choices import (
    WARP_WIDTHS,
    block_k_choices,
    copy_choices,
    promote_choices,
    promotes,
    runs,
    shape_choices,
    splits,
)
from im2wingen.families.mma_config import MmaConfig, MmaGeometry
from im2wingen.families.support import MAX_GRID_X, MAX_STRIDE, foreign_layout, round_up, unit_elements
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

RESERVED_SMEM = 1024  # per CTA, by the system


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    if not isinstance(target, Target):
        return f"needs a CUDA GPU, the target is {target.name}"
    if (reason := foreign_layout(problem)) is not None:
        return reason
    if problem.precision not in ("fp16", "bf16", "tf32", "fp32", "fp64"):
        return f"precision {problem.precision} is not one of fp16, bf16, tf32, fp32, fp64"
    if problem.groups != 1:
        return "groups above 1 are not supported"
    if target.compute_capability < 80:
        return f"needs sm_80 or later, the target is {target.arch}"
    if max(problem.stride_h, problem.stride_w) > MAX_STRIDE:
        return f"strides above {MAX_STRIDE} are not supported"
    # offsets within an image, and within the filters of a CTA, are 32-bit
    if max(problem.c * problem.padded_h * problem.padded_w, problem.k * problem.p * problem.q) >= 2**31:
        return "one image, with its padding, has 2^31 elements or more"
    if problem.r * problem.s * round_up(problem.c, unit_elements(problem)) >= 2**26:
        return "one filter has 2^26 elements or more"
    return None


RULES = (
    Rule(
        sentence="the pixel tile holds from 1 to 512 pixels and does not exceed the output",
        holds=lambda problem, target, config: (
            1 <= config.tile.pixels <= 512
            and min(config.tile_n, config.tile_p, config.tile_q) >= 1
            and config.tile_n <= problem.n
            and config.tile_p <= problem.p
            and config.tile_q <= problem.q
        ),
    ),
    Rule(
        sentence="warps_m, warps_n and warps_k are at least 1, and the CTA has at most 16 warps",
        holds=lambda problem, target, config: (
            min(config.warps_m, config.warps_n, config.warps_k) >= 1 and config.threads <= 512
        ),
    ),
    Rule(
        sentence="warp_n is one of 16, 32, 48, 64, 96, 128",
        holds=lambda problem, target, config: config.warp_n in WARP_WIDTHS,
    ),
    Rule(
        sentence="no row of warps computes channels beyond K alone",
        holds=lambda problem, target, config: config.block_n - config.warp_n < problem.k,
    ),
    Rule(
        sentence="warp_n exceeds K by less than 16",
        holds=lambda problem, target, config: config.warp_n < problem.k + 16,
    ),
    Rule(
        sentence="the filters of a CTA have fewer than 2^31 elements",
        holds=lambda problem, target, config: (
            config.block_n * MmaGeometry(problem=problem, config=config).filter_elements < 2**31
        ),
    ),
    Rule(
        sentence="accumulators and fragments of a thread fit its registers",
        holds=lambda problem, target, config: estimated_registers(problem, config) <= register_limit(target, config),
    ),
    Rule(
        sentence="block_k is 2, 4, 8 or 16 units of 16 bytes, in whole steps of mma_shape's k",
        holds=lambda problem, target, config: (
            config.block_k in block_k_choices(problem) and config.block_k % config.mma_k == 0
        ),
    ),
    Rule(
        sentence="mma_shape is m16n8k16 (fp16, bf16), m16n8k8 (tf32, fp32), or for fp64 m8n8k4, from sm_90 on others",
        holds=lambda problem, target, config: (
            config.mma_shape in shape_choices(problem, target)
            or (problem.precision == "fp64" and has_fp64_shape(target, config))
        ),
    ),
    Rule(
        sentence="promote_k is 8, 32, 64 or 128, with an expected error of 2.5e-7 or less (fp32), or 1 (all others)",
        holds=lambda problem, target, config: config.promote_k in promote_choices(problem),
    ),
    Rule(
        sentence="a warp's steps in promote_k (fp32) divide those in a slice, or are divided by them",
        holds=lambda problem, target, config: not splits(problem) or promotes(config),
    ),
    Rule(
        sentence="patch_k is a positive whole number of 16-byte units, no more than the channels",
        holds=lambda problem, target, config: (
            config.patch_k > 0
            and config.patch_k % unit_elements(problem) == 0
            and config.patch_k <= MmaGeometry(problem=problem, config=config).channels
        ),
    ),
    Rule(
        sentence="the warps_k warps of a tile have equally many steps (of mma_shape's k) in a slice",
        holds=lambda problem, target, config: config.warp_steps > 0,
    ),
    Rule(
        sentence="fragment_stages 2 needs two or more stages, and an even number of steps for a warp in a slice",
        holds=lambda problem, target, config: (
            config.fragment_stages == 1 or (config.num_stages > 1 and config.warp_steps % 2 == 0)
        ),
    ),
    Rule(
        sentence="pad_rows is for window staging in row or column order",
        holds=lambda problem, target, config: (
            not config.pad_rows or (config.staging == "window" and config.window_order != "run")
        ),
    ),
    Rule(
        sentence="run order needs NHWC input, no horizontal dilation, and pixels a multiple of 4 bytes apart",
        holds=lambda problem, target, config: config.window_order != "run" or runs(problem),
    ),
    Rule(
        sentence="where channels are cut in chunks, block_k divides patch_k",
        holds=lambda problem, target, config: (
            MmaGeometry(problem=problem, config=config).chunks == 1 or config.patch_k % config.block_k == 0
        ),
    ),
    Rule(
        sentence="column and run order, tap and explicit staging keep all channels in one chunk",
        holds=lambda problem, target, config: (
            (config.staging == "window" and config.window_order == "row")
            or MmaGeometry(problem=problem, config=config).chunks == 1
        ),
    ),
    Rule(
        sentence="tap staging is in row order, explicit staging in column order",
        holds=lambda problem, target, config: (
            config.staging == "window" or config.window_order == {"tap": "row", "explicit": "column"}[config.staging]
        ),
    ),
    Rule(
        sentence="copy_bytes divides the bytes of a pixel's channels (NCHW, explicit: 16, runs: a word at most)",
        holds=lambda problem, target, config: (
            config.copy_bytes == 16
            if config.staging == "explicit" or problem.x_layout == "nchw"
            else config.copy_bytes in copy_choices(problem, config.window_order)
        ),
    ),
    Rule(
        sentence="num_stages is from 1 to 8, fragment_stages 1 or 2, ctas_per_sm from 1 to 8",
        holds=lambda problem, target, config: (
            1 <= config.num_stages <= 8 and config.fragment_stages in (1, 2) and 1 <= config.ctas_per_sm <= 8
        ),
    ),
    Rule(
        sentence="a pipeline has no more stages than the K axis has slices (or one)",
        holds=lambda problem, target, config: config.num_stages <= max(2, iterations(problem, config)),
    ),
    Rule(
        sentence="the CTAs of an SM fit its shared memory",
        holds=lambda problem, target, config: smem_fits(problem, target, config),
    ),
    Rule(
        sentence="the CTAs of an SM fit its threads",
        holds=lambda problem, target, config: config.ctas_per_sm * config.threads <= target.max_threads_per_sm,
    ),
    Rule(
        sentence="spread_copies is for NHWC windows in row order, in several chunks of more slices than num_stages",
        holds=lambda problem, target, config: not config.spread_copies or spreads(problem, config),
    ),
    Rule(
        sentence="programmatic_launch needs sm_90 or later",
        holds=lambda problem, target, config: not config.programmatic_launch or launches_early(target),
    ),
    Rule(
        sentence="the grid has less than 2^31 CTAs",
        holds=lambda problem, target, config: MmaGeometry(problem=problem, config=config).ctas <= MAX_GRID_X,
    ),
)


def spreads(problem: ConvProblem, config: MmaConfig) -> bool:
    """Whether the copies of a chunk's patch can be spread over the slices of the chunk before."""
    geometry = MmaGeometry(problem=problem, config=config)
    copied = config.staging == "window" and config.window_order == "row" and problem.x_layout == "nhwc"
    several = geometry.chunks > 1 and 1 < config.num_stages < geometry.chunk_slices
    return copied and several and config.copy_bytes >= 4


def launches_early(target: Target) -> bool:
    """Whether the target knows programmatic dependent launch."""
    return target.compute_capability >= 90


def has_fp64_shape(target: Target, config: MmaConfig) -> bool:
    """Whether the target compiles the fp64 shape; of those of 16 rows sm_100 and later make several of 8."""
    if config.mma_shape == "m8n8k4":
        return True
    return config.mma_shape in ("m16n8k4", "m16n8k8", "m16n8k16") and target.compute_capability >= 90


def estimated_registers(problem: ConvProblem, config: MmaConfig) -> int:
    """At least what the compiler needs: accumulators, fragments, and addresses; with fewer it spilled each time."""
    geometry = MmaGeometry(problem=problem, config=config)
    return geometry.accumulator_registers + geometry.fragment_registers * config.fragment_stages + 16


def register_limit(target: Target, config: MmaConfig) -> int:
    return min(255, target.regs_per_sm // (config.ctas_per_sm * config.threads))


def iterations(problem: ConvProblem, config: MmaConfig) -> int:
    geometry = MmaGeometry(problem=problem, config=config)
    return geometry.chunks * geometry.chunk_slices


def smem_fits(problem: ConvProblem, target: Target, config: MmaConfig) -> bool:
    needed = MmaGeometry(problem=problem, config=config).smem_bytes
    per_sm = config.ctas_per_sm * (needed + RESERVED_SMEM)
    return needed <= target.smem_per_block_bytes and per_sm <= target.smem_per_sm_bytes
