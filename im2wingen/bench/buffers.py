"""Rotating sets of x, w and y, so that a launch finds nothing of the last one in L2."""

from dataclasses import dataclass
from typing import Any

from im2wingen.bench.floor import torch_dtype
from im2wingen.problem import ConvProblem, Layout
from im2wingen.verify_data import input_scale

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
    """Normal x; normal w of variance 1/gemm_k, so that y is about normal too (8 bits: as tests have them); y is NaN.

    Integers are all of int8's range, their y is the least integer.
    """
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def arrays(shape: tuple[int, ...], name: str) -> tuple[Any, ...]:
        elements = shape[0] * shape[1] * shape[2] * shape[3]
        dtype = torch_dtype(torch, problem.y_dtype if name == "y" else problem.precision)
        unit = _ALIGNMENT_BYTES // dtype.itemsize
        pitch = -(-elements // unit) * unit
        flat = torch.empty(sets * pitch, device="cuda", dtype=dtype)
        if name == "y":
            flat.fill_(unwritten(torch, dtype))
        elif problem.precision == "int8":
            flat.random_(-128, 128, generator=generator)
        elif problem.element_bytes == 1:
            scale = input_scale(problem, name, "normal")
            for i in range(sets):  # PyTorch draws no fp8
                part = flat[i * pitch : (i + 1) * pitch]
                part.copy_(torch.empty(pitch, device="cuda").normal_(0.0, scale, generator=generator))
        else:
            flat.normal_(0.0, input_scale(problem, name, "normal"), generator=generator)
        return tuple(flat[i * pitch : i * pitch + elements].view(shape) for i in range(sets))

    return Buffers(x=arrays(problem.x_shape, "x"), w=arrays(problem.w_shape, "w"), y=arrays(problem.y_shape, "y"))


def unwritten(torch: Any, dtype: Any) -> float | int:
    """What elements of y hold that nobody has written: NaN, or the least integer."""
    return float("nan") if dtype.is_floating_point else int(torch.iinfo(dtype).min)


def as_nchw(array: Any, layout: Layout | str) -> Any:
    """A view of an array in memory order `nhwc` or `krsc` with its channels second; other orders pass unchanged."""
    return array.permute(0, 3, 1, 2) if layout in ("nhwc", "krsc") else array
