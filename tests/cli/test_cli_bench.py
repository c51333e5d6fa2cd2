import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from im2wingen.bench.result import BenchOptions, BenchResult, Ceilings, LayerResult, save
from im2wingen.cli import app

_MARKED = "<!-- bench:fp16-nhwc-n128 -->\n<!-- /bench:fp16-nhwc-n128 -->\n"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A result on disk: one layer on which nothing ran."""
    path = tmp_path / "result.json"
    layer = LayerResult(
        layer="cv5", problem_key="key", flops=10**9, compulsory_bytes=10**6, floor_us=1.0, buffer_sets=1,
        plans_offered=0, plans_screened=0, measurements=(), skipped={"im2wingen": "not supported"},
    )  # fmt: skip
    options = BenchOptions(
        layers=("cv5",), against=("cudnn",), precision="fp16", layout="nhwc", batch=128, prepacked=False, rounds=3,
        plan_seconds=4.0, finalists=3,
    )  # fmt: skip
    result = BenchResult(
        protocol=1, date="2026-11-29T12:00:00+00:00", device="NVIDIA H200", arch="sm_90a", versions={}, options=options,
        ceilings=Ceilings(gemm_tflops={"fp16": 790.0}, copy_tbps=4.3), elapsed_s=1.0, complete=True, layers=(layer,),
    )  # fmt: skip
    save(result, path)
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--suite", "resnet"], "suite is 'resnet'"),
        (["--layers", "cv99"], "layers is 'cv99'"),
        (["cv1", "--layers", "cv2"], "either shapes or layers"),
        (["cv1", "--against", "mkldnn"], "against is 'mkldnn'"),
        (["cv1", "--precision", "fp8"], "precision is 'fp8'"),
        (["cv1", "--rounds", "0"], "rounds is 0"),
        (["cv1", "--batch", "0"], "n is 0"),
        (["cv1", "--time-limit", "0"], "time limit is 0"),
        (["n1c1"], "shape is 'n1c1'"),
        (["--name", "x"], "--readme"),
        (["--table", "missing.json"], "missing.json can't be read"),
        (["cv1", "--backend", "gpu"], "backend is 'gpu'; allowed are cuda, cpu"),
        (["cv1", "--backend", "cuda", "--threads", "1"], "--threads are the CPU's"),
        (["cv1", "--backend", "cpu", "--threads", "999"], "threads is 999; allowed are 1 to"),
        (["cv1", "--backend", "cpu", "--against", "cudnn"], "allowed are, separated by commas, onednn, im2col, direct"),
        (["cv1", "--backend", "cuda", "--against", "onednn"], "allowed are, separated by commas, cudnn, im2col"),
        (["cv1", "--backend", "cpu", "--finalists", "2"], "--plan-seconds and --finalists are for cuDNN's plans"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stdout == ""


def test_without_a_device_the_exit_code_is_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.bench.suite.device_count", lambda: 0)
    done = CliRunner().invoke(app, ["bench", "cv5", "--backend", "cuda"])
    assert done.exit_code == 4
    assert "CUDA device" in done.stderr


def test_a_stored_result_is_shown_and_written_into_a_readme(stored: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(_MARKED)
    arguments = ["bench", "--table", str(stored), "--readme", str(readme)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert "cv5" in done.stdout
    assert "cv5: im2wingen: not supported" in done.stderr
    assert "rewritten" in done.stderr
    assert "| cv5 | 1.0 | - | - | - | - | - / - | - / - |" in readme.read_text()
    assert "was up to date" in CliRunner().invoke(app, arguments).stderr


def test_json_is_one_document(stored: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--table", str(stored), "--json"])
    document = json.loads(done.stdout)
    assert document["command"] == f"im2wingen bench --table {stored}"
    assert document["result"]["layers"][0]["layer"] == "cv5"


def test_a_readme_without_markers_is_a_usage_error(stored: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("no table here\n")
    done = CliRunner().invoke(app, ["bench", "--table", str(stored), "--readme", str(readme)])
    assert done.exit_code == 2
    assert readme.read_text() == "no table here\n"


def test_the_cpu_is_measured_where_there_is_no_gpu(cli, tmp_path: Path) -> None:
    readme, result = tmp_path / "README.md", tmp_path / "cpu.json"
    readme.write_text("<!-- bench:cpu-fp32-nhwc-n1 -->\n<!-- /bench:cpu-fp32-nhwc-n1 -->\n")
    shape = "n1c4h6w5k8r3s3"
    ran = cli("bench", shape, "--against", "direct", "--rounds", 1, "--out", result, "--readme", readme, "--json")
    assert ran.code == 0, ran.err
    assert "there is no CUDA device here: measuring on the CPU, " in ran.err
    assert f"{shape} (" in ran.err
    document = ran.document["result"]
    assert document == json.loads(result.read_text())
    assert (document["backend"], document["complete"]) == ("cpu", True)
    assert [m["contestant"] for m in document["layers"][0]["measurements"]] == ["im2wingen", "direct"]
    assert ran.document["command"].startswith(
        f"im2wingen bench {shape} --against direct --precision fp32 --layout nhwc --rounds 1 --backend cpu --out "
    )
    written = readme.read_text()
    assert f"| {shape} | 0.00 | " in written
    shown = cli("bench", "--table", result, "--readme", readme)
    assert shown.code == 0
    assert "table bench:cpu-fp32-nhwc-n1 was up to date" in shown.err


def test_what_the_cpu_cannot_run_has_its_own_code(cli) -> None:
    ran = cli("bench", "cv5", "--backend", "cpu", "--precision", "fp16")
    assert ran.code == 3
    assert "the problem is fp16" in ran.err


def test_no_compiler_is_one_sentence(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.host_compiler.shutil.which", lambda name: None)
    ran = cli("bench", "cv5", "--backend", "cpu", "--batch", 1)
    assert ran.code == 1
    assert "no C++ compiler was found; install g++ or clang++" in ran.err
