from dataclasses import replace
from pathlib import Path

import pytest
from bench_results import layer, measurement, result, two_layers

from im2wingen.bench.markdown import rewrite, rewrite_file
from im2wingen.bench.result import BenchResult
from im2wingen.bench.runs import median_of
from im2wingen.bench.table import default_name, table_of
from im2wingen.errors import UsageError

_README = "# Title\n<!-- bench:a -->\nold\n<!-- /bench:a -->\ntext\n<!-- bench:b -->\n<!-- /bench:b -->\n"


def test_markdown_has_a_row_a_layer_and_the_means_last() -> None:
    lines = table_of(two_layers()).to_markdown().splitlines()
    assert lines[0].startswith("| layer | GFLOP | im2wingen us (TFLOPS) | cuDNN us (TFLOPS) | speed-up over cuDNN |")
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert lines[2].startswith("| cv5 | 2000.0 | 100.0 (20000) | 200.0 (10000) | 2.00x | - | - | 50 % | 0.0 / 3.0 |")
    assert lines[4].startswith("| geometric mean |")
    assert "4.00x" in lines[4]
    assert lines[5] == ""
    assert "NVIDIA H200, driver 580.159, cuDNN 9.19.0, PyTorch 2.11.0, 2026-11-29: fp16 nhwc, batch 128" in lines[6]


def test_a_layer_where_ours_did_not_run_shows_dashes() -> None:
    made = result(layer("cv1", measurement("torch", "cudnn", 5.0), im2wingen="not supported"))
    row = table_of(made).to_markdown().splitlines()[2]
    assert row == "| cv1 | 2000.0 | - | 5.0 (400000) | - | - | - / 3.0 | - / 2.0e-04 |"


def test_the_caption_says_what_the_time_left_out() -> None:
    made = result(layer("cv1", measurement("im2wingen", "im2wingen", 5.0)), asked=("cv1", "cv4", "cv2"))
    assert table_of(made).caption.endswith("Not measured in the time: cv4, cv2.")


def one_layer(us: float, cudnn_us: float, **changes: object) -> BenchResult:
    layers = (layer("cv1", measurement("im2wingen", "im2wingen", us), measurement("torch", "cudnn", cudnn_us)),)
    return replace(result(*layers), **changes)


def test_of_several_runs_each_layer_is_the_median_one() -> None:
    runs = [one_layer(10.0, 30.0), one_layer(11.0, 55.0), one_layer(9.0, 36.0)]  # 3x, 5x, 4x
    made = median_of(runs)
    row, caption = table_of(made).to_markdown().splitlines()[2], table_of(made).caption
    assert row.startswith("| cv1 | 2000.0 | 9.0 (222222) | 36.0 (55556) | 4.00x |")
    assert "Each layer is the median, by its speed-up, of 3 runs." in caption
    assert table_of(median_of(runs[:2])).to_markdown().splitlines()[2].startswith("| cv1 | 2000.0 | 10.0")
    assert "runs" not in table_of(runs[0]).caption


def test_only_runs_of_the_same_are_put_together() -> None:
    with pytest.raises(UsageError, match="the runs differ in their device: NVIDIA H200 and NVIDIA H100"):
        median_of([one_layer(1.0, 2.0), one_layer(1.0, 2.0, device="NVIDIA H100")])
    other = result(layer("cv2", measurement("im2wingen", "im2wingen", 1.0)))
    with pytest.raises(UsageError, match="the runs differ in their layers"):
        median_of([one_layer(1.0, 2.0), other])


def test_rewrite_touches_the_named_table_alone() -> None:
    assert rewrite(_README, "a", "| new |\n") == _README.replace("old", "| new |")
    assert rewrite(rewrite(_README, "b", "x"), "b", "x") == rewrite(_README, "b", "x")


@pytest.mark.parametrize(
    "text",
    [
        "",  # no markers
        "<!-- bench:a -->",  # no end
        "<!-- /bench:a -->\n<!-- bench:a -->",  # the wrong way round
        _README + _README,  # twice
    ],
)
def test_markers_must_stand_there_once_in_order(text: str) -> None:
    with pytest.raises(UsageError, match="each once"):
        rewrite(text, "a", "table")


def test_rewrite_file_says_whether_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(_README)
    assert rewrite_file(path, "a", "table")
    assert not rewrite_file(path, "a", "table")
    with pytest.raises(UsageError, match=r"README.md: .*bench:c"):
        rewrite_file(path, "c", "table")
    with pytest.raises(UsageError, match="can't be read"):
        rewrite_file(tmp_path / "none.md", "a", "table")


def test_marker_names_come_from_the_options() -> None:
    assert default_name(two_layers()) == "fp16-nhwc-n128"


def test_the_caption_says_which_plans_were_not_tried() -> None:
    ours = measurement("im2wingen", "im2wingen", 5.0)
    made = result(
        layer("cv1", ours, **{"cudnn plans": "3 of 34 not tried in the time"}),
        layer("cv4", ours, **{"cudnn plans": "cuDNN gives no handle"}),
    )
    assert table_of(made).caption.endswith(" Plans of cuDNN that were not tried in the time: cv1 3 of 34.")
    assert "not tried" not in table_of(two_layers()).caption
