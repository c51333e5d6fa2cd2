"""Devices and loaded plans on a fake driver: what is called, with which addresses, and what is given back."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver
from fake_cuda.fake import FakeCuda, Memory, run_with_fake

from im2wingen import kernel as loaded_kernel
from im2wingen.device import device_count, open_device
from im2wingen.errors import DeviceError, NoDeviceError
from im2wingen.families.base import Launch, Plan, TensorMap
from im2wingen.kernel import EncodedMaps, LoadedPlan, encode_arguments
from im2wingen.nvrtc import Cubin


def cubin(kernel: str, image: bytes) -> Cubin:
    return Cubin(
        kernel=kernel, arch="sm_90a", image=image, log="", num_regs=0, spill_bytes=0, stack_bytes=0, smem_bytes=0,
        compile_s=0.0, nvrtc_version="13.0",
    )  # fmt: skip


def launch(
    kernel: str, *arguments: str | tuple[TensorMap, ...], programmatic: bool = False, beside: bool = False
) -> Launch:
    return Launch(
        template=kernel, values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=arguments,
        programmatic=programmatic, beside=beside,
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


def beside_is_for_what_stands_before(fake: FakeCuda) -> None:
    fake.stand_in("copy", copy, arity=2)
    fake.stand_in("negate", negate, arity=2)
    device = open_device()
    pointers = {name: device.alloc(8) for name in ("x", "t", "y")}
    calls: list[str] = []
    for name in ("cuLaunchKernel", "cuLaunchKernelEx"):
        original = getattr(driver, name)

        def counted(*arguments: Any, name: str = name, original: Callable[..., Any] = original) -> Any:
            calls.append(name)
            return original(*arguments)

        setattr(driver, name, counted)
    beside = launch("negate", "x", "y", beside=True)
    LoadedPlan(Plan(launches=(launch("copy", "x", "t"), beside)), CUBINS).launch(pointers, device.stream)
    assert calls == ["cuLaunchKernel", "cuLaunchKernelEx"]
    calls.clear()
    alone = LoadedPlan(Plan(launches=(beside,)), CUBINS[1:])
    alone.launch(pointers, device.stream)
    alone.launch(pointers, device.stream, follows=True)
    assert calls == ["cuLaunchKernel", "cuLaunchKernelEx"]


def test_beside_is_for_what_stands_before() -> None:
    run_with_fake(beside_is_for_what_stands_before)


def a_cluster_is_launched(fake: FakeCuda) -> None:
    fake.stand_in("negate", negate, arity=2)
    device = open_device()
    pointers = {name: device.alloc(8) for name in ("x", "y")}
    value, out = np.array([2.5]), np.empty(1)
    device.copy_to_device(pointers["x"], value)
    asked: list[list[tuple[int, int]]] = []
    original = driver.cuLaunchKernelEx

    def seen(config: Any, *rest: Any) -> Any:
        # the first member of the value's union: a cluster's x, or whether an early launch is allowed
        asked.append([(int(one.id), one.value.clusterDim.x) for one in config.attrs])
        return original(config, *rest)

    driver.cuLaunchKernelEx = seen
    alone = replace(launch("negate", "x", "y"), grid=(4, 1, 1), cluster=2)
    early, beside = replace(alone, programmatic=True), replace(alone, beside=True)
    for one in (alone, early, beside):
        LoadedPlan(Plan(launches=(one,)), CUBINS[1:]).launch(pointers, device.stream)
    LoadedPlan(Plan(launches=(beside,)), CUBINS[1:]).launch(pointers, device.stream, follows=True)
    device.copy_to_host(out, pointers["y"])
    assert out[0] == -2.5
    assert asked == [[(4, 2)], [(6, 1), (4, 2)], [(4, 2)], [(6, 1), (4, 2)]]


def test_a_cluster_is_launched() -> None:
    run_with_fake(a_cluster_is_launched)


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


# ---- tensor maps ----


def tensor_map(array: str, **changes: Any) -> TensorMap:
    usual: dict[str, Any] = {
        "element": "fp16", "dims": (64, 7, 5), "strides_bytes": (128, 896), "box": (64, 4, 2), "swizzle_bytes": 128,
    }  # fmt: skip
    return TensorMap(array=array, **usual | changes)


def test_what_the_driver_is_asked_to_encode() -> None:
    plain = encode_arguments(tensor_map("x"), 4096)
    assert plain[:3] == (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, 4096)
    assert [[int(number) for number in numbers] for numbers in plain[3:7]] == [
        [64, 7, 5], [128, 896], [64, 4, 2], [1, 1, 1]
    ]  # fmt: skip
    assert [numbers._type_ for numbers in plain[3:7]] == [ctypes.c_uint64] * 2 + [ctypes.c_uint32] * 2
    assert [int(value) for value in plain[7:]] == [0, 3, 0, 0]
    other = encode_arguments(
        tensor_map(
            "x", element="bf16", offset_bytes=48, dims=(8, 2**32, 3, 4, 5), strides_bytes=(16, 32, 2**39, 64),
            box=(8, 1, 2, 3, 256), swizzle_bytes=32, l2_promotion_bytes=256,
        ), 4096
    )  # fmt: skip
    assert other[:3] == (driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, 4144)
    assert [int(number) for number in [*other[3], *other[4]]] == [8, 2**32, 3, 4, 5, 16, 32, 2**39, 64]
    assert [int(value) for value in other[7:]] == [0, 1, 3, 0]


@pytest.mark.parametrize(
    ("field", "value", "position", "name"),
    [
        ("element", "fp32", 0, "CU_TENSOR_MAP_DATA_TYPE_FLOAT32"),
        ("element", "tf32", 0, "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32"),
        ("element", "int32", 0, "CU_TENSOR_MAP_DATA_TYPE_INT32"),
        ("swizzle_bytes", 0, 8, "CU_TENSOR_MAP_SWIZZLE_NONE"),
        ("swizzle_bytes", 64, 8, "CU_TENSOR_MAP_SWIZZLE_64B"),
        ("l2_promotion_bytes", 64, 9, "CU_TENSOR_MAP_L2_PROMOTION_L2_64B"),
        ("l2_promotion_bytes", 128, 9, "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"),
    ],
)
def test_every_choice_has_its_enumerator(field: str, value: Any, position: int, name: str) -> None:
    assert encode_arguments(tensor_map("x", box=(8, 1, 1), **{field: value}), 0)[position].name == name


@pytest.mark.parametrize("element", ["int8", "e4m3", "e5m2"])
def test_elements_of_8_bits_are_bytes(element: Any) -> None:
    kind = encode_arguments(tensor_map("x", box=(16, 1, 1), element=element), 0)[0]
    assert kind.name == "CU_TENSOR_MAP_DATA_TYPE_UINT8"


class FakeEncode:
    """Writes a map's array and address where the driver would write its own form."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def __call__(self, wanted: TensorMap, address: int) -> bytes:
        self.calls.append((wanted.array, address))
        return f"{wanted.array} at {address} + {wanted.offset_bytes}".encode().ljust(128, b"\0")


