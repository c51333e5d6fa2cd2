"""The whole loop on this machine's CPU, for real: tune, store, load in another process, run, compare."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import im2wingen
from im2wingen import ConvProblem, load, tune
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.db import TuningDatabase
from im2wingen.db.exchange import export_lines, merge_records, parse_export
from im2wingen.dtypes import to_storage
from im2wingen.errors import ArrayError, NoDeviceError, NotStoredError, UsageError
from im2wingen.outcome import Outcome
from im2wingen.reference import conv_reference
from im2wingen.tune import TuneResult
from im2wingen.verify_emulated import emulated_inputs

PROBLEM = ConvProblem.parse("n2c20h9w11k24r3s2st2x1pad1", precision="fp32", layout="nhwc", epilogue="bias_relu")
# Another process: loads what is stored, runs it on NumPy's arrays and says where it came from.
_SERVE = """
import json, sys
import numpy as np
from im2wingen import ConvProblem, load
problem = ConvProblem.from_key(sys.argv[1])
arrays = np.load(sys.argv[2])
conv = load(problem, db=sys.argv[3])
packed = conv.pack(arrays["w"])
y = conv(arrays["x"], arrays["w"], arrays["bias"])
assert np.array_equal(y, conv(arrays["x"], packed, arrays["bias"]))
np.save(sys.argv[4], y)
facts = conv.provenance.to_dict()
print(json.dumps({name: facts[name] for name in ("level", "origin", "config_digest", "device_name", "threads")}))
"""


def inputs(problem: ConvProblem) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = {"x": problem.x_shape, "w": problem.w_shape, "bias": (problem.k,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def check(problem: ConvProblem, y: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    bias = None if problem.epilogue == "none" else arrays["bias"]
    np.testing.assert_allclose(y, conv_reference(problem, arrays["x"], arrays["w"], bias), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loop")


@pytest.fixture(scope="module")
def tuned(folder: Path) -> TuneResult:
    return tune(PROBLEM, backend="cpu", threads=2, max_trials=6, time_budget_s=60, db=str(folder / "tuning.sqlite"))


@pytest.fixture
def db(tuned: TuneResult, folder: Path) -> str:
    return str(folder / "tuning.sqlite")


def test_tuning_measures_and_stores(tuned: TuneResult, db: str) -> None:
    target = cpu_with(2)
    assert tuned.target == target
    assert (tuned.trials, tuned.stopped_by) == (6, "trials")
    best = tuned.best
    assert best is not None
    assert tuned.gain is not None
    with TuningDatabase.open(db, read_only=True) as database:
        records = database.trials(tuned.study)
    assert best in records
    assert {record.outcome for record in records} <= {Outcome.OK, Outcome.SLOWER}
    for record in records:
        assert (record.device_name, record.arch, record.sm_count) == (target.name, target.arch, 2)
        assert (record.driver_version, record.nvrtc_version) == (cpu_compiler_version(), "")
        assert (record.predicted, record.num_regs, record.family) == (False, None, "simd")
        assert record.cubin_sha256
        assert record.norm_error is not None
        assert record.norm_error < 1e-6
    assert best.play_off
    assert best.samples >= 5


def test_records_travel_as_text(tuned: TuneResult, db: str) -> None:
    with TuningDatabase.open(db, read_only=True) as database:
        records = merge_records(database.trials(tuned.study))
    assert parse_export("".join(export_lines(records)), name="an export", trust=True) == records


def test_another_process_serves_it(tuned: TuneResult, db: str, folder: Path) -> None:
    arrays = inputs(PROBLEM)
    np.savez(folder / "inputs.npz", **arrays)
    command = [sys.executable, "-c", _SERVE, PROBLEM.key, folder / "inputs.npz", db, folder / "y.npy"]
    environment = os.environ | {"PYTHONPATH": str(Path(im2wingen.__file__).parents[1])}
    ran = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout)
    assert tuned.best is not None
    assert facts == {
        "level": "exact", "origin": "cache", "config_digest": tuned.best.config_digest,
        "device_name": tuned.target.name, "threads": cpu_with().cores,
    }  # fmt: skip
    check(PROBLEM, np.load(folder / "y.npy"), arrays)


def test_resume_goes_on(tuned: TuneResult, db: str) -> None:
    again = tune(PROBLEM, backend="cpu", threads=2, max_trials=1, time_budget_s=60, db=db, resume=True)
    assert again.study == tuned.study
    assert (again.restored, again.trials) == (6, 1)


def test_configs_of_as_many_threads_come_first(tuned: TuneResult, db: str) -> None:
    alone = tune(PROBLEM, backend="cpu", threads=1, max_trials=2, time_budget_s=60, db=db)
    assert alone.best is not None
    assert tuned.best is not None
    for threads, study in ((1, alone.study), (2, tuned.study)):
        record = load(PROBLEM, backend="cpu", threads=threads, db=db).provenance.record
        assert record is not None
        assert (record.sm_count, record.study) == (threads, study)


def test_no_gpu_means_the_cpu(db: str) -> None:
    assert load(PROBLEM, db=db).provenance.device_name == cpu_with().name
    with pytest.raises(NoDeviceError):
        load(replace(PROBLEM, precision="fp16"), db=db)
    with pytest.raises(NoDeviceError):
        load(PROBLEM, backend="cuda", db=db)
    assert load(PROBLEM, arch="sm_80", db=db).provenance.arch == "sm_80"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"backend": "gpu"}, "backend is 'gpu'; allowed are cuda, cpu"),
        ({"backend": "cpu", "arch": "sm_80"}, "target, arch, devices and cores name a GPU"),
        ({"backend": "cuda", "threads": 1}, "threads are the CPU's"),
        ({"backend": "cpu", "threads": 4096}, "threads is 4096; allowed are 1 to"),
    ],
)
def test_contradictions_are_usage(db: str, wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(PROBLEM, db=db, **wrong)
    if "arch" not in wrong:
        with pytest.raises(UsageError, match=words):
            tune(PROBLEM, db=db, max_trials=1, **wrong)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["nhwc", "nchw", "nchw-nhwc", "chwn", "chwn8"])
def test_calls_on_numpy_arrays(db: str, layout: str, threads: int) -> None:
    problem = ConvProblem.parse(PROBLEM.shape, precision="fp32", layout=layout, epilogue="bias_relu")
    conv, arrays = load(problem, db=db, backend="cpu", threads=threads), inputs(problem)
    y = conv(arrays["x"], arrays["w"], arrays["bias"])
    assert type(y) is np.ndarray
    assert y.ctypes.data % 64 == 0
    if layout == "chwn8":
        assert y.shape == (1, PROBLEM.k, PROBLEM.p, PROBLEM.q, 8)
        y[..., PROBLEM.n :] = 0  # what lies there means nothing
    check(problem, y.transpose(0, 2, 3, 1) if layout == "nchw-nhwc" else y, arrays)  # in the order that x came in
    out = np.empty_like(y)
    assert conv(arrays["x"], conv.pack(arrays["w"]), arrays["bias"], out=out) is out
    assert np.array_equal(out, y) or layout == "chwn8"
    assert conv.provenance.threads == threads


def test_doubles(db: str) -> None:
    problem = replace(PROBLEM, precision="fp64")
    conv = load(problem, db=db)
    arrays = {name: array.astype(np.float64) for name, array in inputs(problem).items()}
    y = conv(**arrays)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, conv_reference(problem, *arrays.values()), rtol=1e-12, atol=1e-12)
    with pytest.raises(ArrayError, match="x has dtype float32; precision fp64 needs float64"):
        conv(**inputs(problem))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_words_go_the_whole_way(precision: str, folder: Path) -> None:
    problem, db = replace(PROBLEM, precision=precision), str(folder / f"{precision}.sqlite")
    tuned = tune(problem, backend="cpu", threads=2, max_trials=1, time_budget_s=60, db=db)
    assert tuned.best is not None
    assert tuned.best.norm_error is not None
    assert tuned.best.norm_error < 0.01
    conv, arrays = load(problem, db=db), emulated_inputs(problem, "integer", 0)
    record = conv.provenance.record
    assert record is not None
    assert record.config_digest == tuned.best.config_digest
    y = conv(**arrays)
    assert y.dtype == (np.int32 if precision == "int8" else np.uint16)  # NumPy has no bf16: its bits
    wanted = to_storage(conv_reference(problem, **arrays), problem.y_dtype)
    np.testing.assert_array_equal(y, wanted)
    out = np.zeros_like(y)
    assert np.array_equal(conv(arrays["x"], conv.pack(arrays["w"]), arrays["bias"], out=out), wanted)
    if precision == "int8":
        with pytest.raises(ArrayError, match="bias has dtype int8; precision int8 needs int32"):
            conv(arrays["x"], arrays["w"], arrays["bias"].astype(np.int8))


def test_images_in_lanes_come_as_they_lie_in_memory(db: str) -> None:
    problem = ConvProblem.parse(PROBLEM.shape, precision="fp32", layout="chwn8")
    conv, arrays = load(problem, db=db), inputs(problem)
    with pytest.raises(ArrayError, match=r"x has shape .*; expected \[N/8\]CHW8 = \(1, 20, 9, 11, 8\) contiguous"):
        conv(np.zeros((2, 20, 9, 11), np.float32), arrays["w"])


def test_logical_order_comes_back_in_logical_order(db: str) -> None:
    conv, arrays = load(PROBLEM, db=db), inputs(PROBLEM)
    y = conv(arrays["x"], arrays["w"], arrays["bias"])
    logical = conv(arrays["x"].transpose(0, 3, 1, 2), arrays["w"].transpose(0, 3, 1, 2), memoryview(arrays["bias"]))
    assert logical.shape == (PROBLEM.n, PROBLEM.k, PROBLEM.p, PROBLEM.q)
    assert np.array_equal(logical.transpose(0, 2, 3, 1), y)


def test_arrays_may_start_anywhere(db: str) -> None:
    conv, arrays = load(PROBLEM, db=db), inputs(PROBLEM)
    shifted = {}
    for name, array in arrays.items():
        memory = np.zeros(array.size + 1, np.float32)
        memory[1:] = array.reshape(-1)
        shifted[name] = memory[1:].reshape(array.shape)
    out = np.zeros(conv(**arrays).size + 1, np.float32)[1:].reshape(PROBLEM.y_shape)
    assert np.array_equal(conv(**shifted, out=out), conv(**arrays))


def test_wrong_arrays_are_named(db: str) -> None:
    conv, arrays = load(PROBLEM, db=db), inputs(PROBLEM)
    x, w, bias = arrays["x"], arrays["w"], arrays["bias"]
    readonly = np.zeros(PROBLEM.y_shape, np.float32)
    readonly.flags.writeable = False
    for call, words in (
        (lambda: conv(x[:1], w, bias), "x has batch 1 and this convolution was loaded for batch 2"),
        (lambda: conv(x.astype(np.float64), w, bias), "x has dtype float64; precision fp32 needs float32"),
        (lambda: conv(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), w, bias), "x of shape .* has strides"),
        (lambda: conv(x, w[:, ::-1], bias), "w of shape .* has strides"),
        (lambda: conv(x, w), "bias is missing"),
        (lambda: conv(x, w, bias.tolist()), "bias is of type list; allowed is a NumPy array"),
        (lambda: conv(x, w, bias, out=readonly), "out is read-only"),
        (lambda: conv(x, w, bias, out=x), "out has shape"),
    ):
        with pytest.raises(ArrayError, match=words):
            call()


def test_frozen_and_tune(db: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(PROBLEM, k=16)
    monkeypatch.setenv("IM2WINGEN_CACHE", str(folder / "another cache"))
    with pytest.raises(NotStoredError, match="mode frozen never compiles"):
        load(other, db=db, mode="frozen")
    monkeypatch.setenv("IM2WINGEN_TUNE_BUDGET", "2")
    conv = load(other, db=db, mode="tune")
    assert (conv.provenance.level, conv.provenance.predicted) == ("exact", False)
    assert load(other, db=db, mode="frozen").provenance.origin == "cache"


def test_torch_tensors(db: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    conv, arrays = load(PROBLEM, db=db), inputs(PROBLEM)
    x, w, bias = (torch.from_numpy(arrays[name]) for name in ("x", "w", "bias"))
    y = conv(x, w, bias)
    assert isinstance(y, torch.Tensor)
    check(PROBLEM, y.numpy(), arrays)
    images = x.permute(0, 3, 1, 2)
    logical = conv(images, w.permute(0, 3, 1, 2), bias)
    assert logical.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(logical.permute(0, 2, 3, 1), y)
    assert torch.equal(conv(x, conv.pack(w), bias), y)
    with pytest.raises(ArrayError, match="x requires a gradient"):
        conv(x.clone().requires_grad_(), w, bias)
    words = {name: tensor.to(torch.bfloat16) for name, tensor in (("x", x), ("w", w), ("bias", bias))}
    rounded = load(replace(PROBLEM, precision="bf16"), db=db)(**words)
    assert rounded.dtype == torch.bfloat16
    np.testing.assert_allclose(rounded.float().numpy(), y.numpy(), rtol=0.05, atol=0.05)
