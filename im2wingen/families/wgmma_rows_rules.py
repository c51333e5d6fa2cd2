"""What a wgmma_rows config must obey, and which problems the family takes."""

from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.support import not_for_hopper
from im2wingen.families.wgmma_rows_config import CHANNELS_M, CHUNK_BYTES, WgmmaRowsConfig, WgmmaRowsGeometry
from im2wingen.problem import ConvProblem

MAX_CHANNELS = 15
_PRECISIONS = ("fp16", "bf16", "tf32", "fp32")
MAX_PRODUCTS = 256  # those of a tile are unrolled
_OTHER_REGISTERS = 44  # of a consumer's thread, beside its accumulators
_MANY_OTHER_REGISTERS = 60  # where it also knows where runs of its pixels lie
_FEW_OTHER_REGISTERS = 32  # where accumulators are used one set after the other, or others store


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    if (reason := not_for_hopper(problem, target, _PRECISIONS)) is not None:
        return reason
    if problem.groups != 1:
        return "groups above 1 are not supported"
    if problem.c > MAX_CHANNELS:
        return f"C is {problem.c}; it must not exceed {MAX_CHANNELS}"
    for part, window, dilation, stride in (
        ("vertical", problem.r, problem.dilation_h, problem.stride_h),
        ("horizontal", problem.s, problem.dilation_w, problem.stride_w),
    ):
        if window > 1 and dilation > 1 and dilation % stride:
            return f"a {part} dilation above 1 must be a multiple of the stride"
    if max(problem.c * problem.padded_h * problem.padded_w, problem.k * problem.p * problem.q) * problem.n >= 2**38:
        return "an array has 2^38 elements or more"
    if problem.n * problem.p >= 2**30:
        return "there are 2^30 output rows or more"
    return None


def _geometry(problem: ConvProblem, config: WgmmaRowsConfig) -> WgmmaRowsGeometry:
    return WgmmaRowsGeometry(problem=problem, config=config)


def _covers(part: int, window: int, stride: int, dilation: int) -> bool:
    if dilation > 1 and window > 1:
        return part == 1 and dilation % stride == 0
    return part == window or (part < window and part % stride == 0)


def _may_have_channel_rows(problem: ConvProblem, config: WgmmaRowsConfig) -> bool:
    """Whether output channels can be wgmma's rows."""
    if config.block_n != CHANNELS_M or not config.row_items or _geometry(problem, config).split:
        return False
    if problem.y_layout == "nhwc":
        return problem.k * problem.element_bytes % CHUNK_BYTES == 0
    return config.bulk_store


def _instruction_registers(problem: ConvProblem, config: WgmmaRowsConfig) -> int:
    """What ptxas (CUDA 13.0) wants of those at the launch for a wgmma whose filters are in registers."""
    return _geometry(problem, config).item_slots // 2 + 30 if config.channel_rows else 0


def _other_registers(problem: ConvProblem, config: WgmmaRowsConfig) -> int:
    if config.channel_rows and config.bulk_store:
        return _MANY_OTHER_REGISTERS
    few = _geometry(problem, config).split or config.bulk_store or config.channel_rows
    return _FEW_OTHER_REGISTERS if few else _OTHER_REGISTERS


RULES = (
    Rule(
        sentence="block_rows is R, or less and a multiple of the vertical stride; 1 for a dilated window",
        holds=lambda problem, target, config: _covers(
            config.block_rows, problem.r, problem.stride_h, problem.dilation_h
        ),
    ),
    Rule(
        sentence="slot_columns is S, or less and a multiple of the horizontal stride; 1 for a dilated window",
        holds=lambda problem, target, config: _covers(
            config.slot_columns, problem.s, problem.stride_w, problem.dilation_w
        ),
    ),
    Rule(
        sentence="block_n is a multiple of 8, at most 256",
        holds=lambda problem, target, config: config.block_n % 8 == 0 and config.block_n <= 256,
    ),
    Rule(
        sentence="num_consumer_warpgroups is at most 4, num_transformer_warps at most 8",
        holds=lambda problem, target, config: config.num_consumer_warpgroups <= 4 and config.num_transformer_warps <= 8,
    ),
    Rule(
        sentence="multiplying_consumers divides num_consumer_warpgroups",
        holds=lambda problem, target, config: config.num_consumer_warpgroups % config.multiplying_consumers == 0,
    ),
    Rule(
        sentence="team_warps divides num_transformer_warps",
        holds=lambda problem, target, config: config.num_transformer_warps % config.team_warps == 0,
    ),
    Rule(
        sentence="an NHWC y is not staged, an NCHW y of 16-bit elements is",
        holds=lambda problem, target, config: (
            not config.staged_y if problem.y_layout == "nhwc" else config.staged_y or problem.element_bytes == 4
        ),
    ),
    Rule(
        sentence="scaled is for tf32",
        holds=lambda problem, target, config: problem.precision == "tf32" or not config.scaled,
    ),
    Rule(
        sentence="channel_rows needs a block_n of 64, row_items, neither fp32 nor scaled, and bulk_store of an NCHW y "
        "or an NHWC y whose channels are a multiple of 16 bytes",
        holds=lambda problem, target, config: not config.channel_rows or _may_have_channel_rows(problem, config),
    ),
    Rule(
        sentence="bulk_store needs staged_y",
        holds=lambda problem, target, config: config.staged_y or not config.bulk_store,
    ),
    Rule(
        sentence="copied_items is 1 without bulk_store",
        holds=lambda problem, target, config: config.bulk_store or config.copied_items == 1,
    ),
    Rule(
        sentence="item_tiles is 1, 2 or 4 where y is staged",
        holds=lambda problem, target, config: not config.staged_y or config.item_tiles in (1, 2, 4),
    ),
    Rule(
        sentence="the ring has a block more than an item and the windows of its slots, and one for each team",
        holds=lambda problem, target, config: config.ring_blocks >= _geometry(problem, config).least_ring,
    ),
    Rule(
        sentence="unit_rows is 1 for strips, and at most P",
        holds=lambda problem, target, config: config.unit_rows <= (1 if config.row_order == "strips" else problem.p),
    ),
    Rule(
        sentence="bursts follow the units of rows",
        holds=lambda problem, target, config: config.row_order == "units" or not config.l2_bursts,
    ),
    Rule(
        sentence="early_packing, fp32 and scaled need pack_kernel",
        holds=lambda problem, target, config: (
            config.pack_kernel or not (config.early_packing or _geometry(problem, config).split)
        ),
    ),
    Rule(
        sentence=f"a window is at most {MAX_PRODUCTS} products",
        holds=lambda problem, target, config: _geometry(problem, config).products <= MAX_PRODUCTS,
    ),
    Rule(
        sentence="the accumulators fit a thread's registers",
        holds=lambda problem, target, config: (
            _geometry(problem, config).accumulators + _other_registers(problem, config)
            <= (_geometry(problem, config).consumer_registers(target) or config.registers(target))
            and _instruction_registers(problem, config) <= config.registers(target)
        ),
    ),
    Rule(
        sentence="ring, raw rows, filters and staging fit shared memory",
        holds=lambda problem, target, config: _geometry(problem, config).smem_bytes <= target.smem_per_block_bytes,
    ),
)
