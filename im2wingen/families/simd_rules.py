"""simd: which problems it runs and which configs are legal."""

from collections.abc import Callable

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.base import AnyTarget, Rule
from im2wingen.families.simd_config import (
    SimdGeometry,
    SimdVectors,
    has_planes,
    images_together,
    largest_part,
    vectors_of,
)
from im2wingen.families.simd_products import (
    PRECISIONS,
    TILE_REGISTERS,
    TILE_ROWS,
    has_words,
    lies_in_words,
    products_of,
    tile_registers,
    word_channels,
)
from im2wingen.families.support import ceil_div
from im2wingen.problem import ConvProblem

_MAX_STRAIGHT_FMAS = 1024  # of the innermost loop
_MAX_OFFSET = 2**31 - 1  # of what is counted in int
_STREAMED_BYTES = 16  # the smallest vector that can pass by the caches
_MAX_INT8_TERMS = 2**17 - 1
_MAX_COPIED = 2**28  # bytes of a thread's window
_LARGE_BYTES = 8 << 20
_MAX_PADDED = 2**30  # of what a stride is added to


def unsupported(problem: ConvProblem, target: AnyTarget) -> str | None:
    """The sentence why the family can't run the problem, or None."""
    if not isinstance(target, CpuTarget):
        return f"simd runs on the CPU, the target is {target.name}"
    if problem.precision not in PRECISIONS:
        return f"simd computes {', '.join(PRECISIONS)}; the problem is {problem.precision}"
    if problem.x_layout != problem.y_layout and {problem.x_layout, problem.y_layout} & {"chwn", "chwn8"}:
        return f"simd takes chwn and chwn8 for both x and y; the problem is {problem.layout}"
    if has_words(problem) and {problem.x_layout, problem.y_layout} & {"chwn", "chwn8"}:
        return f"simd takes {problem.precision} in nhwc and nchw; the problem is {problem.layout}"
    if problem.precision == "int8" and problem.gemm_k > _MAX_INT8_TERMS:
        return f"simd takes int8 with R*S*C up to {_MAX_INT8_TERMS}, whose sums int32 holds; it is {problem.gemm_k}"
    if has_words(problem) and 4 * problem.window_h * problem.padded_w * (problem.group_c + 15) > _MAX_COPIED:
        return f"simd takes {problem.precision} with up to 2^26 elements in as many rows as the filter has"
    if max(problem.h * problem.w, problem.p * problem.q) > _MAX_OFFSET:
        return "simd takes images of up to 2^31 - 1 pixels"
    if max(problem.padded_h, problem.padded_w, problem.gemm_k) > _MAX_PADDED:
        return "simd takes images of up to 2^30 rows and columns, pads included, and filters of up to 2^30 elements"
    if max(*problem.x_shape, *problem.y_shape, problem.stride_h, problem.stride_w, problem.c, problem.k) > 2**24:
        return "simd takes dimensions up to 2^24"
    return None


def _rule(sentence: str, holds: Callable[[SimdGeometry], bool]) -> Rule:
    return Rule(
        sentence=sentence,
        holds=lambda problem, target, config: holds(SimdGeometry.of(problem, target, config)),
    )


def streams(problem: ConvProblem, target: CpuTarget) -> bool:
    """Whether every vector of y can be an aligned one, of a size that can pass by the caches."""
    vector_of = vectors_of(problem)[0]
    product = products_of(problem, target)[0]
    vectors = SimdVectors(problem=problem, target=target, product=product, vector_of=vector_of)
    if vectors.hold_images:
        return images_together(problem) % vectors.lanes == 0 and vectors.vector_bytes >= _STREAMED_BYTES
    whole = problem.k % vectors.lanes == 0 and problem.k // problem.groups % vectors.lanes == 0
    large = vectors.lanes * problem.y_element_bytes >= _STREAMED_BYTES
    return problem.y_layout == "nhwc" and whole and large


