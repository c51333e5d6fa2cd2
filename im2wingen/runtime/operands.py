"""What arrays a convolution accepts, and the sentence for each that it does not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from im2wingen.arrays import ArrayFacts, contiguous_strides
from im2wingen.dtypes import ElementType
from im2wingen.errors import ArrayError
from im2wingen.problem import ConvProblem, Layout

ALIGNMENT = 16  # bytes; what the kernels' widest loads and stores need of every pointer

# As NumPy and PyTorch name them; a library without bf16 or fp8 hands over the bits.
_DTYPES: dict[ElementType, tuple[str, ...]] = {
    "fp16": ("float16",), "bf16": ("bfloat16", "uint16"), "fp64": ("float64",), "fp32": ("float32",),
    "tf32": ("float32",), "int8": ("int8",), "int32": ("int32",), "e4m3": ("float8_e4m3fn", "uint8"),
    "e5m2": ("float8_e5m2", "uint8"),
}  # fmt: skip
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One way to hand an operand over; `logical` where its dimensions come in the order N, C, H, W (K, C, R, S)."""

    letters: str
    shape: Shape
    strides: Shape  # in elements
    logical: bool

    def fits(self, facts: ArrayFacts) -> bool:
        """Same shape, same strides; the stride of a dimension of size 1 means nothing."""
        return facts.shape == self.shape and all(
            size == 1 or have == want for size, have, want in zip(self.shape, facts.strides, self.strides, strict=True)
        )

    def __str__(self) -> str:
        order = "contiguous" if self.strides == contiguous_strides(self.shape) else "with channels-last strides"
        return f"{self.letters} = {self.shape} {order}"


def arrangements(letters: str, logical_shape: Shape, *, channels_last: bool) -> tuple[Arrangement, ...]:
    """The ways to hand over a 4-D operand: NCHW-shaped, and channels last also NHWC-shaped."""
    a, b, c, d = logical_shape
    if not channels_last:
        return (
            Arrangement(letters=letters, shape=logical_shape, strides=contiguous_strides(logical_shape), logical=True),
        )
    stored = (a, c, d, b)
    return (
        Arrangement(letters=letters, shape=logical_shape, strides=(b * c * d, 1, d * b, b), logical=True),
        Arrangement(
            letters=letters[0] + letters[2:] + letters[1],
            shape=stored,
            strides=contiguous_strides(stored),
            logical=False,
        ),
    )


