"""How far a contestant's y is from the float64 convolution of the same rounded inputs."""

from dataclasses import dataclass
from typing import Any

from im2wingen.bench.buffers import Buffers, as_nchw, unwritten
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem

# What counts as a right answer to a benchmark: several times what rounding the inputs' products and y explains, well
# below what one lost tap of a 3x3 window costs. verify, not this, is where our kernels prove themselves.
# That of integers is 0; fp8's sums have about 14 bits.
ERROR_LIMITS = {
    "fp16": 5e-3, "bf16": 3e-2, "tf32": 5e-3, "fp32": 1e-4, "fp64": 1e-12, "int8": 1e-12, "e4m3": 2e-2, "e5m2": 2e-2
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Float64 y, channels second, of the first, middle and last image of buffer set 0."""

    images: tuple[int, ...]
    y: Any


def tested_images(problem: ConvProblem) -> tuple[int, ...]:
    """First, middle and last, without repeats."""
    return tuple(sorted({0, problem.n // 2, problem.n - 1}))


def demand_written(unwritten: int, elements: int) -> None:
    """PeerUnavailableError if some elements of y, which was full of NaN or the least integer, still are."""
    if unwritten:
        raise PeerUnavailableError(f"wrong result: {unwritten} of {elements} elements were not written, or are NaN")


def demand_accurate(problem: ConvProblem, error: ErrorStats) -> ErrorStats:
    """The error itself, or PeerUnavailableError if it's more than rounding."""
    if not error.norm_error < ERROR_LIMITS[problem.precision]:
        raise PeerUnavailableError(f"wrong result: norm-relative error {error.norm_error:.1e}")
    return error


def reference(torch: Any, problem: ConvProblem, buffers: Buffers) -> Reference:
    """Computed by PyTorch in float64."""
    images = tested_images(problem)
    whole = as_nchw(buffers.x[0], problem.x_layout)
    x = torch.stack([whole[i].double() for i in images]).contiguous()
    w = as_nchw(buffers.w[0], problem.w_layout).double().contiguous()
    padding = (problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom)
    benchmark, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    y = torch.nn.functional.conv2d(
        torch.nn.functional.pad(x, padding), w,
        stride=(problem.stride_h, problem.stride_w),
        dilation=(problem.dilation_h, problem.dilation_w), groups=problem.groups,
    )  # fmt: skip
    torch.backends.cudnn.benchmark = benchmark
    return Reference(images=images, y=y)


def check(torch: Any, problem: ConvProblem, expected: Reference, y: Any) -> ErrorStats:
    """The errors of a whole y, channels second; PeerUnavailableError if it is wrong or has elements never written."""
    demand_written(int((torch.isnan(y) if y.is_floating_point() else y == unwritten(torch, y.dtype)).sum()), y.numel())
    difference = y[list(expected.images)].double() - expected.y
    return demand_accurate(
        problem,
        ErrorStats(max_error=float(difference.abs().max()), norm_error=float(difference.norm() / expected.y.norm())),
    )