def struct_at(address: int, count: int) -> list[str]:
    return [ctypes.string_at(address + 128 * i, 128).rstrip(b"\0").decode() for i in range(count)]


def test_a_struct_holds_its_maps_in_order() -> None:
    encode = FakeEncode()
    maps = EncodedMaps((tensor_map("w"), tensor_map("x"), tensor_map("x", offset_bytes=16)), encode)
    for _ in range(20):  # the allocator's own alignment varies
        address = maps.address({"x": 4096 + 256 * len(encode.calls), "w": 256, "y": 7})
        assert address % 64 == 0
    x = encode.calls[-1][1]
    assert struct_at(address, 3) == ["w at 256 + 0", f"x at {x} + 0", f"x at {x} + 16"]
    assert len(encode.calls) == 60


def test_maps_are_encoded_once_for_each_address() -> None:
    encode = FakeEncode()
    maps = EncodedMaps((tensor_map("x"), tensor_map("y")), encode)
    first, second = {"x": 256, "y": 512, "bias": 1}, {"x": 256, "y": 1024, "bias": 1}
    for _ in range(3):
        assert struct_at(maps.address(first), 2) == ["x at 256 + 0", "y at 512 + 0"]
        assert struct_at(maps.address(second), 2) == ["x at 256 + 0", "y at 1024 + 0"]
        maps.address(first | {"bias": 2})  # not of these maps
    assert len(encode.calls) == 4


