import pytest

from im2wingen.bench.buffers import set_count
from im2wingen.problem import ConvProblem


@pytest.mark.parametrize(
    ("layer", "batch", "l2_bytes", "sets"),
    [
        ("cv4", 128, 60 << 20, 1),  # alone beyond four times L2
        ("cv12", 128, 0, 17),  # 14.3 MB each: 240 MB
        ("cv12", 128, 100 << 20, 30),  # a larger cache asks for more
        ("n1c8h8w8k8r1s1", None, 0, 512),  # never more than that
    ],
)
def test_sets_pass_the_cache(layer: str, batch: int | None, l2_bytes: int, sets: int) -> None:
    assert set_count(ConvProblem.parse(layer, batch=batch), l2_bytes) == sets
