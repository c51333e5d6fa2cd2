import json
from dataclasses import replace
from pathlib import Path

import pytest
from cpu_sessions import layer, measurement, two_layers

from im2wingen.bench.cpu.result import CpuBenchResult
from im2wingen.bench.cpu.table import cpu_table_of
from im2wingen.bench.result import save
from im2wingen.bench.stored import any_name, any_table_of, load_any, progress_of
from im2wingen.errors import UsageError


def test_json_round_trip_keeps_every_field(tmp_path: Path) -> None:
    made = two_layers()
    assert CpuBenchResult.from_json(made.to_json()) == made
    save(made, tmp_path / "cpu.json")
    assert load_any(tmp_path / "cpu.json") == made


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.pop("arch"), "arch"),
        (lambda d: d["options"].update(threads="2"), "threads is '2'"),
        (lambda d: d["layers"][0].update(window_bytes=0.5), r"layers\[0\]: window_bytes is 0.5"),
        (lambda d: d.update(backend="tpu"), "missing or unknown: .*backend"),  # then it's read as a GPU's
    ],
)
def test_a_file_that_does_not_fit_names_the_field(change: object, sentence: str, tmp_path: Path) -> None:
    document = json.loads(two_layers().to_json())
    assert callable(change)
    change(document)
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=sentence):
        load_any(path)


def test_shares_and_means() -> None:
    made = two_layers()
    first, second = made.layers
    assert first.speedup("im2wingen", "onednn") == pytest.approx(0.9)  # over its packed way
    assert second.speedup("im2wingen", "onednn") == pytest.approx(1.1)  # over the plain one
    assert made.geometric_mean_speedup("im2wingen", "onednn") == pytest.approx((0.9 * 1.1) ** 0.5)
    assert made.peak_share(first, "im2wingen") == pytest.approx(0.8)  # 200 of 250 GFLOPS
    assert made.geometric_mean_peak_share("im2wingen") == pytest.approx(0.4)
    slowed = replace(made, layers=(replace(first, peak_gflops=125.0), second))
    assert slowed.peak_share(slowed.layers[0], "im2wingen") == pytest.approx(0.8)  # the process's peak, not the layer's
    assert made.mean_im2win_share() == pytest.approx(0.4)
    assert made.mean_window_share() == pytest.approx(0.05)
    assert replace(made, layers=()).mean_im2win_share() is None


def test_a_share_at_the_kernels_clock() -> None:
    made = two_layers()
    assert made.geometric_mean_peak_share_at_clock() is None  # nothing was read
    assert "clock GHz" not in " ".join(cpu_table_of(made).header)
    first, second = made.layers
    clocked = replace(made, layers=(replace(first, peak_mhz=3600, busy_mhz=3200), second))
    # 200 GFLOPS of 250 * 3200 / 3600
    assert clocked.peak_share_at_clock(clocked.layers[0]) == pytest.approx(0.9)
    table = cpu_table_of(clocked)
    assert [row[4:6] for row in table.rows] == [("3.20 / 3.60", "90 %"), ("-", "-"), ("", "90 %")]
    assert "lower where multiplications load operands" in table.caption


def test_markdown_has_a_row_a_layer_and_the_means_last() -> None:
    lines = cpu_table_of(two_layers()).to_markdown().splitlines()
    assert lines[0] == (
        "| layer | GFLOP | im2wingen ms (GFLOPS) | of the peak | oneDNN ms (GFLOPS) | speed-up over oneDNN | "
        "direct ms (GFLOPS) | speed-up over direct | window / im2col | explicit window / im2col | im2col MB | error |"
    )
    assert lines[2] == (
        "| cv5 | 2.00 | 10.000 (200) | 80 % | 9.000 (222) | 0.90x | 900.000 (2.2) | 90.00x | 0 | 40.0 % | 10.0 | "
        "3.0e-07 |"
    )
    assert lines[3].endswith("| - | - | 10.0 % | 40.0 % | 10.0 | 3.0e-07 |")
    assert lines[4].startswith(
        "| geometric mean |  |  | 40 % |  | 0.99x |  | 90.00x | average 5.0 % | average 40.0 % |"
    )
    caption = lines[6]
    assert caption.startswith(
        "Some CPU (x86-64-avx512) at 2600 MHz, 2 pinned threads, g++ 12.2.0, PyTorch 2.11.0, oneDNN 3.7.1, "
    )
    assert "batch 1, filters packed beforehand, oneDNN's too; median of 5 rounds" in caption
    assert "(CPU protocol 1); largest spreads: im2wingen 2 %, oneDNN 2 %, direct 2 %. Peak: " in caption
    assert "250 GFLOPS" in caption


def test_a_layer_where_ours_did_not_run_shows_dashes() -> None:
    alone = layer("cv1", measurement("onednn", "onednn", 5000.0), window_bytes=None, im2wingen="no")
    made = replace(two_layers(), layers=(alone,))
    table = cpu_table_of(made)
    assert table.rows[0][2:6] == ("-", "-", "5.000 (400)", "-")
    assert table.rows[0][8:] == ("-", "40.0 %", "10.0", "-")
    assert table.caption.endswith("Not measured in the time: cv5, cv8.")


def test_what_is_not_installed_is_left_out_of_the_caption() -> None:
    made = two_layers()
    bare = replace(made, versions=made.versions | {"torch": "not installed", "onednn": "not installed"})
    assert "g++ 12.2.0, NumPy 2.4.0" in cpu_table_of(bare).caption


def test_both_kinds_share_the_command_line() -> None:
    made = two_layers()
    assert any_name(made) == "cpu-fp32-nhwc-n1-prepacked"
    assert any_table_of(made) == cpu_table_of(made)
    assert progress_of(made) == (
        "cv8 (4 s): im2wingen 40000.0 us (50 GFLOPS), onednn 44000.0 us (45 GFLOPS), "
        "onednn packed 50000.0 us (40 GFLOPS)"
    )
