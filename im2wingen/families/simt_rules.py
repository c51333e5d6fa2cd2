"""simt: which problems it runs and which configs are legal."""

from collections.abc import Callable

from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.simt_config import SimtConfig
from im2wingen.families.simt_geometry import SimtGeometry, copies_in_bulk
from im2wingen.families.support import MAX_GRID_X, MAX_STRIDE, ceil_div, foreign_layout, round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

SMEM_RESERVE = 1024  # bytes that the driver takes of every CTA's shared memory
_MAX_BOX_BYTES = 2**32 - 16  # offsets within a box are 32-bit
_MAX_STRAIGHT_FFMAS = 6144  # an instruction is 16 bytes, the instruction cache 128 KiB


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    """The sentence why the family can't run the problem, or None."""
    if not isinstance(target, Target):
        return f"needs a CUDA GPU, the target is {target.name}"
    if (reason := foreign_layout(problem)) is not None:
        return reason
    if problem.precision not in ("fp32", "fp64"):
        return f"simt computes fp32 and fp64; the problem is {problem.precision}"
    if problem.groups != 1:
        return f"simt computes ungrouped convolutions; the problem has {problem.groups} groups"
    if max(problem.stride_h, problem.stride_w) > MAX_STRIDE:
        return f"simt takes strides up to {MAX_STRIDE}"
    if problem.c * problem.padded_h * problem.padded_w * problem.element_bytes >= _MAX_BOX_BYTES:
        return "simt addresses less than 4 GiB in one image with its padding; the problem's image has more"
    if problem.n * problem.p * problem.q * ceil_div(problem.k, 32) > MAX_GRID_X:
        return "simt launches at most 2^31 - 1 CTAs; the problem has too many outputs"
    return None


def _rule(sentence: str, holds: Callable[[SimtGeometry, Target], bool]) -> Rule:
    return Rule(
        sentence=sentence,
        holds=lambda problem, target, config: (
            whole_threads(problem, config) and holds(SimtGeometry(problem=problem, config=config), target)
        ),
    )


def whole_threads(problem: ConvProblem, config: SimtConfig) -> bool:
    """What the geometry takes for granted."""
    sizes = (config.tile_n, config.tile_p, config.tile_q, config.block_n, config.block_c, config.block_r)
    if min(*sizes, config.thread_p, config.thread_q, config.thread_n, config.ctas_per_sm) < 1:
        return False
    rows = config.tile_p if config.tile_p % config.thread_p == 0 else config.tile_n
    return not (rows % config.thread_p or config.tile_q % config.thread_q or config.block_n % config.thread_n)


def _registers_fit(geometry: SimtGeometry, target: Target) -> bool:
    resident = round_up(geometry.config.ctas_per_sm * geometry.threads, 128)  # a quarter of an SM's warps share a file
    return geometry.registers <= min(255, target.regs_per_sm // resident // 8 * 8)


def _threads_fit(geometry: SimtGeometry, target: Target) -> bool:
    resident = geometry.config.ctas_per_sm
    return resident * geometry.threads <= target.max_threads_per_sm and resident <= target.max_blocks_per_sm


def _shared_memory_fits(geometry: SimtGeometry, target: Target) -> bool:
    resident = geometry.config.ctas_per_sm * (geometry.smem_bytes + SMEM_RESERVE)
    return geometry.smem_bytes <= target.smem_per_block_bytes and resident <= target.smem_per_sm_bytes


def _box_fits_output(geometry: SimtGeometry, target: Target) -> bool:
    problem, config = geometry.problem, geometry.config
    return (
        config.tile_n < 2 * problem.n
        and config.tile_p < problem.p + config.thread_p
        and config.tile_q < problem.q + config.thread_q
        and config.thread_q < 2 * problem.q
        and config.thread_p < 2 * max(problem.p, config.tile_n)
        and config.block_n < problem.k + 32 * config.thread_n
        and config.block_c < 2 * problem.c
    )


def _vectors_of_x_fit(geometry: SimtGeometry, target: Target) -> bool:
    problem, config = geometry.problem, geometry.config
    if config.x_vector == 1:
        return True
    aligned = (problem.w, problem.pad_left)
    return (
        problem.x_layout == "nchw"
        and config.x_vector <= geometry.unit
        and config.staging == "window"
        and not geometry.pixel_columns
        and problem.stride_w == 1
        and all(extent % config.x_vector == 0 for extent in aligned)
        and (config.tile_q % config.x_vector == 0 or config.tile_q >= problem.q)
    )


RULES: tuple[Rule, ...] = (
    Rule(
        sentence="threads must divide the box: thread_q tile_q, thread_n block_n, thread_p tile_p or else tile_n",
        holds=lambda problem, target, config: whole_threads(problem, config),
    ),
    _rule("a CTA must have 1024 threads at most", lambda g, t: g.threads <= 1024),
    _rule("slices must divide block_c", lambda g, t: g.config.block_c % g.config.slices == 0),
    _rule("32 / lanes_m must divide the threads along the filters",
          lambda g, t: g.threads_n % (32 // g.config.lanes_m) == 0),
    _rule("unroll_c must divide the channels of a slice",
          lambda g, t: g.config.unroll_c >= 1 and g.config.block_c // g.config.slices % g.config.unroll_c == 0),
    _rule("block_n filters must be whole 16-byte copies", lambda g, t: g.config.block_n % g.unit == 0),
    _rule("a CTA must have a thread for every 16 bytes of block_n filters",
          lambda g, t: g.config.block_n <= g.unit * g.threads),
    _rule("block_r must divide R, and be 1 where taps are staged one by one",
          lambda g, t: g.problem.r % g.config.block_r == 0 and (g.config.staging != "tap" or g.config.block_r == 1)),
    _rule("the box must not reach further beyond the output than a thread does", _box_fits_output),
    _rule("x_vector, 16 bytes at most, needs x in NCHW, window staging, stride 1 and aligned rows", _vectors_of_x_fit),
    _rule("outputs go through shared memory for NCHW alone",
          lambda g, t: g.config.store == "registers" or g.problem.y_layout == "nchw"),
    _rule("bulk copies of outputs need sm_90 or later", lambda g, t: g.config.store != "bulk" or copies_in_bulk(t)),
    _rule("store_n must divide thread_n, and be 1 where outputs don't go through shared memory in passes",
          lambda g, t: g.config.store_n >= 1 and g.config.thread_n % g.config.store_n == 0
          and (g.config.store in ("shared", "sectors") or g.config.store_n == 1)),
    _rule("the threads of ctas_per_sm CTAs must fit the SM", _threads_fit),
    _rule("accumulators, segments and filters of a thread must fit the registers", _registers_fit),
    _rule("the stages of ctas_per_sm CTAs must fit shared memory", _shared_memory_fits),
    _rule("the innermost straight code must fit the instruction cache",
          lambda g, t: g.straight_ffmas <= _MAX_STRAIGHT_FFMAS),
    _rule("a thread must make at most 128 copies for a stage", lambda g, t: g.patch_copies + g.filter_copies <= 128),
    _rule("the images of a box must have less than 4 GiB",
          lambda g, t: g.config.tile_n * g.image_elements * g.problem.element_bytes < _MAX_BOX_BYTES),
    _rule("the grid must have fewer than 2^31 CTAs", lambda g, t: g.ctas <= MAX_GRID_X),
)  # fmt: skip
