import pytest

from im2wingen.layers import DEFAULT_BATCH, IM2WIN_SUITE, named_shape
from im2wingen.problem import ConvProblem

# Output extents of the twelve layers: floor((H - R) / stride) + 1, worked out by hand.
OUTPUTS = {
    "cv1": 55, "cv2": 56, "cv3": 111, "cv4": 109, "cv5": 20, "cv6": 10, "cv7": 222, "cv8": 110, "cv9": 54, "cv10": 26,
    "cv11": 12, "cv12": 5,
}  # fmt: skip


def test_the_suite_has_twelve_layers_in_order() -> None:
    assert list(IM2WIN_SUITE) == [f"cv{i}" for i in range(1, 13)]


@pytest.mark.parametrize("name", IM2WIN_SUITE)
def test_outputs(name: str) -> None:
    problem = ConvProblem.parse(name)
    assert (problem.n, problem.p, problem.q) == (DEFAULT_BATCH, OUTPUTS[name], OUTPUTS[name])
    assert not problem.has_padding


def test_shape_strings() -> None:
    assert named_shape("cv5") == "n128c96h24w24k256r5s5"
    assert named_shape("CV1", 2) == "n2c3h227w227k96r11s11st4"


@pytest.mark.parametrize("name", ["", "cv", "cv0", "cv13", "cv5 ", "n1c1h1w1k1r1s1"])
def test_unknown_names(name: str) -> None:
    assert named_shape(name) is None
