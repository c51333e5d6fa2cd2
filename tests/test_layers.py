import pytest

from im2wingen.layers import IM2WIN_SUITE, SUITES, expanded, name_of, named_shape
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
    assert (problem.n, problem.p, problem.q) == (128, OUTPUTS[name], OUTPUTS[name])
    assert not problem.has_padding


def test_shape_strings() -> None:
    assert named_shape("cv5") == "n128c96h24w24k256r5s5"
    assert named_shape("CV1", 2) == "n2c3h227w227k96r11s11st4"


# MACs of one image through the network, its convolutions counted as often as they occur (torchvision's models at
# 224x224 and Darknet-53 at 416x416; the fully connected layers left out).
REPEATS = {
    "resnet50": {
        "layer1.1.conv1": 2, "layer1.0.conv2": 3, "layer1.0.conv3": 4, "layer2.1.conv1": 3, "layer2.1.conv2": 3,
        "layer2.0.conv3": 4, "layer3.1.conv1": 5, "layer3.1.conv2": 5, "layer3.0.conv3": 6, "layer4.1.conv1": 2,
        "layer4.1.conv2": 2, "layer4.0.conv3": 3,
    },
    "vgg16": {"features.12": 2, "features.19": 2, "features.24": 3},
    "darknet53": {
        "stage2.conv1": 2, "stage2.conv2": 2, "stage3.conv1": 8, "stage3.conv2": 8, "stage4.conv1": 8,
        "stage4.conv2": 8, "stage5.conv1": 4, "stage5.conv2": 4,
    },
}  # fmt: skip
GIGAMACS = {"resnet50": 4.09, "vgg16": 15.35, "darknet53": 24.5}


@pytest.mark.parametrize("suite", REPEATS)
def test_a_network_has_the_work_that_it_is_known_for(suite: str) -> None:
    macs = 0
    for name in SUITES[suite].layers:
        problem = ConvProblem.parse(name, batch=1)
        macs += problem.flops // 2 * REPEATS[suite].get(name.removeprefix(f"{suite}."), 1)
    assert macs / 1e9 == pytest.approx(GIGAMACS[suite], rel=0.01)


def test_every_layer_is_canonical_and_knows_its_name() -> None:
    for suite in SUITES.values():
        assert len(set(suite.layers.values())) == len(suite.layers)  # each convolution once
        for name, shape in suite.layers.items():
            problem = ConvProblem.parse(name)
            assert problem.shape == f"n{suite.batch}{shape}" == named_shape(name.upper())
            assert problem.layer_name == name_of(problem.shape) == name
            assert ConvProblem.parse(name, batch=3).n == 3


def test_suites_are_expanded_in_place() -> None:
    assert expanded(["cv3", "VGG16", "n1c1h1w1k1r1s1"]) == ["cv3", *SUITES["vgg16"].layers, "n1c1h1w1k1r1s1"]


@pytest.mark.parametrize("name", ["", "cv", "cv0", "cv13", "cv5 ", "n1c1h1w1k1r1s1"])
def test_unknown_names(name: str) -> None:
    assert named_shape(name) is None