def _images(letters: str, logical_shape: Shape, layout: Layout, stored: Shape) -> tuple[Arrangement, ...]:
    """The ways to hand over x or y; CHWN and CHWN8 as they lie in memory alone."""
    if layout in ("nhwc", "nchw"):
        return arrangements(letters, logical_shape, channels_last=layout == "nhwc")
    order = letters[1:] + letters[0]
    letters = order if layout == "chwn" else f"[N/8]{order[:-1]}8"
    return (Arrangement(letters=letters, shape=stored, strides=contiguous_strides(stored), logical=False),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The arrangements and sizes of one problem's arrays on one device."""

    problem: ConvProblem
    device: int | None  # None: the CPU
    x: tuple[Arrangement, ...]
    w: tuple[Arrangement, ...]
    y: tuple[Arrangement, ...]

    @classmethod
    def of(cls, problem: ConvProblem, device: int | None) -> "Operands":
        p = problem
        return cls(
            problem=p,
            device=device,
            x=_images("NCHW", (p.n, p.c, p.h, p.w), p.x_layout, p.x_shape),
            w=arrangements("KCRS", (p.k, p.group_c, p.r, p.s), channels_last=p.w_layout == "krsc"),
            y=_images("NKPQ", (p.n, p.k, p.p, p.q), p.y_layout, p.y_shape),
        )

    def check_x(self, facts: ArrayFacts, *, prefer_logical: bool) -> bool:
        """Whether x came in logical order; `prefer_logical` decides where all its dimensions but N are 1."""
        self._check_common("x", facts)
        fitting = {arrangement.logical for arrangement in self.x if arrangement.fits(facts)}
        if not fitting:
            first = facts.shape[0] if self.x[0].letters[0] == "N" and len(facts.shape) == 4 else self.problem.n
            if first != self.problem.n and any((first, *a.shape[1:]) == facts.shape for a in self.x):
                raise ArrayError(
                    f"x has batch {first} and this convolution was loaded for batch {self.problem.n}; "
                    "load one for each batch"
                )
            raise ArrayError(_mismatch("x", facts, self.x))
        return prefer_logical if len(fitting) == 2 else fitting.pop()

    def check_w(self, facts: ArrayFacts) -> None:
        self._check_common("w", facts)
        if not any(arrangement.fits(facts) for arrangement in self.w):
            raise ArrayError(_mismatch("w", facts, self.w))

    def check_out(self, facts: ArrayFacts) -> None:
        self._check_common("out", facts)
        if facts.readonly:
            raise ArrayError("out is read-only")
        if not any(arrangement.fits(facts) for arrangement in self.y):
            raise ArrayError(_mismatch("out", facts, self.y))

    def check_bias(self, facts: ArrayFacts | None) -> None:
        """K contiguous elements of y's storage type, exactly where the epilogue has a bias."""
        wanted = self.problem.epilogue != "none"
        if facts is None:
            if wanted:
                raise ArrayError(
                    f"bias is missing: epilogue {self.problem.epilogue} needs ({self.problem.k},) elements"
                )
            return
        if not wanted:
            raise ArrayError("bias is given, but the problem was loaded with epilogue none; allowed is epilogue bias")
        self._check_common("bias", facts)
        shape = (self.problem.k,)
        arrangement = Arrangement(letters="K", shape=shape, strides=(1,), logical=True)
        if not arrangement.fits(facts):
            raise ArrayError(_mismatch("bias", facts, (arrangement,)))

    def sizes_bytes(self) -> dict[str, int]:
        """Bytes of each operand; all are dense."""
        problem = self.problem
        return {
            "x": math.prod(problem.x_shape) * problem.element_bytes,
            "w": problem.k * problem.gemm_k * problem.element_bytes,
            "bias": problem.k * problem.y_element_bytes,
            "out": math.prod(problem.y_shape) * problem.y_element_bytes,
        }

    @property
    def y_dtype(self) -> str:
        """Of y and bias, as an array's facts name it."""
        return _DTYPES[self.problem.y_dtype][0]

    def _check_common(self, role: str, facts: ArrayFacts) -> None:
        if self.device is None:
            if facts.device is not None:
                raise ArrayError(f"{role} is on CUDA device {facts.device} and this convolution was loaded for the CPU")
        elif facts.device is None:
            raise ArrayError(f"{role} lies in host memory; move it to CUDA device {self.device}")
        elif facts.device != self.device:
            raise ArrayError(
                f"{role} is on CUDA device {facts.device} and this convolution was loaded for device {self.device}"
            )
        precision = self.problem.precision
        wanted = _DTYPES[self.problem.y_dtype if role in ("bias", "out") else precision]
        if facts.dtype not in wanted:
            needed = " or its bits as ".join(wanted)
            raise ArrayError(f"{role} has dtype {facts.dtype}; precision {precision} needs {needed}")


def check_alignment(pointers: dict[str, int], alignment: int = ALIGNMENT) -> None:
    """ArrayError for the first pointer that is not a multiple of so many bytes (a slice that starts off the grid)."""
    for role, pointer in pointers.items():
        if pointer % alignment:
            raise ArrayError(f"{role} starts at address {pointer:#x}, which is not a multiple of {alignment} bytes")


def check_overlap(pointers: dict[str, int], sizes_bytes: dict[str, int]) -> None:
    """ArrayError where `out` shares memory with an operand that is still being read."""
    start, end = pointers["out"], pointers["out"] + sizes_bytes["out"]
    for role, pointer in pointers.items():
        if role != "out" and pointer and pointer < end and start < pointer + sizes_bytes[role]:
            raise ArrayError(f"out shares memory with {role}; it must not")


def _mismatch(role: str, facts: ArrayFacts, allowed: Sequence[Arrangement]) -> str:
    text = " or ".join(map(str, allowed))
    if any(facts.shape == arrangement.shape for arrangement in allowed):
        return f"{role} of shape {facts.shape} has strides {facts.strides}; expected {text}"
    return f"{role} has shape {facts.shape}; expected {text}"
