"""Convolution: what it launches, with which addresses, and what it refuses."""

import sys
from contextlib import contextmanager

import pytest
from fake_arrays import Tensor, channels_last, fake_torch

from im2wingen.errors import ArrayError, NoDeviceError
from im2wingen.families.base import Launch, Plan
from im2wingen.problem import ConvProblem
from im2wingen.runtime.convolution import Convolution
from im2wingen.runtime.modules import LoadedKernels
from im2wingen.runtime.provenance import Provenance

PROBLEM = ConvProblem.parse("n2c8h6w7k16r3s3", epilogue="bias")  # y is 2x16x4x5
PLAIN = ConvProblem.parse("n2c8h6w7k16r3s3")


def launch(template, *arguments):
    return Launch(template=template, values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=arguments)


FUSED = Plan(launches=(launch("conv", "x", "w", "bias", "y", "x", "w"),))
PACKED = Plan(
    launches=(
        launch("pack", "w", "packed"),
        launch("window", "x", "window"),
        launch("conv", "window", "packed", "bias", "y", "x", "w"),
    ),
    workspace={"window": 1000, "packed": 300},
)


class FakeDevice:
    """Records what is launched; a loaded plan is the names of its kernels here."""

    ordinal, name = 0, "fake"

    def __init__(self):
        self.launched = []
        self.follows = []  # of each call

    def launch(self, plan, pointers, stream, *, follows=False):
        self.follows.append(follows)
        self.launched += [(template, dict(pointers), stream) for template in plan]

    @contextmanager
    def current(self):
        yield


@pytest.fixture
def torch(monkeypatch):
    module = fake_torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def convolution(problem, plan, *, device=True, sha256=("s0", "s1", "s2")):
    provenance = Provenance(
        problem_key=problem.key, level="default", rule="none", family="f", cores="cuda", arithmetic="direct", config={},
        config_digest="0" * 16, arch="sm_90a", device_name="fake", predicted=True, record=None,
        workspace_bytes=plan.workspace_bytes,
        cubin_sha256=sha256[: len(plan.launches)] if device else (), origin="compiled",
    )  # fmt: skip
    halves = [[plan.launches[i].template for i in half] for half in plan.halves()]
    kernels = LoadedKernels(pack=halves[0] or None, main=halves[1])
    fake = FakeDevice() if device else None
    conv = Convolution(problem, plan, (), provenance, device=fake, kernels=kernels if device else None)
    return conv, fake


def arrays(torch, *, logical=True, batch=2):
    x, w = (batch, 8, 6, 7), (16, 8, 3, 3)
    if logical:
        return (
            Tensor(x, channels_last(x), dtype=torch.float16),
            Tensor(w, channels_last(w), dtype=torch.float16),
        )
    return Tensor((batch, 6, 7, 8), dtype=torch.float16), Tensor((16, 3, 3, 8), dtype=torch.float16)


def test_addresses_stream_and_order(torch):
    conv, device = convolution(PROBLEM, FUSED)
    (x, w), bias = arrays(torch), Tensor((16,), dtype=torch.float16)
    y = conv(x, w, bias)
    ((template, pointers, stream),) = device.launched
    assert (template, stream) == ("conv", torch.stream)
    assert {role: pointers[role] for role in ("x", "w", "bias", "y")} == {
        "x": x.data_ptr(), "w": w.data_ptr(), "bias": bias.data_ptr(), "y": y.data_ptr()
    }  # fmt: skip
    assert (y.shape, y.stride()) == ((2, 16, 4, 5), channels_last((2, 16, 4, 5)))
    assert y.dtype is torch.float16


def test_y_of_8_bit_elements_has_a_type_of_its_own(torch):
    conv, _ = convolution(ConvProblem.parse("n2c8h6w7k16r3s3", precision="int8"), FUSED)
    y = conv(Tensor((2, 6, 7, 8), dtype=torch.int8), Tensor((16, 3, 3, 8), dtype=torch.int8))
    assert (y.shape, y.dtype) == ((2, 4, 5, 16), torch.int32)
    conv, _ = convolution(ConvProblem.parse("n2c8h6w7k16r3s3", precision="e4m3"), FUSED)
    y = conv(Tensor((2, 6, 7, 8), dtype=torch.float8_e4m3fn), Tensor((16, 3, 3, 8), dtype=torch.float8_e4m3fn))
    assert y.dtype is torch.float16


def test_y_comes_in_the_order_of_x(torch):
    conv, _ = convolution(PLAIN, FUSED)
    y = conv(*arrays(torch, logical=False))
    assert (y.shape, y.stride()) == ((2, 4, 5, 16), (320, 80, 16, 1))
    mixed = ConvProblem.parse("n2c8h6w7k16r3s3", layout="nhwc-nchw")
    conv, _ = convolution(mixed, FUSED)
    y = conv(*arrays(torch))
    assert (y.shape, y.stride()) == ((2, 16, 4, 5), (320, 20, 5, 1))


