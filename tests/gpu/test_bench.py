"""The benchmark on a device: every peer gives the right answer for tiny layers and gets a time."""

from pathlib import Path

import pytest

from im2wingen.bench.request import request
from im2wingen.bench.result import BenchResult, load
from im2wingen.bench.suite import run_bench

pytestmark = pytest.mark.gpu

_SHAPES = ("n4c16h12w12k32r3s3", "n2c3h19w17k16r5s5st2pad1")


def measured(
    precision: str, layout: str, against: tuple[str, ...], out: Path, *, prepacked: bool = False
) -> BenchResult:
    problems, options = request(
        _SHAPES, against=against, precision=precision, layout=layout, batch=None, prepacked=prepacked, rounds=1,
        plan_seconds=3.0, finalists=2,
    )  # fmt: skip
    return run_bench(problems, options, out=out)


@pytest.mark.parametrize(
    ("precision", "layout"), [("fp16", "nhwc"), ("bf16", "nhwc"), ("fp32", "nhwc"), ("tf32", "nhwc"), ("fp16", "nchw")]
)
def test_every_peer_is_right_and_timed(precision: str, layout: str, tmp_path: Path) -> None:
    result = measured(precision, layout, ("cudnn", "im2col", "direct"), tmp_path / "out.json")
    assert result.complete
    assert load(tmp_path / "out.json") == result
    for layer in result.layers:
        assert {m.peer for m in layer.measurements} == {"im2wingen", "cudnn", "im2col", "direct"}, layer.skipped
        assert any(m.contestant.startswith("cudnn ") for m in layer.measurements), layer.skipped
        assert all(m.median_us >= m.min_us > 0 for m in layer.measurements)
        assert layer.plans_screened > 0


def test_a_packed_filter_gives_the_same_answer(tmp_path: Path) -> None:
    result = measured("fp16", "nhwc", (), tmp_path / "out.json", prepacked=True)
    assert [[m.contestant for m in layer.measurements] for layer in result.layers] == [["im2wingen"], ["im2wingen"]]


def test_the_time_limit_leaves_layers_out(tmp_path: Path) -> None:
    problems, options = request(
        _SHAPES, against=(), precision="fp16", layout="nhwc", batch=None, prepacked=False, rounds=1, plan_seconds=1.0,
        finalists=1,
    )  # fmt: skip
    result = run_bench(problems, options, out=tmp_path / "out.json", time_limit_s=1e-3)
    assert not result.complete
    assert len(result.layers) <= 1
    assert (tmp_path / "out.json").exists() == bool(result.layers)
