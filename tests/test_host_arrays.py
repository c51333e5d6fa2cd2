"""Arrays of several libraries in host memory, without a copy."""

import array
import types

import numpy as np
import pytest
from fake_arrays import FakeDtype, FakeTorchDevice, Parameter, Tensor

from im2wingen.errors import ArrayError
from im2wingen.host_arrays import HOST_EXPORTED, HOST_TORCH, NUMPY, host_framework_of

FLOAT32 = FakeDtype("float32")


class Exporter:
    """Exports DLPack alone."""

    def __init__(self, memory, kind=1):
        self.memory, self.kind = memory, kind

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)


def test_libraries_are_told_by_type() -> None:
    assert host_framework_of(np.empty(1), "x") is NUMPY
    assert host_framework_of(Tensor((1,), dtype=FLOAT32), "x") is HOST_TORCH
    assert host_framework_of(Parameter((1,), dtype=FLOAT32), "w") is HOST_TORCH
    assert host_framework_of(Exporter(np.empty(1)), "x") is HOST_EXPORTED
    assert host_framework_of(array.array("f", [1.0]), "bias") is HOST_EXPORTED
    with pytest.raises(ArrayError, match="bias is of type list; allowed is a NumPy array, a PyTorch CPU tensor"):
        host_framework_of([1.0], "bias")


def test_numpy_facts() -> None:
    x = np.zeros((2, 3, 4, 5), np.float32).transpose(0, 3, 1, 2)
    facts = NUMPY.facts(NUMPY.adopt(x, "x", 0))
    assert (facts.shape, facts.strides, facts.dtype) == ((2, 5, 3, 4), (60, 1, 20, 5), "float32")
    assert (facts.device, facts.readonly) == (None, False)
    assert NUMPY.pointer(x) == x.ctypes.data
    x.flags.writeable = False
    assert NUMPY.facts(x).readonly
    records = np.zeros(3, [("a", "f4"), ("b", "u1")])["a"]  # five bytes from one to the next
    assert NUMPY.facts(records).strides == (-1,)


@pytest.mark.parametrize("channels_last", [False, True])
def test_new_arrays_are_aligned(channels_last) -> None:
    y = NUMPY.empty(np.empty(1, np.float32), (2, 3, 5, 7), channels_last, 0)
    assert (y.shape, y.dtype, y.ctypes.data % 64) == ((2, 3, 5, 7), np.float32, 0)
    assert y.strides == ((420, 4, 84, 12) if channels_last else (420, 140, 28, 4))
    assert NUMPY.empty(np.empty(1, np.int8), (2, 3, 5, 7), channels_last, 0, "int32").dtype == np.int32
    assert NUMPY.scratch(y, 100, 0).ctypes.data % 256 == 0


def test_exporters_are_not_copied() -> None:
    memory = np.arange(6, dtype=np.float32).reshape(2, 3)
    view = HOST_EXPORTED.adopt(Exporter(memory), "x", 0)
    assert HOST_EXPORTED.pointer(view) == memory.ctypes.data
    numbers = array.array("f", [1.0, 2.0])
    assert HOST_EXPORTED.facts(HOST_EXPORTED.adopt(numbers, "bias", 0)).shape == (2,)
    assert HOST_EXPORTED.pointer(HOST_EXPORTED.adopt(numbers, "bias", 0)) == numbers.buffer_info()[0]
    assert HOST_EXPORTED.facts(HOST_EXPORTED.adopt(b"1234", "bias", 0)).readonly


def test_arrays_on_a_gpu_are_refused() -> None:
    with pytest.raises(ArrayError, match=r"x \(.*Exporter\) is on a GPU and this convolution was loaded for the CPU"):
        HOST_EXPORTED.adopt(Exporter(np.empty(1), kind=2), "x", 0)
    assert HOST_TORCH.facts(Tensor((1,), dtype=FLOAT32)).device == 0
    assert HOST_TORCH.facts(Tensor((1,), dtype=FLOAT32, device=FakeTorchDevice("cpu", None))).device is None


def test_what_cannot_be_exported_says_so() -> None:
    broken = types.SimpleNamespace(__dlpack__=lambda **_: 1, __dlpack_device__=lambda: (1, 0))
    with pytest.raises(ArrayError, match=r"w .* can't be read as a CPU array"):
        HOST_EXPORTED.adopt(broken, "w", 0)
