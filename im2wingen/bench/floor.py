"""The time that no kernel can beat: arithmetic or compulsory traffic at the ceilings that this process measured."""

import logging
from collections.abc import Callable
from typing import Any

from im2wingen.bench.optional import sentence_of
from im2wingen.bench.result import Ceilings
from im2wingen.bench.timing import GraphTimer
from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

_GEMM = 8192
_COPY_BYTES = 2 << 30
_TORCH_NAMES = {
    "fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "int8": "int8", "int32": "int32", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}  # fmt: skip
_RATE_OF_8_BITS = 2
_FP16_PRODUCTS = {"fp32": 3, "tf32": 1}  # that make one


def floor_us(problem: ConvProblem, ceilings: Ceilings) -> float:
    """The larger of flops over the arithmetic ceiling and compulsory bytes over the copy ceiling, microseconds.

    An fp32 product may come from the CUDA cores or from three fp16 products, a tf32 product from one, which has as many
    bits: the faster counts. Where PyTorch could not multiply 8-bit elements, twice the rate of fp16 is assumed, as the
    data sheets have it.
    """
    tflops = ceilings.gemm_tflops
    peak = tflops[problem.precision] if problem.precision in tflops else _RATE_OF_8_BITS * tflops["fp16"]
    if problem.precision in _FP16_PRODUCTS and "fp16" in tflops:
        peak = max(peak, tflops["fp16"] / _FP16_PRODUCTS[problem.precision])
    return max(problem.flops / peak, problem.compulsory_bytes / ceilings.copy_tbps) * 1e-6


def measure_ceilings(torch: Any, precision: str) -> Ceilings:
    """Run one large GEMM a precision that the floor needs, and one large copy; on a stream that can be captured."""
    needed = (precision, "fp16") if precision in _FP16_PRODUCTS else (precision,)
    try:
        gemm_tflops = {name: _gemm_tflops(torch, name) for name in needed}
    except RuntimeError as error:  # PyTorch's products of 8-bit elements are young
        if torch_dtype(torch, precision).itemsize > 1:
            raise
        log.warning("PyTorch multiplies no %s here: %s", precision, sentence_of(error))
        gemm_tflops = {"fp16": _gemm_tflops(torch, "fp16")}
    return Ceilings(gemm_tflops=gemm_tflops, copy_tbps=_copy_tbps(torch))


def torch_dtype(torch: Any, element: str) -> Any:
    """The storage type of elements."""
    return getattr(torch, _TORCH_NAMES.get(element, "float32"))


def allow_tf32(torch: Any, allowed: bool) -> None:
    """Whether PyTorch's matrix products and convolutions may use TF32."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _gemm_tflops(torch: Any, precision: str) -> float:
    allow_tf32(torch, precision == "tf32")
    dtype = torch_dtype(torch, precision)
    if dtype.itemsize == 1:
        return 2e-6 * _GEMM**3 / _best_us(torch, _gemm_8bit(torch, precision, dtype))
    a, b = (torch.randn(_GEMM, _GEMM, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2e-6 * _GEMM**3 / _best_us(torch, lambda _: torch.matmul(a, b, out=out))


def _gemm_8bit(torch: Any, precision: str, dtype: Any) -> Callable[[int], object]:
    """A product by cuBLAS, b stored by columns as it wants it: int32 of int8; fp16 of e4m3, and of e5m2 by e4m3.

    It has no product of e5m2 by e5m2; the tensor cores' rate is the same.
    """
    if precision == "int8":
        a, b = (torch.randint(-128, 128, (_GEMM, _GEMM), device="cuda", dtype=dtype) for _ in range(2))
        return lambda _: torch._int_mm(a, b.t())
    a = torch.randn(_GEMM, _GEMM, device="cuda").to(dtype)
    b = torch.randn(_GEMM, _GEMM, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    return lambda _: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float16, use_fast_accum=True)


def _copy_tbps(torch: Any) -> float:
    source = torch.ones(_COPY_BYTES // 4, device="cuda", dtype=torch.float32)
    target = torch.empty_like(source)
    # a kernel's copy: in a graph, copy_ becomes a memory copy node, which is slower
    return 2e-6 * _COPY_BYTES / _best_us(torch, lambda _: torch.mul(source, 1.0, out=target))


def _best_us(torch: Any, launch: Callable[[int], object]) -> float:
    timer = GraphTimer(torch, launch, sets=1)
    best = min(timer.sample_us() for _ in range(5))
    timer.close()
    return best
