"""Which shapes, strides, dtypes and addresses a convolution accepts."""

import pytest

from im2wingen.arrays import ArrayFacts, contiguous_strides
from im2wingen.errors import ArrayError
from im2wingen.problem import ConvProblem
from im2wingen.runtime.operands import Operands, check_alignment, check_overlap

NHWC = ConvProblem.parse("n2c8h6w7k16r3s3", epilogue="bias")  # y is 2x16x4x5
NCHW = ConvProblem.parse("n2c8h6w7k16r3s3", layout="nchw", precision="fp32")


def channels_last(shape):
    _, c, h, w = shape
    return (c * h * w, 1, c * w, c)


def facts(shape, strides=None, *, dtype="float16", device=0, readonly=False):
    strides = contiguous_strides(shape) if strides is None else strides
    return ArrayFacts(shape=shape, strides=strides, dtype=dtype, device=device, readonly=readonly)


def test_nhwc_takes_both_orders():
    operands = Operands.of(NHWC, 0)
    assert operands.check_x(facts((2, 8, 6, 7), channels_last((2, 8, 6, 7))), prefer_logical=False)
    assert not operands.check_x(facts((2, 6, 7, 8)), prefer_logical=True)
    operands.check_w(facts((16, 8, 3, 3), channels_last((16, 8, 3, 3))))
    operands.check_w(facts((16, 3, 3, 8)))
    operands.check_out(facts((2, 4, 5, 16)))
    operands.check_out(facts((2, 16, 4, 5), channels_last((2, 16, 4, 5))))


def test_nchw_takes_contiguous_alone():
    operands = Operands.of(NCHW, 0)
    assert operands.check_x(facts((2, 8, 6, 7), dtype="float32"), prefer_logical=False)
    with pytest.raises(ArrayError, match=r"has strides .*; expected NCHW = \(2, 8, 6, 7\) contiguous$"):
        operands.check_x(facts((2, 8, 6, 7), channels_last((2, 8, 6, 7)), dtype="float32"), prefer_logical=True)


def test_strides_of_size_one_mean_nothing():
    # C = 1: contiguous and channels-last are the same memory, and frameworks report either
    operands = Operands.of(ConvProblem.parse("n1c1h6w7k16r3s3"), 0)
    for strides in ((42, 42, 7, 1), (42, 1, 7, 1), (999, 999, 7, 1)):
        assert operands.check_x(facts((1, 1, 6, 7), strides), prefer_logical=False)


@pytest.mark.parametrize("prefer_logical", [True, False])
def test_a_shape_that_fits_both_orders_takes_the_framework_s(prefer_logical):
    operands = Operands.of(ConvProblem.parse("n4c1h1w1k16r1s1"), 0)  # NCHW and NHWC are equal
    assert operands.check_x(facts((4, 1, 1, 1)), prefer_logical=prefer_logical) is prefer_logical


def test_equal_channels_and_extents_are_told_apart_by_strides():
    operands = Operands.of(ConvProblem.parse("n1c6h6w6k16r3s3"), 0)
    shape = (1, 6, 6, 6)
    assert operands.check_x(facts(shape, channels_last(shape)), prefer_logical=False)
    assert not operands.check_x(facts(shape), prefer_logical=True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            facts((2, 8, 6, 9)),
            r"x has shape \(2, 8, 6, 9\); expected NCHW = \(2, 8, 6, 7\) with channels-last strides or",
        ),
        (facts((2, 8, 6)), r"x has shape \(2, 8, 6\); expected"),
        (facts((2, 8, 6, 7)), r"x of shape \(2, 8, 6, 7\) has strides \(336, 42, 7, 1\); expected"),  # contiguous NCHW
        (facts((3, 6, 7, 8)), r"x has batch 3 and this convolution was loaded for batch 2"),
        (facts((2, 6, 7, 8), dtype="float32"), r"x has dtype float32; precision fp16 needs float16"),
        (facts((2, 6, 7, 8), device=1), r"x is on CUDA device 1 and this convolution was loaded for device 0"),
        (facts((2, 6, 7, 8), device=None), r"x lies in host memory"),
    ],
)
def test_wrong_x(given, sentence):
    with pytest.raises(ArrayError, match=sentence):
        Operands.of(NHWC, 0).check_x(given, prefer_logical=True)