def test_kept_maps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_kernel, "_MAX_ENCODED", 4)
    encode = FakeEncode()
    maps = EncodedMaps((tensor_map("x"),), encode)
    for x in range(0, 16 * 11, 16):
        assert struct_at(maps.address({"x": x}), 1) == [f"x at {x} + 0"]
    assert len(maps._kept) <= 4
    assert len(encode.calls) == 11


def test_what_failed_to_encode_is_not_kept() -> None:
    def refuse(wanted: TensorMap, address: int) -> bytes:
        raise DeviceError("cuTensorMapEncodeTiled", "CUDA_ERROR_INVALID_VALUE")

    maps = EncodedMaps((tensor_map("x"),), refuse)
    for _ in range(2):
        with pytest.raises(DeviceError, match="cuTensorMapEncodeTiled"):
            maps.address({"x": 16})


# The fake driver writes the map's address first, so the struct arrives as a pointer to the first map's array.
MAPPED = Plan(
    launches=(
        launch("copy", (tensor_map("x"), tensor_map("t", offset_bytes=16)), "t"),
        launch("negate", (tensor_map("t"),), "y", programmatic=True),
    ),
    workspace={"t": 8},
)


def counting_encodes(calls: list[int]) -> Callable[[TensorMap, int], bytes]:
    encode = loaded_kernel.encode_tensor_map

    def counted(wanted: TensorMap, address: int) -> bytes:
        calls.append(address)
        return encode(wanted, address)

    return counted


def maps_are_launched(fake: FakeCuda) -> None:
    fake.stand_in("copy", copy, arity=2)
    fake.stand_in("negate", negate, arity=2)
    calls: list[int] = []
    loaded_kernel.encode_tensor_map = counting_encodes(calls)
    device = open_device()
    plan = LoadedPlan(MAPPED, CUBINS)
    pointers = {name: device.alloc(8) for name in ("x", "t", "y", "z")}
    value, out = np.array([2.5]), np.empty(1)
    device.copy_to_device(pointers["x"], value)
    device.copy_to_device(pointers["z"], 2 * value)
    plan.prepare(pointers)
    assert len(calls) == 3
    for _ in range(3):
        for source, wanted in (("x", -2.5), ("z", -5.0)):
            plan.launch(pointers | {"x": pointers[source]}, device.stream)
            device.copy_to_host(out, pointers["y"])
            assert out[0] == wanted
    assert len(calls) == 2 * 2 + 1  # two sets of addresses for the first launch, one for the second

    graph = device.capture(lambda: plan.launch(pointers, device.stream))
    device.memset(pointers["y"], 0, 8)
    plan.launch(pointers | {"t": pointers["z"]}, device.stream)  # does not change what was captured
    graph.replay()
    device.copy_to_host(out, pointers["y"])
    assert out[0] == -2.5
    with pytest.raises(DeviceError, match="cuTensorMapEncodeTiled failed with CUDA_ERROR_INVALID_VALUE"):
        plan.launch(pointers | {"x": pointers["x"] + 8}, device.stream)  # not a multiple of 16
    plan.unload()
    device.close()


def test_maps_are_launched() -> None:
    run_with_fake(maps_are_launched)
