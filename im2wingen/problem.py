"""ConvProblem: one convolution, as a value; its shape grammar and its canonical key."""

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, cast, get_args

from im2wingen.errors import UsageError
from im2wingen.layers import name_of, named_shape

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp64", "int8", "e4m3", "e5m2"]
OutputType = Literal["fp32", "fp16", "bf16", "fp64", "int32"]
Layout = Literal["nhwc", "nchw", "chwn", "chwn8"]
FilterLayout = Literal["krsc", "kcrs"]
Epilogue = Literal["none", "bias", "bias_relu"]

_DIMENSIONS = ("n", "c", "h", "w", "k", "r", "s")
_SIDES = ("top", "bottom", "left", "right")
_SHAPE = re.compile(
    r"n(?P<n>\d+)c(?P<c>\d+)h(?P<h>\d+)w(?P<w>\d+)k(?P<k>\d+)r(?P<r>\d+)s(?P<s>\d+)"
    r"(?:st(?P<st>\d+(?:x\d+)?))?(?:pad(?P<pad>\d+(?:x\d+)?|\d+,\d+,\d+,\d+))?"
    r"(?:dil(?P<dil>\d+(?:x\d+)?))?(?:g(?P<g>\d+))?"
)
_GRAMMAR = (
    "a named layer (cv1 to cv12, resnet50.conv1 ...) or a shape such as n128c64h224w224k64r7s7, then optional st2 or "
    "st2x1 (stride), pad1, pad1x2 or pad0,1,2,3 (top,bottom,left,right), dil2 (dilation), g32 (groups), in this order"
)
_MAX_DIMENSION = 2**31 - 1
BLOCK_IMAGES = 8  # side by side in CHWN8, [ceil(N/8)][C][H][W][8]
_FILTER_OF: dict[Layout, FilterLayout] = {"nhwc": "krsc", "nchw": "kcrs", "chwn": "kcrs", "chwn8": "kcrs"}
_ELEMENT_BYTES: dict[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1, "e4m3": 1, "e5m2": 1, "int32": 4
}  # fmt: skip
_OUTPUT_TYPE: dict[Precision, OutputType] = {  # of fp8: more digits than its products have, in half of fp32's bytes
    "fp64": "fp64", "fp32": "fp32", "tf32": "fp32", "fp16": "fp16", "bf16": "bf16", "int8": "int32",
    "e4m3": "fp16", "e5m2": "fp16",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ConvProblem:
    """A forward convolution: x[N,C,H,W] * w[K,C/groups,R,S] -> y[N,K,P,Q], with what its arrays look like.

    Raises UsageError that names the field whose value is not allowed.
    """

    n: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1
    precision: Precision = "fp16"
    x_layout: Layout = "nhwc"
    w_layout: FilterLayout = "krsc"
    y_layout: Layout = "nhwc"
    epilogue: Epilogue = "none"

    def __post_init__(self) -> None:
        for field in (*_DIMENSIONS, "stride_h", "stride_w", "dilation_h", "dilation_w", "groups"):
            _check_integer(field, getattr(self, field), 1)
        for side in _SIDES:
            _check_integer(f"pad_{side}", getattr(self, f"pad_{side}"), 0)
        _check_choice("precision", self.precision, get_args(Precision))
        _check_choice("x_layout", self.x_layout, get_args(Layout))
        _check_choice("w_layout", self.w_layout, get_args(FilterLayout))
        _check_choice("y_layout", self.y_layout, get_args(Layout))
        _check_choice("epilogue", self.epilogue, get_args(Epilogue))
        if self.c % self.groups or self.k % self.groups:
            raise UsageError(f"groups is {self.groups}; it must divide C ({self.c}) and K ({self.k})")
        for field, extent, window in (("r", self.padded_h, self.window_h), ("s", self.padded_w, self.window_w)):
            if window > extent:
                raise UsageError(f"{field} with its dilation spans {window}; the padded input has only {extent}")

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        precision: str = "fp16",
        layout: str = "nhwc",
        batch: int | None = None,
        epilogue: str = "none",
    ) -> Self:
        """Build a problem from a named layer or a shape string.

        `layout` is `nhwc`, `nchw`, `chwn`, `chwn8`, or two such as `nchw-nhwc` (x, then y); the filter is KRSC for NHWC
        input and KCRS for the others.
        `batch` replaces the shape's N. Raises UsageError with the grammar.
        """
        name = text.strip().lower()
        shape = named_shape(name) or name
        match = _SHAPE.fullmatch(shape)
        if match is None:
            raise UsageError(f"shape is {text!r}; allowed is {_GRAMMAR}")
        if (huge := next((g for g in re.findall(r"\d+", shape) if len(g) > 10), None)) is not None:
            raise UsageError(f"shape holds {huge}; allowed are numbers up to {_MAX_DIMENSION}")
        size = {d: int(match[d]) for d in _DIMENSIONS}
        if batch is not None:
            size["n"] = batch
        stride_h, stride_w = _pair(match["st"] or "1")
        dilation_h, dilation_w = _pair(match["dil"] or "1")
        pads = [int(v) for v in (match["pad"] or "0").split(",")] if "," in (match["pad"] or "") else []
        if not pads:
            pad_h, pad_w = _pair(match["pad"] or "0")
            pads = [pad_h, pad_h, pad_w, pad_w]
        x_layout, _, y_layout = layout.lower().partition("-")
        y_layout = y_layout or x_layout
        if x_layout not in get_args(Layout) or y_layout not in get_args(Layout):
            allowed = ", ".join(get_args(Layout))
            raise UsageError(f"layout is {layout!r}; allowed are {allowed}, or two of them as in nchw-nhwc (x, then y)")
        return cls(
            **size,
            stride_h=stride_h,
            stride_w=stride_w,
            **{f"pad_{side}": pad for side, pad in zip(_SIDES, pads, strict=True)},
            dilation_h=dilation_h,
            dilation_w=dilation_w,
            groups=int(match["g"] or 1),
            precision=cast(Precision, precision.lower()),
            x_layout=cast(Layout, x_layout),
            w_layout=_FILTER_OF[cast(Layout, x_layout)],
            y_layout=cast(Layout, y_layout),
            epilogue=cast(Epilogue, epilogue.lower()),
        )

    @classmethod
    def from_key(cls, key: str) -> Self:
        """The problem whose `key` this is; raises UsageError for a text that is no key."""
        parts = key.split("/")
        layouts = parts[2].split("-") if len(parts) == 4 else []
        if len(layouts) != 3:
            raise UsageError(f"problem key is {key!r}; allowed is SHAPE/PRECISION/X-W-Y/EPILOGUE")
        problem = cls.parse(parts[0], precision=parts[1], layout=f"{layouts[0]}-{layouts[2]}", epilogue=parts[3])
        return replace(problem, w_layout=cast(FilterLayout, layouts[1]))

    @cached_property
    def shape(self) -> str:
        """The shape string in its one canonical form (defaults left out)."""
        text = "".join(f"{d}{getattr(self, d)}" for d in _DIMENSIONS)
        if (self.stride_h, self.stride_w) != (1, 1):
            text += f"st{_short(self.stride_h, self.stride_w)}"
        pads = (self.pad_top, self.pad_bottom, self.pad_left, self.pad_right)
        if any(pads):
            symmetric = pads[0] == pads[1] and pads[2] == pads[3]
            text += "pad" + (_short(pads[0], pads[2]) if symmetric else ",".join(map(str, pads)))
        if (self.dilation_h, self.dilation_w) != (1, 1):
            text += f"dil{_short(self.dilation_h, self.dilation_w)}"
        return text + (f"g{self.groups}" if self.groups > 1 else "")

    @cached_property
    def key(self) -> str:
        """Canonical text of all that makes two problems the same; `from_key` reads it back."""
        return f"{self.shape}/{self.precision}/{self.x_layout}-{self.w_layout}-{self.y_layout}/{self.epilogue}"

    @property
    def layer_name(self) -> str | None:
        """cv1, resnet50.conv1 ... if the shape, whatever its batch, is one of those."""
        return name_of(self.shape)

    @property
    def layout(self) -> str:
        """One, or `x-y` where they differ: what `parse` takes."""
        return self.x_layout if self.x_layout == self.y_layout else f"{self.x_layout}-{self.y_layout}"

    @property
    def padded_h(self) -> int:
        return self.h + self.pad_top + self.pad_bottom

    @property
    def padded_w(self) -> int:
        return self.w + self.pad_left + self.pad_right

    @property
    def window_h(self) -> int:
        return (self.r - 1) * self.dilation_h + 1

    @property
    def window_w(self) -> int:
        return (self.s - 1) * self.dilation_w + 1

    @property
    def p(self) -> int:
        return (self.padded_h - self.window_h) // self.stride_h + 1

    @property
    def q(self) -> int:
        return (self.padded_w - self.window_w) // self.stride_w + 1

    @property
    def has_padding(self) -> bool:
        return any((self.pad_top, self.pad_bottom, self.pad_left, self.pad_right))

    @property
    def filter_is_krsc(self) -> bool:
        """Whether w lies in memory as KRSC: a 1x1 filter does in either layout."""
        return self.w_layout == "krsc" or self.r * self.s == 1

    @property
    def group_c(self) -> int:
        """Input channels that one output channel sums over."""
        return self.c // self.groups

    @property
    def gemm_m(self) -> int:
        return self.n * self.p * self.q

    @property
    def gemm_n(self) -> int:
        return self.k

    @property
    def gemm_k(self) -> int:
        return self.r * self.s * self.group_c

    @property
    def flops(self) -> int:
        """2 * gemm_m * gemm_n * gemm_k."""
        return 2 * self.gemm_m * self.gemm_n * self.gemm_k

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of x and w."""
        return _ELEMENT_BYTES[self.precision]

    @property
    def y_dtype(self) -> OutputType:
        """Element type of y and bias: int32 where x and w are int8, fp16 where they are fp8, else theirs."""
        return _OUTPUT_TYPE[self.precision]

    @property
    def y_element_bytes(self) -> int:
        """Bytes of one element of y and bias."""
        return _ELEMENT_BYTES[self.y_dtype]

    @property
    def x_shape(self) -> tuple[int, ...]:
        """x as it lies in memory, outermost dimension first."""
        return _stored_shape(self.x_layout, self.n, self.c, self.h, self.w)

    @property
    def w_shape(self) -> tuple[int, int, int, int]:
        """The filter as it lies in memory, outermost dimension first."""
        krsc = (self.k, self.r, self.s, self.group_c)
        return krsc if self.w_layout == "krsc" else (self.k, self.group_c, self.r, self.s)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """y as it lies in memory, outermost dimension first."""
        return _stored_shape(self.y_layout, self.n, self.k, self.p, self.q)

    @property
    def compulsory_bytes(self) -> int:
        """x, w (and bias) read once, y written once."""
        inputs = math.prod(self.x_shape) + self.k * self.gemm_k
        outputs = math.prod(self.y_shape) + (0 if self.epilogue == "none" else self.k)
        return inputs * self.element_bytes + outputs * self.y_element_bytes

    @property
    def im2col_bytes(self) -> int:
        """Bytes of the im2col matrix of the whole batch."""
        return self.gemm_m * self.groups * self.gemm_k * self.element_bytes

    @property
    def im2win_bytes(self) -> int:
        """Bytes of the im2win window tensor of the whole batch: N*C*P*W*R elements (W with its pads, N as stored)."""
        images = math.prod(self.x_shape) // (self.c * self.h * self.w)
        return images * self.c * self.p * self.padded_w * self.r * self.element_bytes


def _stored_shape(layout: Layout, n: int, c: int, h: int, w: int) -> tuple[int, ...]:
    blocks = -(-n // BLOCK_IMAGES)
    return {
        "nhwc": (n, h, w, c), "nchw": (n, c, h, w), "chwn": (c, h, w, n), "chwn8": (blocks, c, h, w, BLOCK_IMAGES)
    }[layout]  # fmt: skip


def _check_integer(field: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_DIMENSION:
        raise UsageError(f"{field} is {value!r}; allowed are integers from {least} to {_MAX_DIMENSION}")


def _check_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{field} is {value!r}; allowed are {', '.join(allowed)}")


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition("x")
    return int(first), int(second or first)


def _short(vertical: int, horizontal: int) -> str:
    return str(vertical) if vertical == horizontal else f"{vertical}x{horizontal}"
