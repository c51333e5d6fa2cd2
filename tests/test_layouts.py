"""Arrays of every layout to the logical order and back."""

import numpy as np
import pytest

from im2wingen.layouts import image_of, to_logical, to_stored
from im2wingen.problem import ConvProblem

SHAPES = {"nhwc": (11, 4, 5, 3), "nchw": (11, 3, 4, 5), "chwn": (3, 4, 5, 11), "chwn8": (2, 3, 4, 5, 8)}


@pytest.mark.parametrize("layout", SHAPES)
def test_there_and_back(layout: str) -> None:
    logical = np.arange(11 * 3 * 4 * 5).reshape(11, 3, 4, 5)
    stored = to_stored(logical, layout)
    problem = ConvProblem.parse("n11c3h4w5k1r1s1", layout=layout)
    assert stored.shape == problem.x_shape == SHAPES[layout]
    assert stored.flags.c_contiguous
    np.testing.assert_array_equal(to_logical(stored, layout, 11), logical)
    image = logical[9].transpose(1, 2, 0) if layout == "nhwc" else logical[9]
    np.testing.assert_array_equal(image_of(stored, layout, 9), image)
    assert np.shares_memory(image_of(stored, layout, 9), stored)


def test_what_lies_beyond_the_last_image_is_zero() -> None:
    stored = to_stored(np.ones((11, 3, 4, 5)), "chwn8")
    assert stored.sum() == 11 * 3 * 4 * 5
    assert not stored[1, ..., 3:].any()
