"""Tensor maps on their way to the emulator's runner: the text of an argument, and the arrays that a map alone names."""

import subprocess
from typing import Any

import numpy as np
import pytest
from emulated import one_kernel

from im2wingen.emulator import EmulatedKernel, run_plan
from im2wingen.emulator import kernel as emulated_kernel
from im2wingen.emulator import plan as emulated_plan
from im2wingen.emulator.arena import Arena
from im2wingen.emulator.kernel import Maps, Pointer
from im2wingen.errors import EmulatorError
from im2wingen.families.base import Launch, Plan, TensorMap

FIRST_ARGUMENT = 14  # of the runner's command line


def tensor_map(array: str, **changes: Any) -> TensorMap:
    usual: dict[str, Any] = {
        "element": "fp16", "dims": (64, 7, 5), "strides_bytes": (128, 896), "box": (64, 4, 2), "swizzle_bytes": 128,
    }  # fmt: skip
    return TensorMap(array=array, **usual | changes)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments that the runner would get, a list a launch; nothing is compiled or run."""
    seen: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command[FIRST_ARGUMENT:])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(emulated_kernel.subprocess, "run", run)
    monkeypatch.setattr(emulated_kernel, "build_runner", lambda **options: "runner")
    monkeypatch.setattr(emulated_kernel, "build_kernel", lambda source, **options: "kernel")
    monkeypatch.setattr(emulated_plan, "render", lambda launch: one_kernel("", ""))
    return seen


def test_the_text_of_a_struct(given: list[list[str]]) -> None:
    maps = (
        tensor_map("x"),
        tensor_map(
            "y", element="tf32", offset_bytes=48, dims=(8, 2, 3, 4, 5), strides_bytes=(16, 32, 96, 384),
            box=(8, 1, 2, 3, 4), swizzle_bytes=0, l2_promotion_bytes=256,
        ),
    )  # fmt: skip
    with Arena({"x": 4480, "y": 2048}) as arena:
        arguments = [Pointer(name="x", writable=False), Maps(maps=maps, read_only=frozenset("x"))]
        EmulatedKernel(one_kernel("", "")).launch_in(arena, (1, 1, 1), 32, 0, arguments)
        x, y = arena.spans["x"].offset, arena.spans["y"].offset
    assert given == [
        [
            f"ro:{x}:4480:x",
            f"maps:3,128,2,0,0,64,7,5,128,896,64,4,2,ro,{x},4480,x;"
            f"5,0,4,1,48,8,2,3,4,5,16,32,96,384,8,1,2,3,4,rw,{y},2048,y",
        ]
    ]


def test_arrays_are_given_beside_their_maps(given: list[list[str]]) -> None:
    x, y = np.zeros((5, 7, 64), np.float16), np.zeros((5, 7, 64), np.float16)
    x.flags.writeable = False
    maps = [(tensor_map("any"), x), (tensor_map("any"), y), (tensor_map("other"), x)]
    EmulatedKernel(one_kernel("", "")).launch((1, 1, 1), 32, 0, [y, maps, np.int32(1)])
    ((pointer, struct, value),) = given
    assert value == "value:01000000"
    (_, place, size, name), mapped = pointer.split(":"), struct.removeprefix("maps:").split(";")
    tails = [one.split(",")[-4:] for one in mapped]
    assert tails[1] == ["rw", place, size, name]  # one memory, whether by pointer or by map
    assert tails[0] == tails[2]
    assert tails[0][0] == "ro"
    assert tails[0][1] != place


def test_a_plan_whose_maps_alone_name_arrays(given: list[list[str]]) -> None:
    def launch(*arguments: str | tuple[TensorMap, ...]) -> Launch:
        return Launch(template="t", values={}, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=arguments)

    launches = (launch("w", "packed"), launch((tensor_map("x"), tensor_map("packed"), tensor_map("y")), "bias"))
    plan = Plan(launches=launches, workspace={"packed": 4480})
    arrays = {name: np.zeros((5, 7, 64), np.float16) for name in ("x", "w", "bias", "y")}
    for name in ("x", "w", "bias"):
        arrays[name].flags.writeable = False
    run_plan(plan, arrays)
    (w, packed), (struct, bias) = (list(arguments) for arguments in given)
    assert [text.split(":")[0] for text in (w, packed, bias)] == ["ro", "rw", "ro"]
    tails = [one.split(",")[-4:] for one in struct.split(";")]
    assert [(tail[0], tail[3]) for tail in tails] == [("ro", "x"), ("rw", "packed"), ("rw", "y")]
    assert tails[1][1:] == packed.split(":")[1:]
    del arrays["x"]
    with pytest.raises(EmulatorError, match="arrays that are not given: x"):
        run_plan(plan, arrays)
