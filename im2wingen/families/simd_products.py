"""simd: what multiplies, and the words of channels that it multiplies; templates/parts/simd_words.h has the table."""

from typing import Literal

from im2wingen.cpu_target import CpuTarget
from im2wingen.families.support import ceil_div
from im2wingen.problem import ConvProblem, Precision

Product = Literal["fma", "madd", "dot", "amx"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp64", "bf16", "int8")
TILE_WORDS = 16  # of a pixel or an output channel in a tile register, at most
TILE_ROWS = 16
TILE_REGISTERS = 8
_NEEDS: dict[tuple[Precision, Product], tuple[str, ...]] = {  # of which a CPU has one
    ("bf16", "amx"): ("amx_bf16",), ("bf16", "dot"): ("avx512_bf16",),
    ("int8", "amx"): ("amx_int8",), ("int8", "dot"): ("avx512_vnni", "avx_vnni"),
}  # fmt: skip
_CHANNELS: dict[tuple[Precision, Product], int] = {
    ("bf16", "dot"): 2, ("bf16", "amx"): 2, ("int8", "madd"): 2, ("int8", "dot"): 4, ("int8", "amx"): 4
}  # fmt: skip


def has_words(problem: ConvProblem) -> bool:
    """Whether the problem's windows and filter are brought into words: bf16 and int8."""
    return problem.precision in ("bf16", "int8")


def products_of(problem: ConvProblem, target: CpuTarget) -> tuple[Product, ...]:
    """What can multiply on this CPU, the fastest first."""
    plain: Product = "madd" if problem.precision == "int8" else "fma"
    special: tuple[Product, ...] = ("amx", "dot")
    able = (p for p in special if set(_NEEDS.get((problem.precision, p), ())) & set(target.features))
    return (*able, plain)


def word_channels(problem: ConvProblem, product: Product) -> int:
    """Channels of a word."""
    return _CHANNELS.get((problem.precision, product), 1)


def word_bytes(problem: ConvProblem) -> int:
    """Of a word and of a sum."""
    return 8 if problem.precision == "fp64" else 4


def words_of(problem: ConvProblem, product: Product, channels: int) -> int:
    """Words of so many channels of a chunk; AMX's are whole tiles of equal length."""
    words = ceil_div(channels, word_channels(problem, product))
    tiles = ceil_div(words, TILE_WORDS) if product == "amx" else 1
    return tiles * ceil_div(words, tiles)


def tile_words(problem: ConvProblem, product: Product) -> int:
    """Words of a tile register, where a chunk is all channels: templates/parts/simd_amx.h's TILE_WORDS."""
    words = words_of(problem, product, problem.group_c)
    rows = problem.s * words if problem.dilation_w == 1 and problem.groups == 1 else words
    tap, row = (max(d for d in range(1, TILE_WORDS + 1) if run % d == 0) for run in (words, rows))
    return row if row > 3 * tap // 2 else tap


def lies_in_words(problem: ConvProblem, product: Product) -> bool:
    """Whether an x consists of such words as it is, so that its windows can be read in place."""
    if not has_words(problem):
        return True
    as_they_are = product == "amx" or (product == "dot" and problem.precision == "bf16")
    whole = problem.group_c % word_channels(problem, product) == 0
    return as_they_are and whole and problem.x_layout == "nhwc" and not problem.has_padding


def tile_registers(rows: int, vectors: int) -> int:
    """Of sums, of the operand that there is less of, and one of the other."""
    return rows * vectors + min(rows, vectors) + 1