def test_without_bias_its_address_is_null(torch):
    conv, device = convolution(PLAIN, FUSED)
    conv(*arrays(torch))
    assert device.launched[0][1]["bias"] == 0


def test_out_is_written_and_returned(torch):
    conv, device = convolution(PLAIN, FUSED)
    out = Tensor((2, 4, 5, 16), dtype=torch.float16)  # either order, whatever x has
    assert conv(*arrays(torch), out=out) is out
    assert device.launched[0][1]["y"] == out.data_ptr()
    assert torch.allocated == []


def test_out_must_not_share_memory(torch):
    conv, device = convolution(PLAIN, FUSED)
    x, w = arrays(torch)
    out = Tensor((2, 4, 5, 16), dtype=torch.float16, pointer=x.data_ptr() + 16)
    with pytest.raises(ArrayError, match="out shares memory with x"):
        conv(x, w, out=out)
    assert device.launched == []


def test_workspace_pieces_are_apart_and_aligned(torch):
    conv, device = convolution(PLAIN, PACKED)
    conv(*arrays(torch))
    assert [entry[0] for entry in device.launched] == ["pack", "window", "conv"]
    pointers = device.launched[-1][1]
    low, high = sorted((("packed", 300), ("window", 1000)), key=lambda piece: pointers[piece[0]])
    assert pointers[low[0]] + low[1] <= pointers[high[0]]
    assert pointers["packed"] % 256 == pointers["window"] % 256 == 0
    assert conv.workspace_bytes == 1300
    _, scratch = torch.allocated
    assert scratch.shape[0] >= 1300


def test_packed_filter_skips_packing(torch):
    conv, device = convolution(PLAIN, PACKED)
    x, w = arrays(torch)
    packed = conv.pack(w)
    assert [entry[0] for entry in device.launched] == ["pack"]
    device.launched.clear()
    torch.allocated.clear()
    conv(x, packed)
    assert [entry[0] for entry in device.launched] == ["window", "conv"]
    assert device.follows == [False, False]
    pointers = device.launched[0][1]
    assert pointers["w"] == w.data_ptr()  # the exact repair path reads it
    assert pointers["packed"] == packed.pointers["packed"]
    assert torch.allocated[-1].shape[0] < 1300  # the window alone
    conv(x, w)
    assert device.follows[2:] == [False, True]  # packing, then what may run beside it


def test_pack_of_a_plan_without_packing_holds_w(torch):
    conv, device = convolution(PLAIN, FUSED)
    x, w = arrays(torch)
    packed = conv.pack(w)
    assert packed.w is w
    assert device.launched == []
    assert torch.allocated == []
    conv(x, packed)
    assert device.launched[0][1]["w"] == w.data_ptr()


def test_packed_filter_goes_where_the_packing_kernel_is_the_same(torch):
    conv, _ = convolution(PLAIN, PACKED)
    other_batch, _ = convolution(ConvProblem.parse("n4c8h6w7k16r3s3"), PACKED, sha256=("s0", "t1", "t2"))
    packed = conv.pack(arrays(torch)[1])
    other_batch(arrays(torch, batch=4)[0], packed)
    elsewhere, _ = convolution(PLAIN, PACKED, sha256=("other", "s1", "s2"))
    with pytest.raises(ArrayError, match="w was packed for other kernels"):
        elsewhere(arrays(torch)[0], packed)


def test_every_call_checks_what_changes(torch):
    conv, device = convolution(PLAIN, FUSED)
    x, w = arrays(torch)
    conv(x, w)
    conv(x, w)  # the same kind of arrays
    assert len(device.launched) == 2
    shape = (2, 8, 6, 7)
    misaligned = Tensor(shape, channels_last(shape), dtype=torch.float16, pointer=x.data_ptr() + 2)
    with pytest.raises(ArrayError, match=r"x starts at address .* not a multiple of 16"):
        conv(misaligned, w)
    with pytest.raises(ArrayError, match="x has dtype float32"):
        conv(Tensor(shape, channels_last(shape), dtype=torch.float32), w)
    with pytest.raises(ArrayError, match="w is missing"):
        conv(x, None)
    assert len(device.launched) == 2


def test_without_a_device_it_can_only_be_looked_at(torch):
    conv, _ = convolution(PLAIN, FUSED, device=False)
    with pytest.raises(NoDeviceError, match="loaded for sm_90a without a device"):
        conv(*arrays(torch))
    with pytest.raises(NoDeviceError):
        conv.pack(arrays(torch)[1])
