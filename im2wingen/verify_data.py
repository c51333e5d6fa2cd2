"""How far from the float64 reference a kernel may be, and the errors that say it is farther."""

import math
from dataclasses import dataclass
from typing import Literal

from im2wingen.errors import Im2wingenError
from im2wingen.families.base import Arithmetic
from im2wingen.problem import ConvProblem, Precision

Kind = Literal["normal", "integer"]  # of the test data
INPUT_MAGNITUDE = 2  # of integer x and w: their products' sums stay exact in fp32, and in the 14 bits of fp8's
BIAS_MAGNITUDE = 8
_INT8_MAGNITUDE, _INT8_BIAS_MAGNITUDE = 128, 2**20  # of int8 the whole range: 128 saturates
_INT8_DEVIATION, _INT8_BIAS_DEVIATION = 40.0, 2.0**16  # of normals that are rounded to int8


class WrongResultError(Im2wingenError):
    """A kernel's numbers are wrong; the sentence says how many, the worst and where."""


class GuardError(Im2wingenError):
    """A kernel wrote outside its buffers; the sentence says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """|y - ref| <= output_rounding * |ref| + term_rounding * sum |x * w| + absolute; ||y - ref|| <= norm * ||ref||."""

    output_rounding: float
    term_rounding: float
    absolute: float
    norm: float = math.inf

    def breach(self, norm_error: float) -> str | None:
        """The sentence of a norm-relative error beyond the bound, or None."""
        if norm_error <= self.norm:
            return None
        return f"the norm-relative error of y on normal data is {norm_error:.3g}; allowed is {self.norm:.3g}"


_OUTPUT_ROUNDING: dict[Precision, float] = {
    "fp64": 2.0**-52, "fp32": 2.0**-24, "tf32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8,
    "int8": 0.0, "e4m3": 2.0**-11, "e5m2": 2.0**-11,
}  # fmt: skip
_INPUT_ROUNDING: dict[Precision, float] = {
    "fp64": 0.0, "fp32": 0.0, "tf32": 2 * 2.0**-11 + 2.0**-22, "fp16": 0.0, "bf16": 0.0,
    "int8": 0.0, "e4m3": 0.0, "e5m2": 0.0,
}  # fmt: skip
_ACCUMULATE_ROUNDING: dict[Precision, float] = {
    "fp64": 2.0**-52, "fp32": 2.0**-24, "tf32": 2.0**-23, "fp16": 2.0**-23, "bf16": 2.0**-23,
    "int8": 0.0, "e4m3": 2.0**-13, "e5m2": 2.0**-13,
}  # fmt: skip
_SPLIT_PRODUCT = 3 * 2.0**-22  # a product of split numbers
_SPLIT_NORM = 3e-7, 1.8e-7  # of products and partial sums; of the additions of the partial sums
_LONGEST_PARTIAL = 128  # of gemm_k, that is summed before it is added to the total
_ENOUGH = 256  # elements of y from which on its norm says something
_CONFIDENCE = 4.0  # standard deviations, so to say: Higham and Mary's lambda
_MEAN_MAGNITUDE = 0.64  # of a product of two standard normals: 2 / pi
_MOST_FP32_ROUNDINGS = 16.0  # of 2^-24 of S


def error_bound(problem: ConvProblem, arithmetic: Arithmetic = "direct") -> ErrorBound:
    """The bound for random-normal data, term by term; `arithmetic` is the plan's.

    Let S = sum |x * w| (+ |bias|) of one output, exact in the rounded inputs, and n = gemm_k + 1 the terms of its sum.

    - *Accumulation.* Any order of n fp32 additions, each off by a relative u, is off by at most n * u * S. Rounding
      errors that are independent with mean zero stay below lambda * sqrt(n) * u * S with a probability that depends on
      lambda alone (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41,
      2019, theorem 3.1); lambda is 4 here. u is 2^-24 for fp32 on CUDA cores. Tensor cores truncate, so u is 2^-23, and
      the errors have a mean: those of one accumulator grow like the number of mma steps (gemm_k / 8 or less) times the
      partial sum, but for data of random signs the partial sum is about S / (0.64 * sqrt(n)), so that their sum,
      n / 8 * u * S / (0.64 * sqrt(n)), is a twentieth of the bound.
    - *fp32 is held tighter*, so that a sum of TF32 or fp16 products never passes for it. With u = 2^-24 and products
      of random sign and rms r, the k-th addition of a chain is off by up to u times its partial sum, about sqrt(k) *
      r, with a standard deviation of 0.6 of that: together 0.4 * u * n * r. S is 0.64 * n * r, so that this is 0.64 *
      u * S, whatever n; other orders are more exact. Operands split in two halves (families/wgmma) leave out low * low
      and what the halves don't hold, each about u of a product, or sqrt(n) * u * r; the tensor core, which truncates,
      adds up at most 128 products of a kind, cross terms first, whose errors are about 4 * sqrt(n) * u * r together; a
      chain adds the partial sums, n / 128 of them. That is 8 / sqrt(n) * u * S and less than a tenth of a chain's
      error. Hence 16 * u * S, 25 standard deviations of a chain. TF32 and fp16 round each operand to 11 bits: 2.9e-4 *
      sqrt(n) * r, which is 7600 / sqrt(n) * u * S, beyond the bound for n up to 200,000, and some of thousands of
      outputs up to 2,000,000. One operand without its low half is off by 0.7 times that.
    - *Products.* fp16 x fp16 has 22 bits and bf16 x bf16 16, exact in fp32's 24; fp32 is multiplied by FMA, unrounded
      (where it isn't, the additions' bound has room). tf32, scaled or not, rounds both inputs to 11 bits:
      (1 + 2^-11)^2 - 1 a product.
    - *Output.* One rounding to the output type: 2^-11 (fp16), 2^-8 (bf16), 2^-24 (fp32) of the value, which is |ref|
      up to the errors above; below fp16's normal range half its spacing, 2^-25, absolute. ReLU only shrinks errors.
    - *int8.* Nothing is rounded: int32 holds the sum, so y must be the reference.
    - *fp8.* Hopper's tensor cores add 32 products to the sum so far, all aligned to the largest of them and cut behind
      the 13th bit after its leading one (about 14 bits: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 3.3.2). A
      term is then off by u = 2^-13 of the largest magnitude so far, and for data of random signs that is lambda
      standard deviations of the sum, lambda * S / (0.64 * sqrt(n)), or S if that is less. It takes the place of S in
      lambda * sqrt(n) * u * S. Sums that a kernel adds up in fp32 after fewer terms are off by less.
    - *fp64.* u is 2^-53, and the reference is such a sum too, as far off on its own: hence 2^-52 throughout. Summed in
      turn, products of random signs are off by u * sqrt(n / 6) of y's norm (a rounding error is u / sqrt(3) of the
      partial sum, which grows like sqrt(k)); the norm may be lambda * u * sqrt(n), ten times that. A norm is held to
      its bound where y has `_ENOUGH` elements.
    - *fp32 by split numbers.* x = big + small, 11 bits each: what is lost of x is at most 2^-22 of it, likewise of w,
      and the product of the two small parts, left out, is at most 2^-22: 3 * 2^-22 a product, together about 1e-7 of
      y's norm for numbers of random mantissas. Tensor cores truncate what they sum, by 6.25e-9 of its norm with each
      mma (measured on an H200: 4.8e-7 after 24 of them that each add to a sum of 64 of gemm_k, 1.1e-5 after 1728), so
      that families keep such sums short, or the small products out of them: 2e-7 is measured with both. Then fp32 adds
      the partial sums, n / 128 of them or more, off by 2^-24 * sqrt(n / 768) of the norm; a family that adds more often
      keeps that below 1.8e-7 or at those. So the norm may be 3.5e-7, half as much again as fp32 on CUDA cores comes to
      at n = 400, and more only where n exceeds 7000. Plain TF32 is off by 2.9e-4.
    """
    normed = problem.gemm_m * problem.k >= _ENOUGH
    roundings = _CONFIDENCE * (problem.gemm_k + 1) ** 0.5
    if problem.precision == "fp32":
        roundings = min(roundings, _MOST_FP32_ROUNDINGS)
    if arithmetic == "split":
        return _split_bound(problem.gemm_k + 1, roundings, normed=normed)
    accumulation = roundings * _ACCUMULATE_ROUNDING[problem.precision]
    if problem.precision in ("e4m3", "e5m2"):
        accumulation *= min(1.0, _CONFIDENCE**2 / (_MEAN_MAGNITUDE * roundings))
    output = _OUTPUT_ROUNDING[problem.precision]
    return ErrorBound(
        output_rounding=output,
        term_rounding=(1 + output) * (_INPUT_ROUNDING[problem.precision] + accumulation),
        absolute=2.0**-25 if problem.y_dtype == "fp16" else 0.0,
        norm=accumulation / 2 if normed and problem.precision == "fp64" else math.inf,
    )


def _split_bound(terms: int, roundings: float, *, normed: bool) -> ErrorBound:
    partials, additions = _SPLIT_NORM
    additions = max(additions, 2.0**-24 * (terms / (6 * _LONGEST_PARTIAL)) ** 0.5)
    return ErrorBound(
        output_rounding=2.0**-24,
        term_rounding=_SPLIT_PRODUCT + roundings * 2.0**-24,
        absolute=0.0,
        norm=math.hypot(partials, additions) if normed else math.inf,
    )


def input_scale(problem: ConvProblem, name: str, kind: Kind) -> float:
    """Standard deviation of normal data, so that y is about standard normal; largest magnitude of integers.

    8-bit x and w keep their formats' good range instead, and y grows with gemm_k.
    """
    if problem.precision == "int8":
        if kind == "integer":
            return float(_INT8_BIAS_MAGNITUDE if name == "bias" else _INT8_MAGNITUDE)
        return _INT8_BIAS_DEVIATION if name == "bias" else _INT8_DEVIATION
    if kind == "integer":
        return float(BIAS_MAGNITUDE if name == "bias" else INPUT_MAGNITUDE)
    return float(problem.gemm_k**-0.5) if name == "w" and problem.element_bytes > 1 else 1.0


def y_coordinates(problem: ConvProblem, index: int) -> str:
    """`n=0 k=3 p=1 q=2` of an element by its index, image by image as layouts.image_of has them."""
    extents = {"k": problem.k, "p": problem.p, "q": problem.q}
    place = {}
    for letter in reversed("pqk" if problem.y_layout == "nhwc" else "kpq"):
        index, place[letter] = divmod(index, extents[letter])
    place["n"] = index
    return " ".join(f"{letter}={place[letter]}" for letter in "nkpq")


def wrong_result_sentence(
    problem: ConvProblem, kind: Kind, *, violations: int, nans: int, index: int, found: float, wanted: float
) -> str:
    """How many elements of y are wrong, the worst of them and where it is."""
    total = problem.gemm_m * problem.k
    also = f" ({nans} of them NaN)" if nans else ""
    return (
        f"{violations} of {total} elements of y are wrong on {kind} data{also}; "
        f"the worst, at {y_coordinates(problem, index)}, is {found:.9g} and should be {wanted:.9g}"
    )
