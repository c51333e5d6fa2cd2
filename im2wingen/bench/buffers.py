"""Rotating sets of x, w and y, so that a launch finds nothing of the last one in L2."""

from dataclasses import dataclass
from typing import Any

from im2wingen.bench.floor import torch_dtype
from im2wingen.problem import ConvProblem, Layout

_LEAST_BYTES = 240_000_000
_MAX_SETS = 512
_ALIGNMENT_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """`sets` of arrays on the device as they lie in memory (problem.x_shape and so on); all contestants share them."""

    x: tuple[Any, ...]
    w: tuple[Any, ...]
    y: tuple[Any, ...]

    @property
    def sets(self) -> int:
        return len(self.x)


def set_count(problem: ConvProblem, l2_bytes: int) -> int:
    """How many sets pass 240 MB and four times the L2 cache; at most 512."""
    wanted = max(_LEAST_BYTES, 4 * l2_bytes)
    return min(_MAX_SETS, -(-wanted // problem.compulsory_bytes))


def allocate(torch: Any, problem: ConvProblem, sets: int, *, seed: int) -> Buffers:
    """Normal x; normal w of variance 1/gemm_k, so that y is about normal too; y is NaN."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    dtype = torch_dtype(torch, problem.precision)

    def arrays(shape: tuple[int, ...], scale: float | None) -> tuple[Any, ...]:
        elements = shape[0] * shape[1] * shape[2] * shape[3]
        unit = _ALIGNMENT_BYTES // problem.element_bytes
        pitch = -(-elements // unit) * unit
        flat = torch.empty(sets * pitch, device="cuda", dtype=dtype)
        if scale is None:
            flat.fill_(float("nan"))
        else:
            flat.normal_(0.0, scale, generator=generator)
        return tuple(flat[i * pitch : i * pitch + elements].view(shape) for i in range(sets))

    return Buffers(
        x=arrays(problem.x_shape, 1.0), w=arrays(problem.w_shape, problem.gemm_k**-0.5), y=arrays(problem.y_shape, None)
    )


def as_nchw(array: Any, layout: Layout | str) -> Any:
    """A view of an array in memory order `nhwc` or `krsc` with its channels second; other orders pass unchanged."""
    return array.permute(0, 3, 1, 2) if layout in ("nhwc", "krsc") else array
