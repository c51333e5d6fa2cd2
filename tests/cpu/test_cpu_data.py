"""Test data of a few images for a whole batch: what it must see in y, wherever in the batch it is."""

from dataclasses import replace

import numpy as np
import pytest

from im2wingen.cpu.data import TestData, array_forms, distinct_images
from im2wingen.dtypes import STORAGE_DTYPE
from im2wingen.layouts import image_of
from im2wingen.problem import ConvProblem
from im2wingen.reference import conv_reference
from im2wingen.verify_data import WrongResultError

PROBLEM = ConvProblem.parse("n20c3h5w6k4r3s2", precision="fp32", epilogue="bias")  # more images than differ


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ("n1c3h5w6k4r3s2", 1),
        ("n2c3h5w6k4r3s2", 2),
        ("n4c3h5w6k4r3s2", 3),
        ("n20c3h5w6k4r3s2", 13),
        ("n128c64h56w56k64r3s3", 7),  # of 0.2 GFLOP
        ("n128c64h224w224k64r7s7st2", 3),  # of 4.8 GFLOP
    ],
)
def test_the_reference_stays_affordable(shape: str, count: int) -> None:
    assert distinct_images(ConvProblem.parse(shape, precision="fp32")) == count


def right_y(data: TestData) -> tuple[np.ndarray, np.ndarray]:
    problem = data.problem
    x = np.empty(problem.x_shape, STORAGE_DTYPE[problem.precision])
    data.fill_x(x)
    return x, conv_reference(problem, x, data.inputs["w"], data.inputs["bias"]).astype(x.dtype)


@pytest.mark.parametrize("kind", ["integer", "normal"])
def test_what_is_right_passes(kind) -> None:
    x, y = right_y(TestData.of(PROBLEM, kind, 0))
    error = TestData.of(PROBLEM, kind, 0).check(y)
    assert error.norm_error <= (0.0 if kind == "integer" else 1e-7)
    assert not np.array_equal(x[0], x[1])
    assert np.array_equal(x[0], x[13])


@pytest.mark.parametrize("kind", ["integer", "normal"])
@pytest.mark.parametrize("index", [(0, 0, 0, 0), (19, 2, 4, 3), (13, 1, 2, 0)])
@pytest.mark.parametrize("value", [np.nan, 1e3])
def test_one_wrong_element_is_found(kind, index, value) -> None:
    data = TestData.of(PROBLEM, kind, 0)
    _, y = right_y(data)
    y[index] = value
    place = f"n={index[0]} k={index[3]} p={index[1]} q={index[2]}"
    with pytest.raises(WrongResultError, match=rf"1 of 1200 .* on {kind} data.* {place}, is {value:.9g}"):
        data.check(y)


@pytest.mark.parametrize("layout", ["nhwc", "nchw", "chwn", "chwn8"])
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_every_layout_is_held_to_its_bound(layout: str, precision: str) -> None:
    problem = ConvProblem.parse("n20c3h5w6k4r3s2", precision=precision, layout=layout, epilogue="bias")
    for kind in ("integer", "normal"):
        data = TestData.of(problem, kind, 0)
        _, y = right_y(data)
        if layout == "chwn8":
            y[-1, ..., 4:] = np.nan  # beyond the last image
        assert data.check(y).norm_error <= (0.0 if kind == "integer" else 1e-7)
        image = image_of(y, layout, 19)
        image[1, 2, 3] += {"fp32": 1e-4, "fp64": 1e-13}[precision]
        place = "n=19 k=3 p=1 q=2" if layout == "nhwc" else "n=19 k=1 p=2 q=3"
        with pytest.raises(WrongResultError, match=f"1 of 1200 .* {place}, is"):
            data.check(y)


def test_what_x_has_beyond_the_last_image_is_poison() -> None:
    problem = ConvProblem.parse("n20c3h5w6k4r3s2", precision="fp32", layout="chwn8")
    x = np.zeros(problem.x_shape, np.float32)
    TestData.of(problem, "integer", 0).fill_x(x)
    assert np.isnan(x[-1, ..., 4:]).all()
    assert not np.isnan(x[-1, ..., :4]).any()


def test_the_bound_is_tight() -> None:
    data = TestData.of(PROBLEM, "normal", 0)
    _, y = right_y(data)
    y[3, 1, 1, 1] += 1e-4
    with pytest.raises(WrongResultError):
        data.check(y)


def test_swapped_images_are_found() -> None:
    data = TestData.of(PROBLEM, "integer", 0)
    _, y = right_y(data)
    y[[4, 8]] = y[[8, 4]]
    with pytest.raises(WrongResultError):
        data.check(y)


def test_forms() -> None:
    forms = array_forms(PROBLEM)
    assert (forms["y"].shape, forms["y"].size_bytes) == (PROBLEM.y_shape, 4 * 20 * 3 * 5 * 4)
    assert (forms["bias"].shape, forms["bias"].size_bytes) == ((4,), 16)
    assert "bias" not in array_forms(replace(PROBLEM, epilogue="none"))
    integers = array_forms(replace(PROBLEM, precision="int8"))
    assert [integers[name].dtype.itemsize for name in ("x", "w", "y", "bias")] == [1, 1, 4, 4]
