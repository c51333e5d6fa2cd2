"""ConvProblem: the shape grammar, the canonical key, and derived sizes against plain counting."""

import copy
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from im2wingen.errors import UsageError
from im2wingen.problem import ConvProblem

SMALL: dict[str, Any] = {"n": 2, "c": 6, "h": 7, "w": 8, "k": 4, "r": 3, "s": 2}
MOST = 2**31 - 1


def problem_of(**changes: Any) -> ConvProblem:
    return ConvProblem(**{**SMALL, **changes})


@st.composite
def problems(draw: st.DrawFn) -> ConvProblem:
    """Any problem whose window fits the padded input, grouped ones too."""
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    fields: dict[str, Any] = {
        **{name: draw(st.integers(1, 9)) for name in ("n", "h", "w", "r", "s")},
        **{name: groups * draw(st.integers(1, 5)) for name in ("c", "k")},
        **{f"pad_{side}": draw(st.integers(0, 4)) for side in ("top", "bottom", "left", "right")},
        **{name: draw(st.integers(1, 3)) for name in ("stride_h", "stride_w", "dilation_h", "dilation_w")},
        "precision": draw(st.sampled_from(("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "e4m3", "e5m2"))),
        "x_layout": draw(st.sampled_from(("nhwc", "nchw", "chwn", "chwn8"))),
        "w_layout": draw(st.sampled_from(("krsc", "kcrs"))),
        "y_layout": draw(st.sampled_from(("nhwc", "nchw", "chwn", "chwn8"))),
        "epilogue": draw(st.sampled_from(("none", "bias", "bias_relu"))),
    }
    assume((fields["r"] - 1) * fields["dilation_h"] < fields["h"] + fields["pad_top"] + fields["pad_bottom"])
    assume((fields["s"] - 1) * fields["dilation_w"] < fields["w"] + fields["pad_left"] + fields["pad_right"])
    return ConvProblem(groups=groups, **fields)


# ---- grammar ----


def test_shape_alone() -> None:
    assert ConvProblem.parse("n2c6h7w8k4r3s2") == problem_of()


def test_every_part_of_the_grammar() -> None:
    parsed = ConvProblem.parse(
        "n2c6h7w8k4r3s2st2x1pad0,1,2,3dil1x2g2", precision="bf16", layout="nchw-nhwc", epilogue="bias_relu"
    )
    assert parsed == problem_of(
        stride_h=2, stride_w=1, pad_top=0, pad_bottom=1, pad_left=2, pad_right=3, dilation_h=1, dilation_w=2, groups=2,
        precision="bf16", x_layout="nchw", w_layout="kcrs", y_layout="nhwc", epilogue="bias_relu",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("suffix", "changes"),
    [
        ("st3", {"stride_h": 3, "stride_w": 3}),
        ("st1x3", {"stride_h": 1, "stride_w": 3}),
        ("pad1", {"pad_top": 1, "pad_bottom": 1, "pad_left": 1, "pad_right": 1}),
        ("pad1x2", {"pad_top": 1, "pad_bottom": 1, "pad_left": 2, "pad_right": 2}),
        ("pad4,0,0,0", {"pad_top": 4}),
        ("dil2", {"dilation_h": 2, "dilation_w": 2}),
        ("dil3x1", {"dilation_h": 3}),
        ("g2", {"groups": 2}),
    ],
)
def test_optional_parts(suffix: str, changes: dict[str, int]) -> None:
    parsed = ConvProblem.parse(f"n2c6h7w8k4r3s2{suffix}")
    assert parsed == problem_of(**changes)
    assert parsed.shape == f"n2c6h7w8k4r3s2{suffix}"


@pytest.mark.parametrize("suffix", ["st1", "st1x1", "pad0", "pad0x0", "pad0,0,0,0", "dil1", "g1", "st1pad0dil1g1"])
def test_defaults_are_left_out(suffix: str) -> None:
    assert ConvProblem.parse(f"n2c6h7w8k4r3s2{suffix}").shape == "n2c6h7w8k4r3s2"


def test_equal_pairs_are_written_short() -> None:
    assert ConvProblem.parse("n2c6h7w8k4r3s2st2x2pad1,1,1,1dil2x2").shape == "n2c6h7w8k4r3s2st2pad1dil2"


def test_case_and_blanks_do_not_matter() -> None:
    assert ConvProblem.parse(" N2C6H7W8K4R3S2PAD1 ") == ConvProblem.parse("n2c6h7w8k4r3s2pad1")
    assert ConvProblem.parse("CV5", precision="FP16", layout="NHWC", epilogue="None") == ConvProblem.parse("cv5")


def test_batch_replaces_n() -> None:
    assert ConvProblem.parse("cv5").n == 128
    assert ConvProblem.parse("cv5", batch=3).shape == "n3c96h24w24k256r5s5"
    assert ConvProblem.parse("n2c6h7w8k4r3s2", batch=9) == problem_of(n=9)


@pytest.mark.parametrize("shape", ["cv5", "n2c6h7w8k4r3s2"])
@pytest.mark.parametrize("batch", [0, -1])
def test_a_wrong_batch_names_n(shape: str, batch: int) -> None:
    with pytest.raises(UsageError, match=rf"^n is {batch}; allowed are integers from 1 to {MOST}$"):
        ConvProblem.parse(shape, batch=batch)


@pytest.mark.parametrize(
    "text",
    [
        "", "cv0", "cv13", "resnet50", "n2c6h7w8k4r3", "c6n2h7w8k4r3s2", "n2c6h7w8k4r3s2pad1st2", "n2c6h7w8k4r3s2g",
        "n2c6h7w8k4r3s2st2x1x1", "n2c6h7w8k4r3s2pad1,2", "n2c6h7w8k4r3s2pad-1", "n-2c6h7w8k4r3s2", "n2.0c6h7w8k4r3s2",
        "n2c6h7w8k4r3s2 st2", "n2c6h7w8k4r3s2;", "n2c6h7w8k4r3s2\nst2",
    ],
)  # fmt: skip
def test_what_is_no_shape_gets_the_grammar(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        ConvProblem.parse(text)
    sentence = str(caught.value)
    assert sentence.startswith(
        f"shape is {text!r}; allowed is a named layer (cv1 to cv12, resnet50.conv1 ...) or a shape such as n128c64"
    )
    for part in ("st2 or st2x1 (stride)", "pad0,1,2,3 (top,bottom,left,right)", "dil2 (dilation)", "g32 (groups)"):
        assert part in sentence


def test_numbers_have_a_limit() -> None:
    with pytest.raises(UsageError, match=f"shape holds {10**11}; allowed are numbers up to {MOST}"):
        ConvProblem.parse(f"n2c6h{10**11}w8k4r3s2")
    with pytest.raises(UsageError, match=f"h is {MOST + 1}; allowed are integers from 1 to {MOST}"):
        ConvProblem.parse(f"n2c6h{MOST + 1}w8k4r3s2")
    assert ConvProblem.parse(f"n2c6h{MOST}w8k4r3s2").h == MOST


@pytest.mark.parametrize("layout", ["", "nhwcx", "nhwc-x", "-nhwc", "krsc", "nchw-nhwc-nchw"])
def test_a_wrong_layout_lists_the_allowed(layout: str) -> None:
    with pytest.raises(UsageError) as caught:
        ConvProblem.parse("cv5", layout=layout)
    assert (
        str(caught.value)
        == f"layout is {layout!r}; allowed are nhwc, nchw, chwn, chwn8, or two of them as in nchw-nhwc (x, then y)"
    )


@pytest.mark.parametrize(
    ("layout", "layouts"),
    [
        ("nhwc", ("nhwc", "krsc", "nhwc")),
        ("nchw", ("nchw", "kcrs", "nchw")),
        ("nchw-nhwc", ("nchw", "kcrs", "nhwc")),
        ("nhwc-nchw", ("nhwc", "krsc", "nchw")),
        ("chwn", ("chwn", "kcrs", "chwn")),
        ("chwn8", ("chwn8", "kcrs", "chwn8")),
    ],
)
def test_layouts(layout: str, layouts: tuple[str, str, str]) -> None:
    problem = ConvProblem.parse("cv5", layout=layout)
    assert (problem.x_layout, problem.w_layout, problem.y_layout) == layouts
    assert problem.layout == layout


# ---- fields ----


@pytest.mark.parametrize(
    "field", [*SMALL, "stride_h", "stride_w", "dilation_h", "dilation_w", "groups"]
)  # fmt: skip
@pytest.mark.parametrize("value", [0, -1, 2**31, 1.0, "2", None, True])
def test_a_count_must_be_positive(field: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        problem_of(**{field: value})
    assert str(caught.value) == f"{field} is {value!r}; allowed are integers from 1 to {MOST}"


@pytest.mark.parametrize("side", ["top", "bottom", "left", "right"])
@pytest.mark.parametrize("value", [-1, 2**31, 0.0, False])
def test_a_pad_must_not_be_negative(side: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        problem_of(**{f"pad_{side}": value})
    assert str(caught.value) == f"pad_{side} is {value!r}; allowed are integers from 0 to {MOST}"


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("precision", "fp32, tf32, fp16, bf16, fp64, int8, e4m3, e5m2"),
        ("x_layout", "nhwc, nchw, chwn, chwn8"),
        ("w_layout", "krsc, kcrs"),
        ("y_layout", "nhwc, nchw, chwn, chwn8"),
        ("epilogue", "none, bias, bias_relu"),
    ],
)
def test_a_choice_lists_the_allowed(field: str, allowed: str) -> None:
    with pytest.raises(UsageError) as caught:
        problem_of(**{field: "other"})
    assert str(caught.value) == f"{field} is 'other'; allowed are {allowed}"


@pytest.mark.parametrize("groups", [4, 5, 6, 12])  # 4 divides K alone, 6 C alone
def test_groups_divide_both_channels(groups: int) -> None:
    with pytest.raises(UsageError) as caught:
        problem_of(groups=groups)
    assert str(caught.value) == f"groups is {groups}; it must divide C (6) and K (4)"


def test_the_window_fits_the_padded_input() -> None:
    with pytest.raises(UsageError, match=r"^r with its dilation spans 9; the padded input has only 8$"):
        problem_of(dilation_h=4, pad_top=1)
    with pytest.raises(UsageError, match=r"^s with its dilation spans 9; the padded input has only 8$"):
        problem_of(dilation_w=8)
    assert problem_of(dilation_h=4, pad_top=1, pad_bottom=1).p == 1
    assert problem_of(dilation_w=7).q == 1


# ---- key ----


@given(problems())
def test_the_key_reads_back(problem: ConvProblem) -> None:
    assert ConvProblem.from_key(problem.key) == problem
    assert ConvProblem.from_key(problem.key).key == problem.key


@given(problems(), problems())
def test_keys_differ_where_problems_do(one: ConvProblem, other: ConvProblem) -> None:
    assert (one == other) == (one.key == other.key)


def test_the_key_is_text_that_stays() -> None:
    problem = problem_of(stride_w=2, pad_left=1, epilogue="bias", w_layout="kcrs", precision="tf32")
    assert problem.key == "n2c6h7w8k4r3s2st1x2pad0,0,1,0/tf32/nhwc-kcrs-nhwc/bias"


@pytest.mark.parametrize(
    "key",
    [
        "", "cv5", "n2c6h7w8k4r3s2/fp16", "n2c6h7w8k4r3s2/fp16/nhwc-nhwc/none", "n2c6h7w8k4r3s2/fp16/nhwc-krsc-nhwc",
        "n2c6h7w8k4r3s2/fp16/nhwc-krsc-nhwc/none/", "n2c6h7w8k4r3s2/fp16/nhwc-none-nhwc/none",
        "n2c6h7w8k4r3s2/fp16/nhwc-krsc-nhwc/relu", "n2c6h7w8k4r3s2/fp80/nhwc-krsc-nhwc/none",
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError):
        ConvProblem.from_key(key)


@pytest.mark.parametrize("layer", ["cv1", "cv4", "cv5", "cv12"])
def test_a_layer_keeps_its_name_at_any_batch(layer: str) -> None:
    assert ConvProblem.parse(layer).layer_name == layer
    assert ConvProblem.parse(layer, batch=7, precision="bf16", layout="nchw").layer_name == layer
    assert replace(ConvProblem.parse(layer), pad_top=1).layer_name is None


# ---- derived sizes, counted ----


def _starts(extent: int, before: int, after: int, window: int, dilation: int, stride: int) -> list[int]:
    """First inputs of all windows that lie in the padded input, every stride-th."""
    places = range(-before, extent + after)
    last_tap = (window - 1) * dilation
    return [start for start in places if start + last_tap in places][::stride]


@settings(max_examples=60)
@given(problems())
def test_derived_sizes_are_what_counting_gives(problem: ConvProblem) -> None:
    rows = _starts(problem.h, problem.pad_top, problem.pad_bottom, problem.r, problem.dilation_h, problem.stride_h)
    columns = _starts(problem.w, problem.pad_left, problem.pad_right, problem.s, problem.dilation_w, problem.stride_w)
    assert (problem.p, problem.q) == (len(rows), len(columns))
    assert problem.gemm_m == problem.n * len(rows) * len(columns)
    assert problem.gemm_n == problem.k
    # the channels of output channel 0's group
    group = [c for c in range(problem.c) if c * problem.groups // problem.c == 0]
    taps = [(r, s, c) for r in range(problem.r) for s in range(problem.s) for c in group]
    assert problem.group_c == len(group)
    assert problem.gemm_k == len(taps)
    assert problem.flops == 2 * problem.n * problem.k * len(rows) * len(columns) * len(taps)
    assert problem.has_padding == (problem.padded_h > problem.h or problem.padded_w > problem.w)


@settings(max_examples=60)
@given(problems())
def test_array_sizes_agree(problem: ConvProblem) -> None:
    x = (problem.n, problem.c, problem.h, problem.w)
    in_blocks = -(-problem.n // 8) * 8
    assert math.prod(problem.x_shape) == math.prod(x) // problem.n * (
        in_blocks if problem.x_layout == "chwn8" else problem.n
    )
    assert problem.x_layout == "chwn8" or sorted(problem.x_shape) == sorted(x)
    last = {"nhwc": problem.c, "nchw": problem.w, "chwn": problem.n, "chwn8": 8}
    assert problem.x_shape[-1] == last[problem.x_layout]
    assert (problem.w_shape[3] == problem.group_c) or problem.w_layout == "kcrs"
    assert problem.y_shape[-1] == (last | {"nhwc": problem.k, "nchw": problem.q})[problem.y_layout]
    size, y_size = {"fp64": (8, 8), "fp32": (4, 4), "tf32": (4, 4), "fp16": (2, 2), "bf16": (2, 2)}.get(
        problem.precision, (1, 4 if problem.precision == "int8" else 2)
    )
    assert (problem.element_bytes, problem.y_element_bytes) == (size, y_size)
    bias = 0 if problem.epilogue == "none" else problem.k
    read, written = math.prod(problem.x_shape) + math.prod(problem.w_shape), math.prod(problem.y_shape) + bias
    assert problem.compulsory_bytes == size * read + y_size * written
    # every element of the im2col matrix: an output pixel, a channel, a tap
    assert problem.im2col_bytes == size * problem.gemm_m * problem.c * problem.r * problem.s
    images = in_blocks if problem.x_layout == "chwn8" else problem.n
    assert problem.im2win_bytes == size * images * problem.c * problem.p * problem.padded_w * problem.r


def test_im2win_is_smaller_than_im2col_where_windows_overlap() -> None:
    problem = ConvProblem.parse("cv9")
    assert problem.im2win_bytes < problem.im2col_bytes / 2


def test_a_problem_is_a_value() -> None:
    problem = problem_of(pad_top=1)
    assert problem.key  # its cached text travels or not, and changes nothing
    for copied in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), replace(problem)):
        assert copied == problem
        assert hash(copied) == hash(problem)
        assert copied.key == problem.key
    assert replace(problem, n=5).key.startswith("n5c6")
    with pytest.raises(AttributeError):
        problem.n = 3  # type: ignore[misc]


def test_types_of_y() -> None:
    wanted = {"fp64": "fp64", "fp32": "fp32", "tf32": "fp32", "fp16": "fp16", "bf16": "bf16"}
    wanted |= {"int8": "int32", "e4m3": "fp16", "e5m2": "fp16"}
    for precision, y_dtype in wanted.items():
        problem = ConvProblem.parse("cv5", precision=precision)
        assert problem.y_dtype == y_dtype
        assert ConvProblem.from_key(problem.key) == problem
    assert ConvProblem.parse("cv5", precision="INT8").key.endswith("/int8/nhwc-krsc-nhwc/none")
