"""The CPU benchmark for real, on layers of no size."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from im2wingen.bench.cpu.environment import blas_version
from im2wingen.bench.cpu.process import _check_peers, run_cpu_bench
from im2wingen.bench.cpu.result import CpuBenchResult
from im2wingen.bench.request import cpu_request
from im2wingen.bench.stored import load_any
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.errors import Im2wingenError, UnsupportedError, UsageError
from im2wingen.problem import ConvProblem

SHAPES = ("n2c4h6w5k8r3s3pad1", "n1c3h9w9k4r3s3st2")


def run(tmp_path: Path, **changes: object) -> CpuBenchResult:
    arguments: dict[str, object] = {
        "against": ("onednn", "im2col", "direct"), "precision": "fp32", "layout": "nhwc", "batch": None,
        "prepacked": True, "rounds": 1, "threads": cpu_with().cores,
    }  # fmt: skip
    limits = {"time_limit_s": changes.pop("time_limit_s")} if "time_limit_s" in changes else {}
    problems, options = cpu_request(SHAPES, **(arguments | changes))  # type: ignore[arg-type]
    seen: list[int] = []
    result = run_cpu_bench(
        problems, options, out=tmp_path / "out.json", db=str(tmp_path / "none.sqlite"),
        on_layer=lambda so_far: seen.append(len(so_far.layers)), **limits,
    )  # type: ignore[arg-type]  # fmt: skip
    assert seen == list(range(1, len(result.layers) + 1))
    return result


def test_every_peer_but_a_missing_one_is_right_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('there is none')\n")  # whether there is a real one or not
    monkeypatch.syspath_prepend(tmp_path)
    result = run(tmp_path)
    assert result.complete
    assert load_any(tmp_path / "out.json") == result
    assert (result.device, result.arch) == (cpu_with().name, cpu_with().arch)
    assert result.versions["compiler"] == cpu_compiler_version()
    assert result.versions["torch"] == result.versions["onednn"] == "not installed"
    assert result.versions["blas"] == blas_version()
    for found in result.layers:
        assert {m.peer for m in found.measurements} == {"im2wingen", "im2col", "direct"}
        assert found.skipped == {"onednn": "oneDNN comes with PyTorch: pip install 'im2wingen[torch]'"}
        assert all(m.median_us >= m.min_us > 0 and m.norm_error < 1e-6 for m in found.measurements)
        assert found.peak_gflops > 0
    assert [m.contestant for m in result.layers[0].measurements] == [
        "im2wingen", "im2col whole batch", "im2col image by image", "direct"
    ]  # fmt: skip


def test_onednn_where_there_is_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    result = run(tmp_path, against=("onednn",), threads=1, layout="nchw")
    assert result.versions["onednn"][0].isdigit()
    names = {"im2wingen", "onednn", "onednn channels_last", "onednn packed", "onednn blocked"}
    for found in result.layers:
        assert {m.contestant for m in found.measurements} == names, found.skipped


def test_the_time_limit_leaves_layers_out(tmp_path: Path) -> None:
    result = run(tmp_path, against=(), time_limit_s=1e-3)
    assert (result.complete, result.layers) == (False, ())
    assert not (tmp_path / "out.json").exists()


def test_what_the_cpu_cannot_do_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"simd computes fp32.*; the problem is fp16"):
        run(tmp_path, precision="fp16")
    with pytest.raises(UsageError, match="threads is 999; allowed are 1 to"):
        run(tmp_path, threads=999)
    with pytest.raises(UsageError, match="rounds is 0"):
        run(tmp_path, rounds=0)


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (SimpleNamespace(precision="fp64"), "precision is 'fp64'; bench on the CPU measures fp32, bf16, int8"),
        (
            SimpleNamespace(precision="fp32", x_layout="chwn", y_layout="nhwc", layout="chwn-nhwc"),
            "layout is 'chwn-nhwc'",
        ),
    ],
)
def test_what_no_peer_computes_is_said(problem: ConvProblem, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        _check_peers(problem)


def test_a_process_that_dies_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"PYTHONHOME": str(tmp_path / "nowhere")}
    monkeypatch.setattr("im2wingen.bench.cpu.process.bench_environment", lambda threads: nowhere)
    with pytest.raises(Im2wingenError, match="the benchmark's process exited with code 1; what it wrote to stderr"):
        run(tmp_path)


def test_trouble_in_the_process_is_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WINGEN_TUNE_BUDGET", "soon")
    with pytest.raises(Im2wingenError, match="IM2WINGEN_TUNE_BUDGET is 'soon'"):
        run(tmp_path)
