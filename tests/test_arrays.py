"""Arrays of other libraries: recognised by their type, read without a copy, refused with a sentence."""

import sys
import types

import numpy as np
import pytest
from fake_arrays import FakeDtype, FakeTorchDevice, Parameter, Tensor, channels_last, fake_cupy, fake_torch, ndarray

from im2wingen.arrays import CUPY, EXPORTED, LEGACY_STREAM, TORCH, DeviceArray, contiguous_strides, framework_of
from im2wingen.errors import ArrayError

FLOAT16 = FakeDtype("float16")


@pytest.fixture
def torch(monkeypatch):
    module = fake_torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def cupy(monkeypatch):
    module = fake_cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


class FakeView:
    """What StridedMemoryView offers of a GPU array."""

    def __init__(self, shape=(2, 3), dtype=np.float16, strides=None, device_id=0):
        self.shape, self.dtype, self.strides, self.device_id = shape, np.dtype(dtype), strides, device_id
        self.ptr, self.readonly, self.is_device_accessible = 0x7000, False, True

    def __dlpack_device__(self):
        return (2, self.device_id)

    def __dlpack__(self, **options):
        return ("capsule", options)


def test_frameworks_are_told_apart_by_type(torch, cupy):
    assert framework_of(Tensor((1,), dtype=FLOAT16), "x") is TORCH
    assert framework_of(Parameter((1,), dtype=FLOAT16), "w") is TORCH  # a subclass from elsewhere
    assert framework_of(ndarray((1,), "float16"), "x") is CUPY
    assert framework_of(types.SimpleNamespace(__cuda_array_interface__={}), "x") is EXPORTED


def test_what_is_no_array_is_refused_by_name():
    with pytest.raises(ArrayError, match=r"bias is of type list; allowed is a GPU array of PyTorch or CuPy"):
        framework_of([1, 2], "bias")


def test_host_array_is_refused():
    x = np.zeros((1, 2), np.float16)
    with pytest.raises(ArrayError, match=r"x lies in host memory \(numpy.ndarray\)"):
        framework_of(x, "x").adopt(x, "x", 1)


def test_torch_facts(torch):
    shape = (2, 3, 4, 5)
    facts = TORCH.facts(Tensor(shape, channels_last(shape), dtype=FLOAT16, device=FakeTorchDevice(index=1)))
    assert (facts.shape, facts.strides, facts.dtype, facts.device) == (shape, (60, 1, 15, 3), "float16", 1)
    assert TORCH.facts(Tensor(shape, dtype=FLOAT16, device=FakeTorchDevice("cpu", None))).device is None


def test_torch_gradients_are_refused_only_in_grad_mode(torch):
    w = Tensor((1,), dtype=FLOAT16, requires_grad=True)
    with pytest.raises(ArrayError, match=r"w requires a gradient .* torch.no_grad\(\)"):
        TORCH.adopt(w, "w", 0)
    torch.grad_mode = False
    assert TORCH.adopt(w, "w", 0) is w


def test_torch_allocates_what_it_is_asked_for(torch):
    like = Tensor((1,), dtype=FLOAT16)
    y = TORCH.empty(like, (2, 3, 4, 5), True, 0)
    assert (y.shape, y.stride(), y.dtype) == ((2, 3, 4, 5), (60, 1, 15, 3), FLOAT16)
    assert TORCH.empty(like, (2, 3, 4, 5), False, 0, "int32").dtype is torch.int32
    assert TORCH.scratch(like, 512, 0).dtype is torch.uint8
    assert TORCH.current_stream(0) == 77


def test_cupy_facts_count_elements(cupy):
    facts = CUPY.facts(ndarray((2, 3), "float32", device=1))
    assert (facts.strides, facts.dtype, facts.device) == ((3, 1), "float32", 1)
    assert CUPY.current_stream(1) == 89  # of that device, whichever is active


def test_cupy_allocates_channels_last_as_a_view(cupy):
    y = CUPY.empty(ndarray((1,), "float16", device=1), (2, 3, 4, 5), True, 0)
    assert CUPY.facts(y).strides == (60, 1, 15, 3)
    assert y.shape == (2, 3, 4, 5)
    assert cupy.current_device == 1
    assert CUPY.facts(CUPY.empty(ndarray((1,), "int8"), (2, 3), False, 0, "int32")).dtype == "int32"


def test_exporter_without_strides_is_contiguous():
    facts = EXPORTED.facts(FakeView(shape=(2, 3, 4)))
    assert (facts.strides, facts.device, facts.dtype) == ((12, 4, 1), 0, "float16")


def test_exporter_that_refuses_is_an_array_error(monkeypatch):
    def refuse(array, stream_ptr):
        raise BufferError("no such stream")

    monkeypatch.setattr("cuda.core.utils.StridedMemoryView", types.SimpleNamespace(from_any_interface=refuse))
    with pytest.raises(ArrayError, match=r"w \(types.SimpleNamespace\) can't be read as a GPU array: no such stream"):
        EXPORTED.adopt(types.SimpleNamespace(__cuda_array_interface__={}), "w", 1)


def test_device_array_exports_both_protocols():
    array = DeviceArray(FakeView(shape=(2, 3), strides=(1, 2)))
    assert array.__dlpack_device__() == (2, 0)
    assert array.__dlpack__(max_version=(1, 0)) == ("capsule", {"stream": None, "max_version": (1, 0)})
    interface = array.__cuda_array_interface__
    assert interface["data"] == (0x7000, False)
    assert interface["strides"] == (2, 4)
    assert interface["stream"] == LEGACY_STREAM
    assert framework_of(array, "x") is EXPORTED  # and comes back in as an input


def test_contiguous_strides():
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()
