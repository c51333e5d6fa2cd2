"""Problems for the families' tests, by hypothesis."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from im2wingen.problem import ConvProblem

LAYOUTS = st.sampled_from(("nhwc", "nchw"))


def _sizes(largest: int) -> st.SearchStrategy[int]:
    """1, something ordinary, or something up to `largest`."""
    return st.one_of(st.just(1), st.integers(1, min(largest, 40)), st.integers(1, largest))


@st.composite
def problems(
    draw: st.DrawFn, precisions: tuple[str, ...], largest: int = 3000, *, channel_unit: int = 1
) -> ConvProblem:
    """Ungrouped problems with arrays from one element to terabytes, in every layout.

    C and K are multiples of `channel_unit`.
    """
    pads = {f"pad_{side}": draw(st.sampled_from((0, 0, 1, 3))) for side in ("top", "bottom", "left", "right")}
    r, s = draw(_sizes(13)), draw(_sizes(13))
    dilation_h, dilation_w = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    h, w = draw(_sizes(largest)), draw(_sizes(largest))
    assume((r - 1) * dilation_h < h + pads["pad_top"] + pads["pad_bottom"])
    assume((s - 1) * dilation_w < w + pads["pad_left"] + pads["pad_right"])
    fields: dict[str, Any] = {
        "n": draw(_sizes(largest)), "c": channel_unit * draw(_sizes(largest // channel_unit)), "h": h, "w": w,
        "k": channel_unit * draw(_sizes(largest // channel_unit)),
        "r": r, "s": s, "dilation_h": dilation_h, "dilation_w": dilation_w, **pads,
        "stride_h": draw(st.integers(1, 5)), "stride_w": draw(st.integers(1, 5)),
        "precision": draw(st.sampled_from(precisions)), "x_layout": draw(LAYOUTS), "y_layout": draw(LAYOUTS),
        "w_layout": draw(st.sampled_from(("krsc", "kcrs"))),
        "epilogue": draw(st.sampled_from(("none", "bias", "bias_relu"))),
    }  # fmt: skip
    return ConvProblem(**fields)
