"""simt: the search space."""

from fractions import Fraction
from math import gcd
from typing import Any, get_args

from im2wingen.families.base import Choose
from im2wingen.families.simt_config import Reads, SimtConfig, Staging
from im2wingen.families.simt_geometry import copies_in_bulk
from im2wingen.families.support import round_up
from im2wingen.problem import ConvProblem
from im2wingen.target import Target

_MAX_WASTE = 1.13  # computed over wanted, of one dimension of the output
_TINY = 1 << 20  # outputs; a convolution with fewer is a matter of latency and may waste
_MAX_THREADS = 512
_MAX_IDLE = 1.05  # lanes of a CTA over those that compute
_MAX_OUTPUT_REGISTERS = 200  # of a thread
_STRAIGHT_FFMAS, _MOST_STRAIGHT_FFMAS = 128, 2700  # after which a loop hardly counts; that a loop may grow to
_OTHER_REGISTERS = 30  # of a thread, at the least, beside its accumulators


def thread_columns(problem: ConvProblem) -> list[int]:
    """Columns of a thread that waste little of Q."""
    least = 1 if problem.q < 8 else 3
    return [t for t in range(least, 19) if t <= problem.q and _fair(problem, problem.q, t)] or [1]


def tile_columns(problem: ConvProblem, thread_q: int) -> list[int]:
    """Columns of a CTA, in whole threads."""
    return [tile for tile in _tiles(problem, problem.q, thread_q) if _odd_part(tile // thread_q) <= 7]


def thread_filters(problem: ConvProblem) -> list[int]:
    """Filters of a thread."""
    return [t for t in (4, 8, 12, 16) if t == 4 or (t <= problem.k and _fair(problem, problem.k, t))]


def thread_rows(problem: ConvProblem, outputs: int) -> list[int]:
    """Rows (or images) of a thread that computes `outputs` in each."""
    fair = [t for t in range(1, 8) if t <= 2 or (t <= problem.p and _fair(problem, problem.p, t))]
    return [t for t in fair if t * output_registers(problem, outputs) <= _MAX_OUTPUT_REGISTERS] or [1]


def tile_rows(problem: ConvProblem, thread_p: int, threads_q: int) -> list[int]:
    """Rows of a CTA: whole threads, or few rows whose threads reach over images."""
    whole = _tiles(problem, problem.p, thread_p)
    across = [t for t in range(1, 17) if t % thread_p and t <= problem.p and _waste(problem.p, t) == 1.0]
    tiles = sorted({*whole, *across} if thread_p < 2 * problem.n else whole)
    fair = [t for t in tiles if any(_fair_images(problem, Fraction(t * threads_q * n, thread_p), 1) for n in _COUNTS_N)]
    return fair or [thread_p]


def block_filters(problem: ConvProblem, thread_n: int, threads_m: Fraction) -> list[int]:
    """Filters of a CTA, for a thread's and for the threads along the pixels of one image."""
    least = min(n for n in _COUNTS_N if n * thread_n % 4 == 0)
    blocks = [n * thread_n for n in _COUNTS_N if n == least or n * thread_n < problem.k + thread_n * n / 2]
    fair = [block for block in blocks if block == blocks[0] or _fair(problem, problem.k, block)]
    return [b for b in fair if _fair_images(problem, threads_m * b / thread_n, 1)] or fair


def tile_images(problem: ConvProblem, threads_per_image: Fraction, together: int) -> list[int]:
    """Images of a CTA that make a fair number of threads; a thread takes `together` of them."""
    return _fair_images(problem, threads_per_image, together) or [together]


def pixel_lanes(threads_m: int, threads_n: int) -> list[int]:
    """Ways to lay a warp over threads_m * threads_n."""
    ways = [lanes for lanes in (1, 2, 4, 8, 16, 32) if threads_n % (32 // lanes) == 0]
    return [lanes for lanes in ways if round_up(threads_m, lanes) <= _MAX_IDLE * threads_m] or ways[-1:]


def block_channels(problem: ConvProblem) -> list[int]:
    """Channels of a stage."""
    few = [problem.c] if problem.c <= 6 else []
    return sorted({*few, *(c for c in (1, 2, 4, 8, 16, 32) if c < 2 * problem.c)})


def unrolled_channels(ffmas: int, channels: int) -> list[int]:
    """Channels of a stage as straight code, `ffmas` multiply-adds each: enough to hide the loop, and more."""
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    enough = next((n for n in divisors if n * ffmas >= _STRAIGHT_FFMAS), channels)
    return [n for n in divisors if n == enough or enough < n <= _MOST_STRAIGHT_FFMAS // ffmas][:3]


def block_filter_rows(problem: ConvProblem) -> list[int]:
    """Filter rows of a stage."""
    return sorted({1, problem.r, *(r for r in (2, 3) if problem.r % r == 0)})


def output_registers(problem: ConvProblem, outputs: int) -> int:
    """Registers of so many accumulators."""
    return outputs * max(1, problem.element_bytes // 4)


def resident_ctas(threads: int, registers: int) -> list[int]:
    """CTAs of an SM whose threads' registers hold their accumulators, which take `registers`."""
    most = 65536 // (threads * (registers + _OTHER_REGISTERS))
    return [n for n in range(1, min(most, 8) + 1) if n * threads >= 128 or n == most] or [1]


def x_vectors(problem: ConvProblem, columns: int) -> list[int]:
    """Elements of x that one aligned copy can move along w; `columns` divides every box's first column."""
    if problem.x_layout != "nchw" or problem.stride_w != 1 or problem.s == 1:
        return [1]
    widths = [v for v in (1, 2, 4) if v * problem.element_bytes <= 16]
    return [v for v in widths if problem.w % v == 0 and problem.pad_left % v == 0 and columns % v == 0]


def stores(problem: ConvProblem, target: Target) -> tuple[str, ...]:
    """Ways of outputs to y."""
    if problem.y_layout == "nhwc":
        return ("registers",)
    return ("registers", "shared", "sectors", *(["bulk"] if copies_in_bulk(target) else []))


def store_filters(store: str, thread_n: int) -> list[int]:
    """Filters of a thread that it stores at once."""
    return [1] if store in ("registers", "bulk") else [n for n in (8, 4, 2, 1) if thread_n % n == 0][:3]


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> SimtConfig:
    """A config from the search space; most of its picks are legal together."""
    staging: Staging = choose("staging", get_args(Staging))
    store = choose("store", stores(problem, target))
    thread_q = choose("thread_q", thread_columns(problem))
    tile_q = choose(f"tile_q.{thread_q}", tile_columns(problem, thread_q))
    thread_n = choose("thread_n", thread_filters(problem))
    thread_p = choose(f"thread_p.{thread_q * thread_n}", thread_rows(problem, thread_q * thread_n))
    threads_q = tile_q // thread_q
    tile_p = choose(f"tile_p.{thread_p}x{threads_q}", tile_rows(problem, thread_p, threads_q))
    threads_m = Fraction(tile_p * threads_q, thread_p)
    block_n = choose(f"block_n.{thread_n}x{threads_m}", block_filters(problem, thread_n, threads_m))
    threads_n = block_n // thread_n
    together = images_together(tile_p, thread_p)
    tile_n = choose(f"tile_n.{threads_m * threads_n}x{together}", tile_images(problem, threads_m * threads_n, together))
    threads = int(tile_n * threads_m * threads_n)
    registers = output_registers(problem, thread_p * thread_q * thread_n)
    lanes_m = pixel_lanes(threads // threads_n, threads_n)
    aligned = 4 if tile_q >= problem.q else gcd(tile_q, 4)
    one_tap = staging == "tap"
    block_c = choose("block_c", block_channels(problem))
    divisors = gcd(block_c, 4) if 4 * threads <= _MAX_THREADS else 1
    slices = choose(f"slices.{divisors}", [n for n in (1, 2, 4) if divisors % n == 0])
    block_r = choose("block_r.tap", (1,)) if one_tap else choose("block_r", block_filter_rows(problem))
    unroll_r = choose("unroll_r.tap", (True,)) if one_tap else choose("unroll_r", (True, False))
    ffmas = (1 if one_tap else problem.s) * (block_r if unroll_r else 1) * thread_p * thread_q * thread_n
    picks: dict[str, Any] = {
        "lanes_m": choose(f"lanes_m.{'-'.join(map(str, lanes_m))}", lanes_m),
        "block_c": block_c,
        "slices": slices,
        "block_r": block_r,
        "num_stages": choose("num_stages", (1, 2, 3, 4)),
        "ctas_per_sm": choose(
            f"ctas_per_sm.{slices * threads}x{registers}", resident_ctas(slices * threads, registers)
        ),
        "persistent": choose("persistent", (False, True)),
        "unroll_r": unroll_r,
        "unroll_c": choose(f"unroll_c.{ffmas}x{block_c // slices}", unrolled_channels(ffmas, block_c // slices)),
        "reads": choose("reads.row", ("free", "ordered")) if thread_p == 1 else choose("reads", get_args(Reads)),
        "x_vector": choose(f"x_vector.{aligned}", x_vectors(problem, aligned))
        if staging == "window"
        else choose("x_vector.single", (1,)),
        "store": store,
        "store_n": choose(f"store_n.{store}x{thread_n}", store_filters(store, thread_n)),
        "tile_order": choose("tile_order", ("linear", "zigzag")),
        "fragment_order": choose("fragment_order", ("linear", "zigzag")),
        "fragment_outer": choose("fragment_outer", ("pixels", "filters")),
        "accumulators": choose("accumulators", ("stored", "copied", "placed", "shifted")),
    }
    return SimtConfig(
        staging=staging, tile_n=tile_n, tile_p=tile_p, tile_q=tile_q, block_n=block_n, thread_p=thread_p,
        thread_q=thread_q, thread_n=thread_n, **picks,
    )  # fmt: skip


def images_together(tile_p: int, thread_p: int) -> int:
    """Images that one thread computes in."""
    return 1 if tile_p % thread_p == 0 else thread_p


_COUNTS_N = (1, 2, 4, 8, 16, 32)  # threads along the filters


def _fair_images(problem: ConvProblem, threads_per_image: Fraction, together: int) -> list[int]:
    images = [together * n for n in (1, 2, 4, 8, 16, 32) if together * n < 2 * problem.n]
    whole, parts = threads_per_image.numerator, threads_per_image.denominator
    return [n for n in images if n * whole % parts == 0 and _fair_threads(n * whole // parts)]


def _fair_threads(threads: int) -> bool:
    return threads <= _MAX_THREADS and round_up(threads, 32) <= _MAX_IDLE * threads


def _waste(extent: int, tile: int) -> float:
    return round_up(extent, tile) / extent


def _odd_part(number: int) -> int:
    return number // (number & -number)


def _fair(problem: ConvProblem, extent: int, tile: int) -> bool:
    return _waste(extent, tile) <= (2.0 if problem.gemm_m * problem.k < _TINY else _MAX_WASTE)


def _tiles(problem: ConvProblem, extent: int, thread: int) -> list[int]:
    """Multiples of `thread` that waste little of the extent, for CTAs of up to 32 threads along it."""
    whole = round_up(extent, thread)
    counts = range(1, min(32, whole // thread) + 1)
    return [n * thread for n in counts if _fair(problem, whole, n * thread)]
