"""Stand-ins for PyTorch and CuPy: the attributes that im2wingen reads, memory that is only addresses."""

import itertools
import types
from contextlib import contextmanager

import numpy as np

from im2wingen.arrays import contiguous_strides

_addresses = itertools.count(1 << 20, 1 << 20)


class FakeDtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


class FakeTorchDevice:
    def __init__(self, kind="cuda", index=0):
        self.type, self.index = kind, index

    def __eq__(self, other):
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))


class Tensor:
    """torch.Tensor as far as im2wingen looks."""

    def __init__(self, shape, strides=None, *, dtype, device=None, pointer=None, requires_grad=False):
        self.shape = tuple(shape)
        self._strides = tuple(strides or contiguous_strides(self.shape))
        self.dtype, self.device = dtype, device or FakeTorchDevice()
        self._pointer = pointer or next(_addresses)
        self.requires_grad = requires_grad

    def stride(self):
        return self._strides

    def data_ptr(self):
        return self._pointer


Tensor.__module__ = "torch"


class Parameter(Tensor):
    """A subclass from another module, as torch.nn.Parameter is."""


def fake_torch():
    """A module with what im2wingen calls; `allocated` lists what was asked of its allocator."""
    torch = types.ModuleType("torch")
    torch.float16, torch.bfloat16, torch.float32, torch.uint8 = map(
        FakeDtype, ("float16", "bfloat16", "float32", "uint8")
    )
    for name in ("int8", "int32", "float8_e4m3fn"):
        setattr(torch, name, FakeDtype(name))
    torch.channels_last, torch.contiguous_format = "channels_last", "contiguous_format"
    torch.grad_mode, torch.stream, torch.allocated = True, 77, []
    torch.is_grad_enabled = lambda: torch.grad_mode
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=torch.stream))

    def empty(shape, *, dtype, device, memory_format="contiguous_format"):
        shape = (shape,) if isinstance(shape, int) else shape
        strides = contiguous_strides(shape)
        if memory_format == "channels_last":
            _, k, p, q = shape
            strides = (k * p * q, 1, k * q, k)
        torch.allocated.append(Tensor(shape, strides, dtype=dtype, device=device))
        return torch.allocated[-1]

    torch.empty = empty
    return torch


class ndarray:
    """cupy.ndarray as far as im2wingen looks."""

    def __init__(self, shape, dtype, *, strides=None, device=0, pointer=None):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        elements = strides or contiguous_strides(self.shape)
        self.strides = tuple(s * self.dtype.itemsize for s in elements)
        self.data = types.SimpleNamespace(ptr=pointer or next(_addresses), device_id=device)

    def transpose(self, *axes):
        elements = [s // self.dtype.itemsize for s in self.strides]
        return ndarray(
            [self.shape[a] for a in axes], self.dtype, strides=[elements[a] for a in axes], pointer=self.data.ptr
        )


ndarray.__module__ = "cupy"


def fake_cupy():
    cupy = types.ModuleType("cupy")

    @contextmanager
    def device(ordinal):
        cupy.current_device = ordinal
        yield

    cupy.empty = lambda shape, dtype: ndarray((shape,) if isinstance(shape, int) else shape, dtype)

    def get_current_stream(device_id=-1):  # -1: of the active device
        return types.SimpleNamespace(ptr=88 + device_id)

    cupy.cuda = types.SimpleNamespace(Device=device, get_current_stream=get_current_stream)
    return cupy


def channels_last(shape):
    """Strides of an NCHW-shaped array that lies as NHWC."""
    _, c, h, w = shape
    return (c * h * w, 1, c * w, c)