def streams_large_y(problem: ConvProblem, target: CpuTarget) -> bool:
    """Likewise, of a y that no cache keeps for the next layer."""
    return problem.y_element_bytes * problem.gemm_m * problem.k > _LARGE_BYTES and streams(problem, target)


def _stores(geometry: SimdGeometry) -> bool:
    config, problem = geometry.config, geometry.problem
    if config.store == "cached":
        return True
    if has_planes(problem):
        return config.inner_loop == "pixels"
    return config.store == "streamed" and streams(problem, geometry.target)


def _parts_are_equal(geometry: SimdGeometry) -> bool:
    problem, config = geometry.problem, geometry.config
    pairs = (
        (geometry.units, config.tile_n), (problem.p, config.tile_p), (geometry.columns, config.tile_q),
        (geometry.group_vectors, config.vectors_k), (geometry.filter_tiles, config.block_k),
    )  # fmt: skip
    return all(largest_part(extent, most) == most for extent, most in pairs)


def _rows_of_items(geometry: SimdGeometry) -> bool:
    config = geometry.config
    return config.block_p == config.tile_p * geometry.block_row_tiles


def _registers_fit(geometry: SimdGeometry) -> bool:
    pixels, vectors = geometry.pixels, geometry.config.vectors_k
    if geometry.product == "amx":
        rows = geometry.config.tile_n * geometry.config.tile_p
        return geometry.config.tile_q <= TILE_ROWS and tile_registers(rows, vectors) <= TILE_REGISTERS
    kept = vectors if geometry.hold_channels else pixels
    return pixels * vectors + kept <= geometry.target.num_vector_registers


def legal_window(geometry: SimdGeometry) -> bool:
    """Whether the config's window holds the product's words."""
    problem, config = geometry.problem, geometry.config
    if not has_words(problem) or config.window == "copied":
        return True
    words = ceil_div(problem.group_c, word_channels(problem, config.product))
    whole = config.product != "amx" or words % geometry.chunk_words == 0
    return config.window == "direct" and lies_in_words(problem, config.product) and whole


def _memory_fits(geometry: SimdGeometry) -> bool:
    has_to = not lies_in_words(geometry.problem, geometry.product)
    return geometry.thread_bytes <= (_MAX_COPIED if has_to else geometry.target.l2_bytes)


RULES: tuple[Rule, ...] = (
    Rule(sentence="vectors hold images in CHWN; else output channels or, in NCHW with 16 columns or more and neither "
                  "stride nor pads between them, pixels",
         holds=lambda problem, target, config: config.vector_of in vectors_of(problem)),
    Rule(sentence="product must be one that the CPU has for the precision",
         holds=lambda problem, target, config: config.product in products_of(problem, target)),
    _rule("windows of bf16 and int8 must be copied unless x is NHWC, unpadded, and a group consists of the product's "
          "words", legal_window),
    _rule("AMX must step over channels", lambda g: g.product != "amx" or g.config.steps == "channels"),
    _rule("windows must not be explicit where vectors hold pixels",
          lambda g: g.vector_of != "pixels" or g.config.window != "explicit"),
    _rule("tiles and block_k must be the largest of equal parts of N, P, Q and K, those of vectors counted in them",
          _parts_are_equal),
    _rule("block_p must be whole tiles of rows, the largest of equal parts of P", _rows_of_items),
    _rule("block_c must be at most the channels of a group", lambda g: g.config.block_c <= g.problem.group_c),
    _rule("accumulators and the vectors of a step must fit the registers", _registers_fit),
    _rule("partial sums, copied windows and staged outputs of a thread must fit its L2 cache, or 256 MiB where windows "
          "have to be copied", _memory_fits),
    _rule("the innermost straight code must be at most 1024 multiplications",
          lambda g: g.pixels * g.config.vectors_k * g.config.unroll <= _MAX_STRAIGHT_FMAS),
    _rule("y is staged in NCHW alone, with pixels innermost, and streamed likewise or in whole vectors",
          _stores),
    _rule("there must be fewer than 2^31 items", lambda g: g.items <= _MAX_OFFSET),
)  # fmt: skip
