"""conv_reference against seven plain loops, and the element types' conversions."""

import itertools

import numpy as np
import pytest

from im2wingen.dtypes import STORAGE_DTYPE, from_storage, to_storage
from im2wingen.errors import ArrayError
from im2wingen.layouts import to_logical, to_stored
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_magnitude, conv_reference

SHAPES = [
    "n1c1h1w1k1r1s1",  # a single product
    "n2c3h5w7k4r3s2",  # nothing square
    "n1c2h6w9k3r2s3st2x3",  # strides that leave rows and columns over
    "n2c2h4w5k3r3s3pad1",  # every border tap outside
    "n1c2h3w4k2r3s3pad3,0,1,2",  # whole windows in the padding, four different pads
    "n1c2h9w8k2r3s2dil2x3",  # dilation
    "n1c2h5w6k3r3s3st2x1pad2,1,0,3dil2",  # all at once
    "n2c6h4w4k4r2s2g2",  # groups
    "n1c4h5w5k4r3s3pad1g4",  # depthwise
]


def brute_force(problem: ConvProblem, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """y as [N,K,P,Q] from x [N,C,H,W] and w [K,C/groups,R,S]."""
    y = np.zeros((problem.n, problem.k, problem.p, problem.q))
    group_k = problem.k // problem.groups
    for n, k, p, q in itertools.product(*map(range, y.shape)):
        for c, r, s in itertools.product(range(problem.group_c), range(problem.r), range(problem.s)):
            h = p * problem.stride_h - problem.pad_top + r * problem.dilation_h
            column = q * problem.stride_w - problem.pad_left + s * problem.dilation_w
            if 0 <= h < problem.h and 0 <= column < problem.w:
                y[n, k, p, q] += x[n, k // group_k * problem.group_c + c, h, column] * w[k, c, r, s]
    return y


@pytest.mark.parametrize("layout", ["nhwc", "nchw", "nhwc-nchw", "chwn", "chwn8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_loops(shape: str, layout: str) -> None:
    problem = ConvProblem.parse(shape, precision="fp32", layout=layout)
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (problem.n, problem.c, problem.h, problem.w)).astype(np.float64)
    w = rng.integers(-4, 5, (problem.k, problem.group_c, problem.r, problem.s)).astype(np.float64)
    y = conv_reference(
        problem, to_stored(x, problem.x_layout), w.transpose(0, 2, 3, 1) if problem.w_layout == "krsc" else w
    )
    np.testing.assert_array_equal(to_logical(y, problem.y_layout, problem.n), brute_force(problem, x, w))
    assert y.shape == problem.y_shape


def test_padding_is_skipped_and_not_multiplied_by_zero() -> None:
    problem = ConvProblem.parse("n1c1h3w3k1r3s3pad1", precision="fp32")
    w = np.ones(problem.w_shape)
    w[0, 0, :, :] = np.nan  # the top row of taps: outside the image for the first output row, inside for the others
    y = conv_reference(problem, np.ones(problem.x_shape), w)[0, :, :, 0]
    np.testing.assert_array_equal(y[0], [4, 6, 4])
    assert np.isnan(y[1:]).all()


def test_bias_is_added_and_relu_keeps_positive_sums() -> None:
    problem = ConvProblem.parse("n1c1h1w1k3r1s1", precision="fp32", epilogue="bias_relu")
    y = conv_reference(problem, np.full((1, 1, 1, 1), 2.0), np.ones((3, 1, 1, 1)), np.array([1.0, -5.0, -2.0]))
    assert y.ravel().tolist() == [3.0, 0.0, 0.0]


def test_magnitude_sums_absolute_terms_whatever_the_epilogue() -> None:
    problem = ConvProblem.parse("n1c2h1w1k1r1s1", precision="fp32", epilogue="bias_relu")
    x, w = np.array([3.0, -2.0]).reshape(1, 1, 1, 2), np.array([1.0, 4.0]).reshape(1, 1, 1, 2)
    assert conv_magnitude(problem, x, w, np.array([-0.5])).item() == 3 + 8 + 0.5


def test_bf16_storage_is_read_as_bf16() -> None:
    problem = ConvProblem.parse("n1c1h1w1k1r1s1", precision="bf16")
    one_and_a_half = np.full((1, 1, 1, 1), 0x3FC0, np.uint16)
    assert conv_reference(problem, one_and_a_half, one_and_a_half).item() == 2.25


def test_wrong_shapes_and_a_missing_bias_are_named() -> None:
    problem = ConvProblem.parse("n1c2h3w3k4r1s1", precision="fp32", epilogue="bias")
    x, w = np.zeros(problem.x_shape), np.zeros(problem.w_shape)
    with pytest.raises(ArrayError, match=r"x has shape \(3,\); needed is \(1, 3, 3, 2\)"):
        conv_reference(problem, np.zeros(3), w)
    with pytest.raises(ArrayError, match="bias is missing"):
        conv_reference(problem, x, w)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (1.0 + 2.0**-8, 0x3F80),  # a tie goes to even, down
        (1.0 + 3 * 2.0**-8, 0x3F82),  # a tie goes to even, up
        (-1.0 - 2.0**-8 - 2.0**-16, 0xBF81),  # just over the tie
        (3.4e38, 0x7F80),  # rounds up to infinity
        (np.inf, 0x7F80),
        (0.0, 0x0000),
        (1e-40, 0x0001),  # subnormal
    ],
)
def test_bf16_rounds_to_nearest_even(value: float, bits: int) -> None:
    assert to_storage(np.array([value]), "bf16")[0] == bits


def test_nan_survives_in_every_precision_that_has_one() -> None:
    for precision, dtype in STORAGE_DTYPE.items():
        if precision in ("int8", "int32"):
            continue
        stored = to_storage(np.array([np.nan, 2.0]), precision)
        assert stored.dtype == dtype
        back = from_storage(stored, precision)
        assert np.isnan(back[0])
        assert back[1] == 2.0
