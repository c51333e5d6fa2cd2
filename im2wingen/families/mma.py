"""The mma family: fp16, bf16 and tf32 on tensor cores through mma.sync, sm_80 and later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Literal, TypeVar

from im2wingen.families.base import Choose, Config, Family, Launch, Plan, Rule
from im2wingen.families.climb import climb
from im2wingen.families.mma_cost import priced, thread_registers
from im2wingen.families.occupancy import resident_ctas, sm_cycles
from im2wingen.families.support import (
    MAX_GRID_X,
    FilterOrder,
    ceil_div,
    filter_taps,
    pack_filter,
    problem_values,
    round_up,
    unit_elements,
    window_transform,
)
from im2wingen.families.tiles import PixelTile, pixel_tiles
from im2wingen.problem import ConvProblem
from im2wingen.target import PRESETS, Target

Staging = Literal["window", "tap", "explicit"]
Order = Literal["linear", "zigzag"]
T = TypeVar("T")
_WARP_WIDTHS = (16, 32, 48, 64, 96, 128)
_SMALL_TILES, _LARGE_TILES = ((32, 64),), ((65, 128), (129, 192), (193, 256))  # pixels
_SMALL_COUNT, _LARGE_COUNT = 5, 8  # candidates of a size
_MAX_COLUMN_CHANNELS = 256
_LONG_K = 4096  # bytes of the K axis from which warps may share a tile
_CLIMBS = 3  # starts of the search for the default
_COPIED_BYTES = 16  # a cycle and SM, by kernels that only copy
_THRIFT = 24  # registers that the compiler saves where it has to
_RESERVED_SMEM = 1024  # per CTA, by the system


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaConfig(Config):
    """One way to run mma.cu.j2; see its parameter block for the meaning of each field."""

    staging: Staging
    window_order: FilterOrder  # of the K axis; column and run fold the filter's rows or columns into the channels
    tile_n: int
    tile_p: int
    tile_q: int
    warps_m: int
    warps_n: int
    warps_k: int
    warp_n: int
    patch_k: int
    block_k: int
    copy_bytes: int
    num_stages: int
    fragment_stages: int
    pad_rows: bool
    ctas_per_sm: int
    tile_order: Order
    fragment_order: Order

    @property
    def tile(self) -> PixelTile:
        return PixelTile(n=self.tile_n, p=self.tile_p, q=self.tile_q)

    @property
    def warp_m(self) -> int:
        return round_up(ceil_div(self.tile.pixels, self.warps_m), 16)

    @property
    def block_m(self) -> int:
        return self.warps_m * self.warp_m

    @property
    def block_n(self) -> int:
        return self.warps_n * self.warp_n

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n * self.warps_k

    @property
    def num_accumulators(self) -> int:
        """fp32 accumulator registers of a thread."""
        return self.warp_m * self.warp_n // 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaGeometry:
    """Numbers that follow from a problem and a config; the template derives the same ones."""

    problem: ConvProblem
    config: MmaConfig

    @property
    def column_order(self) -> bool:
        return self.config.window_order == "column"

    @property
    def run_order(self) -> bool:
        return self.config.window_order == "run"

    @property
    def unit(self) -> int:
        return unit_elements(self.problem)

    @property
    def channels(self) -> int:
        """Channels of a tap, padded to 16 bytes; in run order, whose rows are padded to 4 bytes, all of the K axis."""
        return padded_channels(self.problem, self.config.window_order)

    @property
    def taps(self) -> int:
        return 1 if self.run_order else filter_taps(self.problem, self.config.window_order)[0]

    @property
    def chunk_slices(self) -> int:
        return ceil_div(self.taps * self.config.patch_k, self.config.block_k)

    @property
    def chunks(self) -> int:
        return ceil_div(self.channels, self.config.patch_k)

    @property
    def patch_elements(self) -> int:
        """Shared-memory elements of one patch buffer (window) or one A stage."""
        problem, config = self.problem, self.config
        if config.staging != "window":
            return config.block_m * self._odd_pitch(config.block_k)
        if self.run_order:
            row = round_up(self.patch_w * problem.c, 4 // problem.element_bytes)
            patch_h = (config.tile_p - 1) * problem.stride_h + problem.window_h
            return round_up(config.tile_n * patch_h * row, self.unit)
        rows = config.tile_p if self.column_order else (config.tile_p - 1) * problem.stride_h + problem.window_h
        row = self._bank_pitch(
            problem.stride_w * ceil_div(self.patch_w, problem.stride_w),
            1 if self.column_order else problem.stride_h,
            config.tile_q,
        )
        image = self._bank_pitch(rows * row, 1, config.tile_p * config.tile_q)
        return config.tile_n * image * self._odd_pitch(config.patch_k)

    @property
    def patch_w(self) -> int:
        """Input columns that a tile's row of outputs needs."""
        return (self.config.tile_q - 1) * self.problem.stride_w + self.problem.window_w

    @property
    def staged_elements(self) -> int:
        """Elements of A that one CTA requests from global memory."""
        problem, config = self.problem, self.config
        if config.staging != "window":
            return self.chunk_slices * config.block_m * config.block_k
        return config.tile.patch_pixels(problem) * (self.chunks * config.patch_k if config.window_order == "row" else problem.c)

    @property
    def patch_buffers(self) -> int:
        if self.config.staging != "window":
            return self.config.num_stages
        return min(self.chunks, 1 + ceil_div(self.config.num_stages - 1, self.chunk_slices))

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        config = self.config
        stages = self.patch_buffers * self.patch_elements
        stages += config.num_stages * config.block_n * self._odd_pitch(config.block_k)
        rows, pitch = config.block_m, config.block_n
        if self.problem.y_layout == "nchw":
            rows, pitch = pitch, rows
        epilogue = rows * (pitch + self.unit)
        if config.warps_k > 1:
            epilogue = max(epilogue, config.block_m * config.block_n * 4 // self.problem.element_bytes)
        run_bytes = 4 * self.run_words if self.run_order else 0
        return run_bytes + (self.unit + max(stages, epilogue)) * self.problem.element_bytes

    @property
    def run_words(self) -> int:
        """4-byte words of the K axis, its last slice complete."""
        return self.chunk_slices * self.config.block_k * self.problem.element_bytes // 4

    @property
    def tiles_n(self) -> int:
        return ceil_div(self.problem.k, self.config.block_n)

    @property
    def ctas(self) -> int:
        return self.config.tile.count(self.problem) * self.tiles_n

    def _bank_pitch(self, least: int, step: int, pixels: int) -> int:
        if not self.config.pad_rows:
            return least
        return next((pitch for pitch in range(least, least + 8) if (pitch * step - pixels) % 8 == 0), least)

    def _odd_pitch(self, elements: int) -> int:
        return (elements // self.unit | 1) * self.unit


def run_channels(problem: ConvProblem) -> int:
    """Elements of one filter row in run order, padded to 4 bytes."""
    return round_up(problem.s * problem.c, 4 // problem.element_bytes)


def padded_channels(problem: ConvProblem, order: FilterOrder) -> int:
    """Channels of a tap in whole 16-byte units; in run order R runs make up the one tap."""
    elements = problem.r * run_channels(problem) if order == "run" else filter_taps(problem, order)[1]
    return round_up(elements, unit_elements(problem))


def _runs(problem: ConvProblem) -> bool:
    """Whether a window's rows are runs of x that begin at 4-byte words."""
    pixel = problem.stride_w * problem.c * problem.element_bytes
    return problem.x_layout == "nhwc" and problem.dilation_w == 1 and pixel % 4 == 0


def _copy_choices(problem: ConvProblem, order: FilterOrder) -> list[int]:
    """Bytes that one copy of x may move: what divides a pixel's channels, or in run order 4 if rows begin at words."""
    if problem.x_layout == "nchw":
        return [16]
    if order == "run":
        row, pad = (extent * problem.c * problem.element_bytes for extent in (problem.w, problem.pad_left))
        return [4] if row % 4 == 0 and pad % 4 == 0 else [problem.element_bytes]
    pixel = problem.c * problem.element_bytes
    return [b for b in (16, 8, 4) if pixel % b == 0] or [problem.element_bytes]


def _block_k_choices(problem: ConvProblem) -> list[int]:
    unit = unit_elements(problem)
    return [2 * unit, 4 * unit, 8 * unit, 16 * unit]


def _patch_k_choices(problem: ConvProblem) -> list[int]:
    """Channels of a chunk in row order that waste little of the last chunk; small ones only for want of others."""
    unit, channels = unit_elements(problem), padded_channels(problem, "row")
    for multiples in ((4, 8, 16), (2, 6, 12)):
        sizes = {min(channels, m * unit) for m in multiples} | ({channels} if channels <= 16 * unit else set())
        fair = sorted(s for s in sizes if s * ceil_div(channels, s) <= 1.1 * channels)
        if fair:
            return fair
    return [channels]


def _stagings(problem: ConvProblem) -> list[Staging]:
    """The window alone, but where it holds much that no tap reads, or where x has to be transposed."""
    if problem.x_layout == "nchw":
        return ["window", "tap", "explicit"]
    sparse = problem.stride_h > problem.r or problem.stride_w > problem.s
    sparse = sparse or problem.window_h * problem.window_w > min(2 * problem.r * problem.s, 400)
    return ["window", "tap"] if sparse else ["window"]


def _orders(problem: ConvProblem) -> list[FilterOrder]:
    """Orders of the K axis worth trying: folding pays where a pixel has few channels."""
    unit = unit_elements(problem)
    orders: list[FilterOrder] = ["row"] if 2 * problem.c > unit else []
    if problem.c < 4 * unit and padded_channels(problem, "column") <= _MAX_COLUMN_CHANNELS:
        orders.append("column")
    if _runs(problem) and problem.c < 2 * unit:
        orders.append("run")
    return orders or ["row"]


def _warp_columns(problem: ConvProblem) -> list[str]:
    """Ways to lay warps (count x width) over the output channels that waste at most a third."""
    widths = [n for n in (32, 48, 64) if n < problem.k + 16 and (n != 48 or problem.k % 48 == 0)] or [16]
    fair = [
        f"{count}x{n}"
        for count, n in product((1, 2, 4), widths)
        if (count - 1) * n < problem.k and 3 * round_up(problem.k, count * n) <= 4 * problem.k
    ]
    return fair or [f"1x{widths[0]}"]


@lru_cache(maxsize=64)
def _tiles(problem: ConvProblem) -> Mapping[str, PixelTile]:
    """Candidates by name."""
    small = pixel_tiles(problem, sizes=_SMALL_TILES, per_size=_SMALL_COUNT)
    return {str(tile): tile for tile in small + pixel_tiles(problem, sizes=_LARGE_TILES, per_size=_LARGE_COUNT)}


def _patches_that_fit(problem: ConvProblem, target: Target, tile: PixelTile) -> list[int]:
    """Channels of a chunk in row order whose patches, two if there are more, leave room for the filter's slices."""
    room = 3 * target.smem_per_block_bytes // 4 // (tile.patch_pixels(problem) * problem.element_bytes)
    sizes = _patch_k_choices(problem)
    channels = padded_channels(problem, "row")
    return [s for s in sizes if (s + unit_elements(problem)) * min(2, ceil_div(channels, s)) <= room] or sizes[:1]


def _choose_of(choose: Choose, name: str, choices: Sequence[T]) -> T:
    """A pick whose choices depend on earlier ones; they go into the name, and a single one is no choice."""
    return choices[0] if len(choices) == 1 else choose(f"{name}.{'_'.join(map(str, choices))}", choices)


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> MmaConfig:
    """A config from the search space; most of its picks are legal together."""
    unit, channels = unit_elements(problem), padded_channels(problem, "row")
    staging = choose("staging", _stagings(problem))
    order: FilterOrder = "column" if staging == "explicit" else "row"
    if staging == "window":
        order = choose("window_order", _orders(problem))
    warps_n, warp_n = map(int, choose("warps_n,warp_n", _warp_columns(problem)).split("x"))
    tile = _tiles(problem)[choose("tile_n,tile_p,tile_q", list(_tiles(problem)))]
    by_rows = staging == "window" and order == "row"
    patch_k = padded_channels(problem, order)
    if by_rows:
        patch_k = _choose_of(choose, "patch_k", _patches_that_fit(problem, target, tile))
    blocks = [m * unit for m in ((2, 4, 8) if order == "run" else (4, 8))]
    if by_rows and patch_k < channels:  # whole slices
        blocks = [b for b in blocks if patch_k % b == 0] or [2 * unit if patch_k % (2 * unit) == 0 else blocks[0]]
    block_k = _choose_of(choose, "block_k", blocks)
    shared = problem.gemm_k * problem.element_bytes >= _LONG_K and warps_n <= 2
    warps_k = _choose_of(choose, "warps_k", [1, 2] if shared else [1])
    even = block_k // (2 * unit * warps_k) % 2 == 0
    fragment_stages = _choose_of(choose, "fragment_stages", [2] if even and order == "row" else [1, 2] if even else [1])
    if staging == "explicit" or order == "run":
        copy_bytes = 16 if staging == "explicit" else _copy_choices(problem, order)[0]
    else:
        copy_bytes = choose("copy_bytes", _copy_choices(problem, order)[:2])
    config = MmaConfig(
        staging=staging,
        window_order=order,
        tile_n=tile.n,
        tile_p=tile.p,
        tile_q=tile.q,
        warps_m=1,
        warps_n=warps_n,
        warps_k=warps_k,
        warp_n=warp_n,
        patch_k=patch_k,
        block_k=block_k,
        copy_bytes=copy_bytes,
        num_stages=2,
        fragment_stages=fragment_stages,
        pad_rows=choose("pad_rows", [False, True]) if staging == "window" and order != "run" else False,
        ctas_per_sm=1,
        tile_order=choose("tile_order", ["linear", "zigzag"]),
        fragment_order=choose("fragment_order", ["linear", "zigzag"]),
    )
    config = replace(config, warps_m=_choose_of(choose, "warps_m", _warp_rows(target, config)))
    config = replace(config, num_stages=_choose_of(choose, "num_stages", _stages(problem, target, config)))
    return replace(config, ctas_per_sm=_choose_of(choose, "ctas_per_sm", _ctas(problem, target, config)))


def _warp_rows(target: Target, config: MmaConfig) -> list[int]:
    """Warps along the pixels whose threads' registers hold their tile; 32 pixels a warp are few, 160 many."""
    ways = [replace(config, warps_m=n) for n in (1, 2, 4)]
    fair = [way for way in ways if (way.warp_m >= 32 or way.warps_m == 1) and way.warp_m <= 160 and way.threads <= 512]
    return [way.warps_m for way in fair if _registers_suffice(target, way)] or [4 // config.warps_k]


def _registers_suffice(target: Target, config: MmaConfig) -> bool:
    needed = thread_registers(config.warp_m, config.warp_n, config.fragment_stages) - _THRIFT
    return needed <= _register_limit(target, config) and estimated_registers(config) <= _register_limit(target, config)


def _stages(problem: ConvProblem, target: Target, config: MmaConfig) -> list[int]:
    """Two to four that fit shared memory and the K axis; a single one where the K axis has one slice or two."""
    slices = _iterations(problem, config)
    counts = [1, 2] if slices <= 2 and config.fragment_stages == 1 else range(2, max(2, min(4, slices)) + 1)
    return [n for n in counts if _smem_fits(problem, target, replace(config, num_stages=n))] or [2]


def _ctas(problem: ConvProblem, target: Target, config: MmaConfig) -> list[int]:
    """CTAs of an SM, up to three, that shared memory and registers allow."""
    ways = [replace(config, ctas_per_sm=n) for n in (2, 3)]
    fair = [way for way in ways if _smem_fits(problem, target, way) and _registers_suffice(target, way)]
    return [1, *(way.ctas_per_sm for way in fair if way.ctas_per_sm * way.threads <= target.max_threads_per_sm)]


def unsupported(problem: ConvProblem, target: Target) -> str | None:
    if problem.precision not in ("fp16", "bf16", "tf32"):
        return f"precision {problem.precision} is not one of fp16, bf16, tf32"
    if problem.groups != 1:
        return "groups above 1 are not supported"
    if target.compute_capability < 80:
        return f"needs sm_80 or later, the target is {target.arch}"
    if max(problem.c * problem.h * problem.w, problem.k * problem.p * problem.q) >= 2**31:
        return "one image has 2^31 elements or more"
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
        holds=lambda problem, target, config: config.warp_n in _WARP_WIDTHS,
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
        sentence="accumulators and fragments of a thread fit its registers",
        holds=lambda problem, target, config: estimated_registers(config) <= _register_limit(target, config),
    ),
    Rule(
        sentence="block_k is 2, 4, 8 or 16 units of 16 bytes",
        holds=lambda problem, target, config: config.block_k in _block_k_choices(problem),
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
        sentence="the warps_k warps of a tile have equally many steps (block_k / 2 units) in a slice",
        holds=lambda problem, target, config: config.block_k // (2 * unit_elements(problem)) % config.warps_k == 0,
    ),
    Rule(
        sentence="fragment_stages 2 needs two or more stages, and an even number of steps for a warp in a slice",
        holds=lambda problem, target, config: (
            config.fragment_stages == 1
            or (config.num_stages > 1 and config.block_k // (2 * unit_elements(problem) * config.warps_k) % 2 == 0)
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
        holds=lambda problem, target, config: config.window_order != "run" or _runs(problem),
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
        sentence="copy_bytes divides the bytes of one pixel's channels (16 for NCHW and for explicit staging, at most 4 for runs)",
        holds=lambda problem, target, config: (
            config.copy_bytes == 16
            if config.staging == "explicit" or problem.x_layout == "nchw"
            else config.copy_bytes in _copy_choices(problem, config.window_order)
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
        holds=lambda problem, target, config: config.num_stages <= max(2, _iterations(problem, config)),
    ),
    Rule(
        sentence="the CTAs of an SM fit its shared memory",
        holds=lambda problem, target, config: _smem_fits(problem, target, config),
    ),
    Rule(
        sentence="the CTAs of an SM fit its threads",
        holds=lambda problem, target, config: config.ctas_per_sm * config.threads <= target.max_threads_per_sm,
    ),
    Rule(
        sentence="the grid has less than 2^31 CTAs",
        holds=lambda problem, target, config: MmaGeometry(problem=problem, config=config).ctas <= MAX_GRID_X,
    ),
)


def estimated_registers(config: MmaConfig) -> int:
    """At least what the compiler needs: accumulators, one set of fragments, and addresses."""
    fragments = config.warp_m // 16 * 4 + config.warp_n // 8 * 2
    return config.num_accumulators + fragments + 24


def _register_limit(target: Target, config: MmaConfig) -> int:
    return min(255, target.regs_per_sm // (config.ctas_per_sm * config.threads))


def _iterations(problem: ConvProblem, config: MmaConfig) -> int:
    geometry = MmaGeometry(problem=problem, config=config)
    return geometry.chunks * geometry.chunk_slices


def _smem_fits(problem: ConvProblem, target: Target, config: MmaConfig) -> bool:
    needed = MmaGeometry(problem=problem, config=config).smem_bytes
    per_sm = config.ctas_per_sm * (needed + _RESERVED_SMEM)
    return needed <= target.smem_per_block_bytes and per_sm <= target.smem_per_sm_bytes


@lru_cache(maxsize=256)
def default(problem: ConvProblem, target: Target) -> MmaConfig:
    """The config with the least estimated time: the best of a few tiles and warps, bettered choice by choice."""

    def rank(config: Config) -> tuple[float, str]:
        launches = plan(problem, target, config).launches  # type: ignore[arg-type]
        return sum(_cycles(launch, target) for launch in launches), config.digest()

    starts = [config for config in _starts(problem, target) if not MMA.broken_rules(problem, target, config)]
    if not starts:
        return _small(problem, target)
    best = sorted(starts, key=rank)[:_CLIMBS]
    return min((climb(MMA, problem, target, config, rank) for config in best), key=rank)  # type: ignore[return-value]


def _cycles(launch: Launch, target: Target) -> float:
    """Estimated cycles of the whole launch; those that move memory alone do it at the speed of L2."""
    if not launch.busy_cycles:
        return launch.l2_bytes / (_COPIED_BYTES * target.sm_count)
    resident = resident_ctas(launch, target)
    return sm_cycles(launch, target, resident, busy=launch.busy_cycles, idle=launch.idle_cycles)


def _starts(problem: ConvProblem, target: Target) -> list[MmaConfig]:
    """Every staging, order and layout of warps with the best tiles of each size."""
    unit = unit_elements(problem)
    usual = {"patch_k": 8 * unit, "block_k": 8 * unit, "num_stages": 3, "fragment_stages": 2, "ctas_per_sm": 2}
    others = [staging for staging in _stagings(problem) if staging != "window"]
    tiles = pixel_tiles(problem, sizes=_SMALL_TILES + _LARGE_TILES, per_size=3)
    configs: dict[MmaConfig, None] = {}
    for way, columns, tile, rows in product([*_orders(problem), *others], _warp_columns(problem), tiles, (2, 4)):
        wanted: dict[str, object] = usual | {
            "staging": way if way in others else "window", "window_order": way, "warps_n,warp_n": columns,
            "tile_n,tile_p,tile_q": str(tile), "warps_m": rows,
        }  # fmt: skip

        def pick(name: str, choices: Sequence[T], /, wanted: dict[str, object] = wanted) -> T:
            value = wanted.get(name.partition(".")[0])
            return value if value in choices else choices[0]  # type: ignore[return-value]

        configs[suggest(problem, target, pick)] = None
    return list(configs)


def _small(problem: ConvProblem, target: Target) -> MmaConfig:
    """The first legal one of a short list, from large tiles to the smallest."""
    unit = unit_elements(problem)
    order = _orders(problem)[-1]
    channels = padded_channels(problem, order)
    patch_k = channels if order != "row" or channels <= 8 * unit else _patch_k_choices(problem)[0]
    tiles = pixel_tiles(problem, sizes=((1, 32), *_SMALL_TILES), per_size=2)
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
            block_k=2 * unit,
            copy_bytes=_copy_choices(problem, order if staging == "window" else "row")[0],
            num_stages=stages,
            fragment_stages=1,
            pad_rows=False,
            ctas_per_sm=1,
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
    if problem.w_layout != "krsc" or config.window_order != "row" or geometry.channels != problem.c:
        channels = run_channels(problem) if geometry.run_order else geometry.channels
        launch, size = pack_filter(problem, order=config.window_order, channels_contiguous=True, channels=channels)
        launches.append(launch)
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
            "CTAS_PER_SM": config.ctas_per_sm,
            "TILE_ORDER_ZIGZAG": config.tile_order == "zigzag",
            "FRAGMENT_ORDER_ZIGZAG": config.fragment_order == "zigzag",
        },
        grid=(geometry.ctas, 1, 1),
        block=config.threads,
        smem_bytes=geometry.smem_bytes,
        arguments=(source_name, filter_name, "bias", "y", "x", "w"),
        pipe="mma",
        flops=2 * geometry.ctas * config.block_m * config.block_n * iterations * config.block_k,
        l2_bytes=geometry.ctas
        * element
        * (geometry.staged_elements + config.block_n * iterations * config.block_k + config.tile.pixels * config.block_n),
    )
    launches.append(priced(convolution, target))
    return Plan(launches=tuple(launches), workspace=workspace)


MMA = Family(
    name="mma",
    config_type=MmaConfig,
    templates=("mma", "pack_filter", "window_transform"),
    archs=tuple(PRESETS),
    unsupported=unsupported,
    suggest=suggest,
    rules=RULES,
    default=default,
    plan=plan,
)
