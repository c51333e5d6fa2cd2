"""A fake CUDA device for tests: builds fake_driver.c, and gives its launches to the emulator or to Python functions.

Only for a process of its own: once loaded, the library is libcuda.so.1 for all of it.
"""

import atexit
import ctypes
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from im2wingen import device_data, verify
from im2wingen.emulator import EmulatedKernel
from im2wingen.families.base import Launch
from im2wingen.host_compiler import find_compiler
from im2wingen.kernel import LoadedPlan
from im2wingen.render import render

Memory = NDArray[np.uint8] | None  # from a pointer to the end of its allocation; None for a null pointer
_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, *[ctypes.c_uint] * 5, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int
)  # fmt: skip
_ARITY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)


class FakeCuda:
    """`kernels` maps a kernel's name to the function of its arguments that stands for it."""

    def __init__(self, library: Path) -> None:
        self.kernels: dict[str, Callable[..., None]] = {}
        self.launches: dict[str, int] = {}
        self._emulated: dict[str, EmulatedKernel] = {}
        self._arity: dict[str, int] = {}
        self._library = ctypes.CDLL(str(library))
        self._library.fake_bytes_from.restype = ctypes.c_uint64
        self._callbacks = (_CALLBACK(self._launch), _ARITY(lambda name: self._arity[name.decode()]))
        self._library.fake_on_launch(*self._callbacks)
        self._support_kernel = device_data.support_kernel
        device_data.support_kernel = verify.support_kernel = self._emulate  # type: ignore[attr-defined]

    def memory(self, pointer: int) -> Memory:
        size = self._library.fake_bytes_from(ctypes.c_uint64(pointer))
        return np.frombuffer((ctypes.c_char * size).from_address(pointer), np.uint8) if size else None

    def stand_in(self, name: str, function: Callable[..., None], arity: int) -> None:
        """Run `function` wherever the kernel `name` is launched."""
        self.kernels[name], self._arity[name] = function, arity

    def set_fault(self, code: int) -> None:
        """From now on driver calls return this CUresult; 0 ends it."""
        self._library.fake_set_fault(code)

    def live_blocks(self) -> int:
        """Allocations that were not freed."""
        return int(self._library.fake_live_blocks())

    def _emulate(self, launch: Launch, arch: str) -> LoadedPlan:
        self._emulated[launch.template] = EmulatedKernel(render(launch))
        self._arity[launch.template] = len(launch.arguments)
        return self._support_kernel(launch, arch)

    def _launch(
        self, name: bytes, x: int, y: int, z: int, block: int, smem_bytes: int, arguments: Sequence[int], count: int
    ) -> None:
        kernel = name.decode()
        self.launches[kernel] = self.launches.get(kernel, 0) + 1
        given = [self.memory(arguments[i]) for i in range(count)]
        try:
            if kernel in self.kernels:
                self.kernels[kernel](*given)
            else:
                grid = (min(x, 2), y, z) if kernel == "fill" else (x, y, z)  # it strides over any grid
                arrays = [np.uint64(0) if array is None else array for array in given]
                self._emulated[kernel].launch(grid, block, smem_bytes, arrays)
        except BaseException:  # ctypes would print it and go on
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(99)


def run_with_fake(function: Callable[[FakeCuda], None]) -> None:
    """Run a top-level function on a fake device in a process of its own; an assertion that fails there fails here."""
    process = multiprocessing.get_context("spawn").Process(target=_call, args=(function, _library()))
    process.start()
    process.join(120)
    alive = process.is_alive()
    process.kill()
    process.join()
    assert not alive, "no end within 120 s"
    assert process.exitcode == 0, "its traceback is on stderr"


def _call(function: Callable[[FakeCuda], None], library: Path) -> None:
    function(FakeCuda(library))


@cache
def _library() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="im2wingen-fake-cuda-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libcuda.so.1"
    source = Path(__file__).with_name("fake_driver.c")
    flags = ["-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([find_compiler(), "-x", "c", *flags, "-o", library, source, "-ldl"], check=True)
    return library
