"""The time that no kernel can beat: arithmetic or compulsory traffic at the ceilings that this process measured."""

from collections.abc import Callable
from typing import Any

from im2wingen.bench.result import Ceilings
from im2wingen.bench.timing import GraphTimer
from im2wingen.problem import ConvProblem

_GEMM = 8192
_COPY_BYTES = 2 << 30
_TENSOR_CORE_PRODUCTS = 3  # TF32 products that make one fp32 product


def floor_us(problem: ConvProblem, ceilings: Ceilings) -> float:
    """The larger of flops over the arithmetic ceiling and compulsory bytes over the copy ceiling, microseconds.

    An fp32 product may come from the CUDA cores or from three TF32 products: the faster counts.
    """
    tflops = ceilings.gemm_tflops
    peak = tflops[problem.precision]
    if problem.precision == "fp32" and "tf32" in tflops:
        peak = max(peak, tflops["tf32"] / _TENSOR_CORE_PRODUCTS)
    return max(problem.flops / peak, problem.compulsory_bytes / ceilings.copy_tbps) * 1e-6


def measure_ceilings(torch: Any, precision: str) -> Ceilings:
    """Run one large GEMM a precision that the floor needs, and one large copy."""
    needed = ("fp32", "tf32") if precision == "fp32" else (precision,)
    return Ceilings(gemm_tflops={name: _gemm_tflops(torch, name) for name in needed}, copy_tbps=_copy_tbps(torch))


def torch_dtype(torch: Any, precision: str) -> Any:
    """The storage type of x, w and y."""
    return {"fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}.get(precision, torch.float32)


def allow_tf32(torch: Any, allowed: bool) -> None:
    """Whether PyTorch's matrix products and convolutions may use TF32."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _gemm_tflops(torch: Any, precision: str) -> float:
    allow_tf32(torch, precision == "tf32")
    dtype = torch_dtype(torch, precision)
    a, b = (torch.randn(_GEMM, _GEMM, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2e-6 * _GEMM**3 / _best_us(torch, lambda _: torch.matmul(a, b, out=out))


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
