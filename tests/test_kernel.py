"""Devices and loaded plans on a fake driver: what is called, with which addresses, and what is given back."""

import numpy as np
import pytest
from fake_cuda.fake import FakeCuda, Memory, run_with_fake

from im2wingen.device import device_count, open_device
from im2wingen.errors import DeviceError, NoDeviceError
from im2wingen.families.base import Launch, Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.nvrtc import Cubin


def cubin(kernel: str, image: bytes) -> Cubin:
    return Cubin(
        kernel=kernel, arch="sm_90a", image=image, log="", num_regs=0, spill_bytes=0, stack_bytes=0, smem_bytes=0,
        compile_s=0.0, nvrtc_version="13.0",
    )  # fmt: skip


def launch(kernel: str, *arguments: str, programmatic: bool = False) -> Launch:
    return Launch(
        template=kernel, values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=arguments,
        programmatic=programmatic,
    )  # fmt: skip


# The second launch goes through cuLaunchKernelEx.
PLAN = Plan(launches=(launch("copy", "x", "t"), launch("negate", "t", "y", programmatic=True)), workspace={"t": 8})
CUBINS = (cubin("copy", b"\x7fELF1"), cubin("negate", b"\x7fELF2"))


def copy(source: Memory, target: Memory) -> None:
    assert source is not None
    assert target is not None
    target[:8] = source[:8]


def negate(source: Memory, target: Memory) -> None:
    assert source is not None
    assert target is not None
    target[:8].view(np.float64)[...] = -source[:8].view(np.float64)


def device_facts(fake: FakeCuda) -> None:
    assert device_count() == 1
    device = open_device()
    assert device.name == "Fake GPU"
    assert device.target.arch == "sm_90a"
    assert device.uuid == "GPU-abababab-abab-abab-abab-abababababab"
    assert device.clock_mhz() == 0
    with pytest.raises(NoDeviceError, match="sees 1 CUDA devices"):
        open_device(1)
    with pytest.raises(DeviceError, match=f"cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY: {2**50} bytes"):
        device.alloc(2**50)
    device.close()


def test_device_facts() -> None:
    run_with_fake(device_facts)


def launches_run_in_order(fake: FakeCuda) -> None:
    fake.stand_in("copy", copy, arity=2)
    fake.stand_in("negate", negate, arity=2)
    device = open_device()
    plan = LoadedPlan(PLAN, CUBINS)
    pointers = {name: device.alloc(8) for name in ("x", "t", "y", "z")}
    value, out = np.array([2.5]), np.empty(1)
    device.copy_to_device(pointers["x"], value)
    plan.launch(pointers, device.stream)
    device.copy_to_host(out, pointers["y"])
    assert out[0] == -2.5

    def twice() -> None:
        plan.launch(pointers, device.stream)
        plan.launch(pointers | {"x": pointers["y"], "y": pointers["z"]}, device.stream)

    graph = device.capture(twice)
    device.memset(pointers["y"], 0, 8)
    device.copy_to_host(out, pointers["y"])
    assert out[0] == 0  # captured, not run
    graph.replay()
    for name, wanted in (("y", -2.5), ("z", 2.5)):  # each launch kept its own pointers
        device.copy_to_host(out, pointers[name])
        assert out[0] == wanted
    graph.close()
    for pointer in pointers.values():
        device.free(pointer)
    plan.unload()
    device.close()
    assert fake.live_blocks() == 0


def test_launches_run_in_order() -> None:
    run_with_fake(launches_run_in_order)


def a_failed_capture_ends(fake: FakeCuda) -> None:
    fake.stand_in("copy", copy, arity=2)
    fake.stand_in("negate", negate, arity=2)
    device = open_device()
    plan = LoadedPlan(PLAN, CUBINS)
    with pytest.raises(KeyError, match="x"):
        device.capture(lambda: plan.launch({}, device.stream))
    pointers = {name: device.alloc(8) for name in "xty"}
    plan.launch(pointers, device.stream)
    assert fake.launches == {"copy": 1, "negate": 1}  # runs at once: the capture is over


def test_a_failed_capture_ends() -> None:
    run_with_fake(a_failed_capture_ends)