def test_wrong_w_and_out():
    operands = Operands.of(NHWC, 0)
    with pytest.raises(ArrayError, match=r"w has shape \(16, 3, 8, 3\); expected KCRS = .* or KRSC = "):
        operands.check_w(facts((16, 3, 8, 3)))
    with pytest.raises(ArrayError, match="out is read-only"):
        operands.check_out(facts((2, 4, 5, 16), readonly=True))
    with pytest.raises(ArrayError, match="out has shape"):
        operands.check_out(facts((2, 5, 4, 16)))


def test_bias_goes_with_the_epilogue():
    operands = Operands.of(NHWC, 0)
    operands.check_bias(facts((16,)))
    for given, sentence in (
        (None, r"bias is missing: epilogue bias needs \(16,\) elements"),
        (facts((8,)), r"bias has shape \(8,\); expected K = \(16,\)"),
        (facts((16,), (2,)), r"has strides \(2,\)"),
        (facts((16,), dtype="float32"), "bias has dtype float32"),
    ):
        with pytest.raises(ArrayError, match=sentence):
            operands.check_bias(given)
    with pytest.raises(ArrayError, match="bias is given, but the problem was loaded with epilogue none"):
        Operands.of(NCHW, 0).check_bias(facts((16,), dtype="float32"))


@pytest.mark.parametrize(
    ("precision", "x_dtypes", "y_dtype", "sentence"),
    [
        ("int8", ("int8",), "int32", "x has dtype uint8; precision int8 needs int8"),
        ("e4m3", ("float8_e4m3fn", "uint8"), "float16", "needs float8_e4m3fn or its bits as uint8"),
        ("e5m2", ("float8_e5m2", "uint8"), "float16", "needs float8_e5m2 or its bits as uint8"),
    ],
)
def test_elements_of_8_bits(precision, x_dtypes, y_dtype, sentence):
    problem = ConvProblem.parse("n2c8h6w7k16r3s3", precision=precision, epilogue="bias")
    operands = Operands.of(problem, 0)
    for dtype in x_dtypes:
        operands.check_x(facts((2, 6, 7, 8), dtype=dtype), prefer_logical=False)
        operands.check_w(facts((16, 3, 3, 8), dtype=dtype))
    operands.check_bias(facts((16,), dtype=y_dtype))
    operands.check_out(facts((2, 4, 5, 16), dtype=y_dtype))
    with pytest.raises(ArrayError, match=sentence):
        operands.check_x(facts((2, 6, 7, 8), dtype="uint8" if precision == "int8" else "int8"), prefer_logical=False)
    with pytest.raises(ArrayError, match=f"out has dtype int8; precision {precision} needs {y_dtype}"):
        operands.check_out(facts((2, 4, 5, 16), dtype="int8"))
    size = {"int32": 4, "float16": 2}[y_dtype]
    assert operands.sizes_bytes() == {"x": 672, "w": 1152, "bias": 16 * size, "out": 640 * size}


def test_groups_and_mixed_layouts():
    grouped = ConvProblem.parse("n1c8h6w6k16r3s3g4", layout="nchw-nhwc")
    operands = Operands.of(grouped, 0)
    operands.check_w(facts((16, 2, 3, 3)))  # C / groups
    operands.check_out(facts((1, 4, 4, 16)))
    assert operands.sizes_bytes() == {"x": 576, "w": 576, "bias": 32, "out": 512}


def test_alignment_names_the_array():
    check_alignment({"x": 32, "w": 16, "bias": 0})
    with pytest.raises(ArrayError, match="w starts at address 0x18, which is not a multiple of 16 bytes"):
        check_alignment({"x": 32, "w": 24})


def test_overlap_is_by_bytes():
    sizes = {"x": 100, "w": 50, "bias": 10, "out": 100}
    pointers = {"x": 1000, "w": 2000, "bias": 0, "out": 1100}
    check_overlap(pointers, sizes)  # starts where x ends
    for out, role in ((1099, "x"), (901, "x"), (2049, "w"), (1901, "w")):
        with pytest.raises(ArrayError, match=f"out shares memory with {role}"):
            check_overlap(pointers | {"out": out}, sizes)
