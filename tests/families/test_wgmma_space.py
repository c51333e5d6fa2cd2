"""What the search space of the wgmma family promises for the suite's layers and for odd problems."""

import itertools

import pytest
from wgmma_cases import TARGET

from im2wingen.families.wgmma import WGMMA
from im2wingen.families.wgmma_config import WgmmaConfig
from im2wingen.families.wgmma_space import shapes
from im2wingen.problem import ConvProblem

LAYERS = ("cv4", "cv5", "cv6", "cv8", "cv9", "cv10", "cv11", "cv12")
ODD = (
    "n1c8h1w1k8r1s1",  # one pixel
    "n2c8h1w700k8r1s3",  # one long row
    "n3c24h700w1k72r3s1",  # one long column
    "n1c2048h3w3k1000r3s3",  # one output a row, many channels
    "n257c16h5w5k136r3s3pad2dil2",  # a prime number of images
    "n2c24h33w35k24r5s4st3x2pad1,0,2,1dil2x1",  # planes
    "n1c16h2160w3840k16r3s3",  # a picture
    "n3c200h7w7k320r1s1",  # an odd number of pixels
    "n1c64h64w64k8r11s11",  # 121 taps
    "n1c64h200w200k64r33s33",  # two stages of the smallest patch hardly fit
)


@pytest.mark.parametrize("shape", [*LAYERS, *ODD])
def test_every_pick_is_legal(shape: str) -> None:
    problem = ConvProblem.parse(shape)
    assert WGMMA.unsupported(problem, TARGET) is None
    candidates = shapes(problem, TARGET)
    assert 0 < len(candidates) <= 9 * 12
    assert all(WGMMA.broken_rules(problem, TARGET, config) == [] for config in candidates.values())
    configs = list(itertools.islice(WGMMA.random_configs(problem, TARGET, 1), 60))
    assert [WGMMA.broken_rules(problem, TARGET, config) for config in configs] == [[]] * 60
    default = WGMMA.default(problem, TARGET)
    assert WGMMA.broken_rules(problem, TARGET, default) == []
    assert WGMMA.choices_of(problem, TARGET, default) is not None
    if shape in LAYERS:  # the space holds several ways
        assert len({(config.mapping, config.split) for config in candidates.values()}) >= 2
        assert len(set(configs)) > 40


def test_the_best_shape_comes_first() -> None:
    problem = ConvProblem.parse("cv9")
    first = next(iter(shapes(problem, TARGET).values()))
    default = WGMMA.default(problem, TARGET).to_dict()
    assert {name: default[name] for name in ("mapping", "split", "tile_n", "tile_p", "tile_q", "block_k")} == {
        name: getattr(first, name) for name in ("mapping", "split", "tile_n", "tile_p", "tile_q", "block_k")
    }


@pytest.mark.parametrize(
    ("shape", "tile_q", "stages"),
    [
        ("n32c2048h7w7k512r1s1", 98, 10),  # a quarter of a row; a product is 104 wide
        ("n32c1024h13w13k512r1s1", 169, 5),  # as many stages as fit beside as many of the filter
        ("n8c1024h14w14k256r1s1", 56, 10),  # of one consumer: 5.0 us, 5.7 of two that share 62 pixels
    ],
)
def test_pixels_of_one_tap_come_in_equal_runs_through_deep_rings(shape: str, tile_q: int, stages: int) -> None:
    config = WGMMA.default(ConvProblem.parse(shape), TARGET)
    assert isinstance(config, WgmmaConfig)
    assert (config.tile_q, config.patch_stages) == (tile_q, stages)
    assert config.filter_stages >= stages


@pytest.mark.parametrize(
    ("shape", "ctas"),
    [
        ("n1c1024h13w13k512r1s1", 4),  # 3.3 us, 4.0 of single CTAs
        ("n1c1024h14w14k512r1s1", 1),
    ],
)
def test_a_sum_is_shared_where_that_measured_best(shape: str, ctas: int) -> None:
    config = WGMMA.default(ConvProblem.parse(shape), TARGET)
    assert isinstance(config, WgmmaConfig)
    assert config.cluster_k == ctas


@pytest.mark.parametrize(
    "shape",
    [
        "n1c8h300w300k8r255s255",  # the window of one pixel is larger than shared memory
        "n1c8h400w400k8r3s3dil150",  # likewise, by dilation
    ],
)
def test_a_window_that_does_not_fit_is_refused(shape: str) -> None:
    problem = ConvProblem.parse(shape)
    assert not shapes(problem, TARGET)
    assert WGMMA.unsupported(problem, TARGET) == "no patch with its filters fits shared memory"
