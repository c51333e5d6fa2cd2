"""Driver calls, loading and launching on a real device."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from im2wingen.buffers import OUTPUT_GUARD, GuardedBuffer
from im2wingen.device import Device, device_count, open_device
from im2wingen.errors import DeviceError, NoDeviceError
from im2wingen.families.base import Launch, Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import compile_cubin
from im2wingen.render import Source

pytestmark = pytest.mark.gpu

ADD = """
extern "C" __global__ void add(const float* a, const float* b, float* out) {
  extern __shared__ float smem[];
  smem[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = smem[threadIdx.x] + b[threadIdx.x];
}
"""


@pytest.fixture
def device() -> Iterator[Device]:
    opened = open_device()
    yield opened
    opened.close()


def add_plan(device: Device, smem_bytes: int = 400) -> LoadedPlan:
    launch = Launch(
        template="add", values={}, grid=(1, 1, 1), block=100, smem_bytes=smem_bytes, arguments=("a", "b", "out")
    )  # fmt: skip
    return LoadedPlan(Plan(launches=(launch,)), (compile_cubin(Source("add", ADD), device.target.arch),))


def test_facts_are_plausible(device: Device) -> None:
    assert device_count() >= 1
    target = device.target
    assert target.name == device.name
    assert device.uuid.startswith("GPU-")
    assert not target.predicted
    assert 10 <= target.sm_count <= 1000
    assert 500 <= target.clock_mhz <= 5000
    assert 50 <= target.dram_gbps <= 50_000
    assert target.l2_bytes > 2**20
    assert target.smem_per_block_bytes > 48 * 1024
    assert device.clock_mhz() >= 0
    assert device.free_bytes() > 0


def test_a_missing_ordinal_is_told() -> None:
    with pytest.raises(NoDeviceError, match="counted from 0"):
        open_device(10_000)


def test_memory_round_trip(device: Device) -> None:
    pointer = device.alloc(4000)
    assert pointer % 256 == 0
    sent, got = np.arange(1000, dtype=np.float32), np.empty(1000, np.float32)
    device.copy_to_device(pointer, sent)
    device.copy_to_host(got, pointer)
    np.testing.assert_array_equal(got, sent)
    device.memset(pointer, 0xFF, 4000)
    device.copy_to_host(got, pointer)
    assert np.isnan(got).all()
    device.free(pointer)


def test_an_allocation_that_cannot_be_had_names_its_size(device: Device) -> None:
    with pytest.raises(DeviceError, match=f"CUDA_ERROR_OUT_OF_MEMORY: {2**50} bytes"):
        device.alloc(2**50)


@pytest.mark.parametrize("smem_bytes", [400, 96 * 1024])  # the default limit, and beyond the 48 KiB that need asking
def test_launch_and_graph(device: Device, smem_bytes: int) -> None:
    plan = add_plan(device, smem_bytes)
    pointers = {name: device.alloc(400) for name in ("a", "b", "out")}
    a, b, out = np.arange(100, dtype=np.float32), np.full(100, 2, np.float32), np.empty(100, np.float32)
    device.copy_to_device(pointers["a"], a)
    device.copy_to_device(pointers["b"], b)
    plan.launch(pointers, device.stream)
    device.copy_to_host(out, pointers["out"])
    np.testing.assert_array_equal(out, a + b)

    # captured, nothing runs; replayed, each launch keeps the pointers it was captured with
    graph = device.capture(
        lambda: [plan.launch(p, device.stream) for p in (pointers, pointers | {"out": pointers["b"]})]
    )
    device.memset(pointers["out"], 0, 400)
    device.copy_to_host(out, pointers["out"])
    assert not out.any()
    elapsed_us = device.elapsed_us(graph.replay)
    assert 0 < elapsed_us < 1e6
    device.copy_to_host(out, pointers["out"])
    np.testing.assert_array_equal(out, a + b)
    device.copy_to_host(out, pointers["b"])
    np.testing.assert_array_equal(out, a + b)
    graph.close()
    plan.unload()
    for pointer in pointers.values():
        device.free(pointer)


def test_too_much_shared_memory_is_refused(device: Device) -> None:
    with pytest.raises(DeviceError, match="cuFuncSetAttribute failed with CUDA_ERROR_INVALID_VALUE"):
        add_plan(device, 10 * 2**20)


def test_a_broken_image_is_refused(device: Device) -> None:
    launch = Launch(template="add", values={}, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=())
    cubin = compile_cubin(Source("add", ADD), "sm_120a" if device.target.arch != "sm_120a" else "sm_80")
    with pytest.raises(DeviceError, match="cuModuleLoadData failed with CUDA_ERROR_NO_BINARY_FOR_GPU"):
        LoadedPlan(Plan(launches=(launch,)), (cubin,))


def test_another_thread_needs_the_context_and_gets_it(device: Device) -> None:
    got: list[int] = []

    def allocate() -> None:
        device.activate()
        got.append(device.alloc(1))

    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    device.free(got[0])


def test_guards_see_single_bytes(device: Device) -> None:
    buffer = GuardedBuffer(device, "y", 1001, OUTPUT_GUARD)
    buffer.fill(0xFF)
    assert buffer.damage() is None
    device.memset(buffer.pointer + 1001, 0, 1)
    assert buffer.damage() == "a kernel wrote outside y: 1 bytes after its 1001 bytes"
    buffer.reset_guards()
    device.memset(buffer.pointer - 2, 0, 1)
    assert buffer.damage() == "a kernel wrote outside y: 2 bytes before its 1001 bytes"
    buffer.free()


def test_torch_shares_the_context(device: Device) -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(100, dtype=torch.float32, device="cuda")
    b, out = torch.ones_like(a), torch.zeros_like(a)
    torch.cuda.synchronize()
    plan = add_plan(device)
    pointers = {"a": a.data_ptr(), "b": b.data_ptr(), "out": out.data_ptr()}
    stream = torch.cuda.Stream()
    plan.launch(pointers, stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(out, a + 1)
    plan.unload()


def test_closing_leaves_the_context_to_others() -> None:
    first, second = open_device(), open_device()
    first.close()
    pointer = second.alloc(16)
    second.memset(pointer, 0, 16)
    second.synchronize()
    second.free(pointer)
    second.close()
