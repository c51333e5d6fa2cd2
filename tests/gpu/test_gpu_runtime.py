"""Serving on a device, with PyTorch's arrays, streams, allocator and graphs."""

import os
import threading
from dataclasses import replace

import pytest

from im2wingen import ConvProblem, load
from im2wingen.arrays import DeviceArray
from im2wingen.db import TrialRecord, TuningDatabase
from im2wingen.device import open_device
from im2wingen.errors import ArrayError, NotStoredError
from im2wingen.families import FAMILIES
from im2wingen.render import plan_sources, sources_digest, template_digest

pytestmark = pytest.mark.gpu

SHAPE = "n2c16h13w11k24r3s3st2x1pad1x2"  # odd extents, uneven strides and pads


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("IM2WINGEN_DB", str(tmp_path / "tuning.sqlite"))
    monkeypatch.setenv("IM2WINGEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def torch():
    import torch

    assert torch.cuda.is_available(), "these tests need PyTorch with a CUDA device"
    return torch


def dtype_of(torch, element):
    return {
        "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64, "int8": torch.int8, "int32": torch.int32,
        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    }.get(element, torch.float32)  # fmt: skip


def data(torch, problem, *, seed=0):
    """x [N,C,H,W] and w [K,C,R,S] with the problem's strides, small integers so that every sum is exact; bias [K]."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def make(*shape, element=problem.precision):
        return torch.randint(-2, 3, shape, device="cuda", generator=generator).to(dtype_of(torch, element))

    x = make(problem.n, problem.c, problem.h, problem.w)
    w = make(problem.k, problem.group_c, problem.r, problem.s)
    if problem.x_layout == "nhwc":
        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    return x, w, make(problem.k, element=problem.y_dtype)


def expected(torch, problem, x, w, bias=None):
    """[N,K,P,Q] in the problem's type, by PyTorch in float64."""
    pads = (problem.pad_left, problem.pad_right, problem.pad_top, problem.pad_bottom)
    padded = torch.nn.functional.pad(x.double(), pads)
    y = torch.nn.functional.conv2d(
        padded, w.double(), None if bias is None else bias.double(), stride=(problem.stride_h, problem.stride_w)
    )
    return (y.relu() if problem.epilogue == "bias_relu" else y).to(dtype_of(torch, problem.y_dtype))


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw", "nhwc-nchw", "nchw-nhwc"])
def test_against_pytorch(torch, precision, layout):
    problem = ConvProblem.parse(SHAPE, precision=precision, layout=layout, epilogue="bias_relu")
    x, w, bias = data(torch, problem)
    y = load(problem)(x, w, bias)
    assert torch.equal(y, expected(torch, problem, x, w, bias))
    assert y.is_contiguous(memory_format=torch.channels_last if problem.y_layout == "nhwc" else torch.contiguous_format)


@pytest.mark.parametrize("precision", ["int8", "e4m3", "e5m2"])
def test_8_bits_against_pytorch(torch, precision):
    problem = ConvProblem.parse("n3c48h14w13k40r3s3st2pad1", precision=precision, epilogue="bias_relu")
    x, w, bias = data(torch, problem)
    y = load(problem)(x, w, bias)
    assert y.dtype is dtype_of(torch, problem.y_dtype)
    assert torch.equal(y, expected(torch, problem, x, w, bias))
    if precision != "int8":
        assert torch.equal(load(problem)(x.view(torch.uint8), w.view(torch.uint8), bias), y)


def test_stored_order_gives_stored_order(torch):
    problem = ConvProblem.parse(SHAPE)
    x, w, _ = data(torch, problem)
    y = load(problem)(x.permute(0, 2, 3, 1), w.permute(0, 2, 3, 1))
    assert torch.equal(y, expected(torch, problem, x, w).permute(0, 2, 3, 1))


def test_out_and_packed_filter(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    x, w, _ = data(torch, problem)
    out = torch.full(problem.y_shape, float("nan"), device="cuda", dtype=x.dtype)
    packed = conv.pack(w)
    assert conv(x, packed, out=out) is out
    assert torch.equal(out.permute(0, 3, 1, 2), expected(torch, problem, x, w))


def test_runs_on_the_current_stream(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    x, w, _ = data(torch, problem)
    later = torch.zeros_like(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what follows must wait for it
        later.copy_(x)
        y = conv(later, w)
    stream.synchronize()
    assert torch.equal(y, expected(torch, problem, x, w))


def test_cuda_graph_capture(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    x, w, _ = data(torch, problem)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = conv(x, w)
    fresh_x, _, _ = data(torch, problem, seed=1)
    x.copy_(fresh_x)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, expected(torch, problem, fresh_x, w))


def test_a_thread_without_a_context(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    x, w, _ = data(torch, problem)
    out, errors = torch.empty(problem.y_shape, device="cuda", dtype=x.dtype), []

    def work():
        try:
            conv(x, w, out=out)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert errors == []
    assert torch.equal(out.permute(0, 3, 1, 2), expected(torch, problem, x, w))


def test_threads_share_a_convolution(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    inputs = [data(torch, problem, seed=seed)[:2] for seed in range(8)]
    results = [None] * len(inputs)

    def work(i):
        for _ in range(20):
            results[i] = conv(*inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    for (x, w), y in zip(inputs, results, strict=True):
        assert torch.equal(y, expected(torch, problem, x, w))


class Exporter:
    """A GPU array of an unknown library: DLPack and nothing else."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)


class InterfaceExporter:
    """The same by `__cuda_array_interface__`, version 3 (PyTorch's own is 2, which names no stream)."""

    def __init__(self, tensor):
        self._tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": 1}


@pytest.mark.parametrize("exporter", [Exporter, InterfaceExporter])
def test_any_exporter(torch, exporter):
    problem = ConvProblem.parse(SHAPE)
    x, w, _ = data(torch, problem)
    y = load(problem)(exporter(x), exporter(w))
    assert isinstance(y, DeviceArray)
    want = expected(torch, problem, x, w)
    assert torch.equal(torch.from_dlpack(y), want)
    assert torch.equal(torch.as_tensor(y, device="cuda"), want)  # by __cuda_array_interface__


def test_arrays_are_refused_before_anything_runs(torch):
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem)
    x, w, _ = data(torch, problem)
    for wrong_x, sentence in (
        (x.cpu(), "x lies in host memory"),
        (x.float(), "x has dtype float32"),
        (x.contiguous(), "has strides"),
        (x[:1], "x has batch 1"),
        (x.detach().requires_grad_(), "requires a gradient"),
    ):
        with pytest.raises(ArrayError, match=sentence):
            conv(wrong_x, w)
    flat = torch.empty(w.numel() + 1, device="cuda", dtype=w.dtype)
    with pytest.raises(ArrayError, match="w starts at address"):
        conv(x, flat[1:].view(problem.w_shape))
    with torch.no_grad():
        conv(x, torch.nn.Parameter(w))


def test_frozen_needs_what_cache_made(torch):
    problem = ConvProblem.parse(SHAPE)
    with pytest.raises(NotStoredError):
        load(problem, mode="frozen")
    assert load(problem).provenance.origin == "compiled"
    assert load(problem, mode="frozen").provenance.origin == "cache"


def test_mode_tune(torch, monkeypatch):
    monkeypatch.setenv("IM2WINGEN_TUNE_BUDGET", "10")
    problem = ConvProblem.parse(SHAPE)
    conv = load(problem, mode="tune")
    assert conv.provenance.level == "exact"
    assert not conv.provenance.predicted
    x, w, _ = data(torch, problem)
    assert torch.equal(conv(x, w), expected(torch, problem, x, w))


def store_early_starter(problem, family_name, **changes):
    """The default of a family, changed, as the problem's record, but launched early where it may be."""
    device = open_device()
    target, name = device.target, device.name
    device.close()
    family = FAMILIES[family_name]
    if (reason := family.unsupported(problem, target)) is not None:
        pytest.skip(reason)
    config = replace(family.default(problem, target), programmatic_launch=True, **changes)
    assert not family.broken_rules(problem, target, config)
    record = TrialRecord(
        problem_key=problem.key, family=family_name, config=config.to_dict(), config_digest=config.digest(),
        template_digest=template_digest(family.templates),
        source_digest=sources_digest(plan_sources(family.plan(problem, target, config))), outcome="ok",
        device_name=name, arch=target.arch, sm_count=target.sm_count, driver_version="", nvrtc_version="",
        predicted=False, median_us=1.0, protocol_version=1, study="early", trial=0,
    )  # fmt: skip
    with TuningDatabase.open(os.environ["IM2WINGEN_DB"]) as database:
        database.record(record)


@pytest.mark.parametrize(
    ("family", "layout", "channels", "changes", "prepacked", "precision"),
    [
        ("wgmma_rows", "nhwc", 8, {"pack_kernel": True}, True, "fp16"),  # nothing else keeps it from x
        ("wgmma_rows", "nhwc", 8, {"pack_kernel": True, "early_packing": True}, False, "fp16"),
        ("wgmma_rows", "nhwc", 8, {"pack_kernel": False, "early_packing": False}, False, "fp16"),
        ("wgmma", "nchw", 64, {"early_packing": True}, False, "fp16"),
        ("wgmma", "nchw", 64, {"early_packing": True}, False, "tf32"),
        ("wgmma", "nchw", 64, {}, True, "tf32"),
        ("mma", "nchw", 64, {}, False, "fp16"),
        ("wgmma_pointwise", "nchw", 96, {}, False, "fp16"),
    ],
    ids=[
        "packed before",
        "packed early",
        "packed by each CTA",
        "all turned early",
        "scaled",
        "scaled w before",
        "mma",
        "pointwise",
    ],
)
def test_a_layer_waits_for_the_one_that_makes_its_input(torch, family, layout, channels, changes, prepacked, precision):
    """All kernels begin early, as far as they may."""
    make_x = ConvProblem.parse(f"n64c64h112w112k{channels}r1s1", layout=layout, precision=precision)
    window = "r1s1" if family == "wgmma_pointwise" else "r3s3"
    use_x = ConvProblem.parse(f"n64c{channels}h112w112k64{window}", layout=layout, precision=precision)
    store_early_starter(make_x, "wgmma")
    store_early_starter(use_x, family, **changes)
    first, second = load(make_x), load(use_x)
    assert (first.provenance.family, second.provenance.family) == ("wgmma", family)
    assert second.provenance.arithmetic == ("scaled" if precision == "tf32" else "direct")
    sources = [data(torch, make_x, seed=seed)[0] for seed in range(4)]
    w1, w2 = data(torch, make_x)[1], data(torch, use_x)[1]
    packed1, packed2 = first.pack(w1), second.pack(w2) if prepacked else w2
    wanted = []
    for source in sources:
        between = first(source, packed1)
        torch.cuda.synchronize()
        wanted.append(second(between, packed2))
        torch.cuda.synchronize()
    between = torch.empty_like(between)
    for _ in range(5):
        results = [second(first(source, packed1, out=between), packed2) for source in sources]
        torch.cuda.synchronize()
        assert all(torch.equal(y, want) for y, want in zip(results, wanted, strict=True))


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_scaled_tf32_of_any_magnitudes(torch, layout):
    """Images of other scales, tiny numbers, and one 10^5 times as large as those that a scale is guessed from."""
    problem = ConvProblem.parse("n64c96h28w30k256r5s5", layout=layout, precision="tf32")
    conv = load(problem)
    if conv.provenance.arch != "sm_90a":
        pytest.skip(f"tf32 is scaled on sm_90a, the device is {conv.provenance.arch}")
    assert conv.provenance.arithmetic == "scaled"
    x, w, _ = data(torch, problem)
    x *= torch.logspace(-12, 12, 64, device="cuda").reshape(64, 1, 1, 1)
    x[3, 5, 7, 11] *= 1e5
    x[7, :, :, 20:] *= 1e-12
    y, exact = conv(x, w).double(), expected(torch, problem, x.double(), w.double()).double()
    magnitude = expected(torch, problem, x.double().abs(), w.double().abs()).double()
    assert bool(((y - exact).abs() <= magnitude * 1.5e-3).all())
