"""Several results' errors in one table."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench_results import layer, measurement, result, two_layers
from typer.testing import CliRunner

from im2wingen.bench.accuracy_table import accuracy_table, default_accuracy_name
from im2wingen.bench.result import BenchResult, save
from im2wingen.cli import app
from im2wingen.errors import UsageError


def of(precision: str, found: BenchResult, batch: int = 128) -> BenchResult:
    return replace(found, options=replace(found.options, precision=precision, batch=batch))


def tf32() -> BenchResult:
    ours = replace(measurement("im2wingen", "im2wingen", 9.0), norm_error=3e-4, max_error=2e-3)
    return of("tf32", result(layer("cv5", ours)))


def test_each_result_gives_its_own_columns() -> None:
    table = accuracy_table([of("fp32", two_layers()), tf32()])
    assert table.header == ("layer", "cuDNN fp32", "im2wingen fp32", "im2wingen tf32")
    assert table.rows == (
        ("cv5", "2.0e-04 / 1.0e-03", "2.0e-04 / 1.0e-03", "3.0e-04 / 2.0e-03"),
        ("cv8", "2.0e-04 / 1.0e-03", "2.0e-04 / 1.0e-03", "-"),
        ("geometric mean of norms", "2.0e-04", "2.0e-04", "3.0e-04"),
    )
    assert "batch 128" in table.caption


def test_the_same_arithmetic_stands_there_once() -> None:
    assert accuracy_table([tf32(), tf32()]).header == ("layer", "im2wingen tf32")


def test_results_of_different_batches_are_refused() -> None:
    with pytest.raises(UsageError, match="must share layout, batch and device"):
        accuracy_table([tf32(), of("tf32", tf32(), batch=1)])


def test_the_command_rewrites_a_readme(tmp_path: Path) -> None:
    stored, readme = tmp_path / "tf32.json", tmp_path / "README.md"
    save(tf32(), stored)
    marker = default_accuracy_name([tf32()])
    assert marker == "accuracy-nhwc-n128"
    readme.write_text(f"<!-- bench:{marker} -->\n<!-- /bench:{marker} -->\n")
    done = CliRunner().invoke(app, ["bench", "--accuracy", str(stored), "--readme", str(readme)])
    assert done.exit_code == 0, done.output
    assert "| cv5 | 3.0e-04 / 2.0e-03 |" in readme.read_text()
    again = CliRunner().invoke(app, ["bench", "--accuracy", str(stored), "--readme", str(readme), "--json"])
    assert '"header": [' in again.stdout
    assert "up to date" in again.stderr
