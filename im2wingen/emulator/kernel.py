"""EmulatedKernel: one kernel compiled for the CPU, and its launches, each in a process of its own."""

import logging
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from im2wingen.emulator.arena import Arena
from im2wingen.emulator.build import build_kernel, build_runner
from im2wingen.errors import EmulatorError
from im2wingen.families.base import TensorMap
from im2wingen.render import Source

log = logging.getLogger(__name__)

Poison = Literal["nan", "finite"]
_POISON_BYTES: dict[Poison, int] = {"nan": 0xFF, "finite": 0x7B}  # 0x7B7B is 61280 in fp16, 1.3e36 in bf16 and fp32
_REPORTED = 3  # the runner's exit status when its last line on stderr is the sentence
_REPORT_LINES = 20  # of a sanitizer's report


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A kernel argument that points to an array of an arena."""

    name: str
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """A kernel argument that is a struct of tensor maps of an arena's arrays, passed by value."""

    maps: tuple[TensorMap, ...]
    read_only: frozenset[str] = frozenset()  # names of arrays that the kernel must not write


class EmulatedKernel:
    """A kernel's text as a program of the CPU; built at construction (CompileError), cached by content.

    `sanitize` compiles it with the address and undefined-behaviour sanitizers: slower, and exact to the byte.
    """

    def __init__(self, source: Source, *, sanitize: bool = False) -> None:
        self.source = source
        self._runner = build_runner(sanitize=sanitize)
        self._library = build_kernel(source, sanitize=sanitize)

    def launch(
        self,
        grid: tuple[int, int, int],
        block: int | tuple[int, int, int],
        smem_bytes: int,
        arguments: Sequence[NDArray[Any] | np.generic | Sequence[tuple[TensorMap, NDArray[Any]]]],
        seed: int = 0,
        *,
        cluster: int = 1,
        poison: Poison = "nan",
        timeout_s: float = 300.0,
    ) -> None:
        """Run the kernel on arrays (changed in place) and NumPy scalars (passed by value), in the kernel's order.

        A sequence of tensor maps with their arrays (whatever the maps call those) is one struct of the maps, by value.
        An array that is not writeable is read-only memory for the kernel. The same array given twice is one memory.
        `cluster` CTAs, neighbours along x, run together as a cluster.
        `seed` picks the order of threads: 0 ascending, 1 descending, else shuffled. `poison` is what unwritten shared
        memory and the destinations of asynchronous copies hold: NaN, or a huge number for kernels that treat NaN apart.
        Raises EmulatorError; the arrays are then as they were.
        """
        arrays: dict[str, NDArray[Any]] = {}
        names: dict[int, str] = {}
        values: list[Pointer | Maps | np.generic] = []

        def name_of(array: NDArray[Any], name: str) -> str:
            arrays[names.setdefault(id(array), name)] = array
            return names[id(array)]

        for position, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                name = name_of(argument, f"argument {position}")
                values.append(Pointer(name=name, writable=argument.flags.writeable))
            elif isinstance(argument, np.generic):
                values.append(argument)
            else:
                maps = tuple(
                    replace(one, array=name_of(array, f"argument {position} map {i}"))
                    for i, (one, array) in enumerate(argument)
                )
                values.append(Maps(maps=maps, read_only=read_only(arrays)))
        with Arena({name: array.nbytes for name, array in arrays.items()}) as arena:
            copy_in(arena, arrays)
            self.launch_in(
                arena, grid, block, smem_bytes, values, seed, cluster=cluster, poison=poison, timeout_s=timeout_s
            )
            copy_out(arena, arrays)

    def launch_in(
        self,
        arena: Arena,
        grid: tuple[int, int, int],
        block: int | tuple[int, int, int],
        smem_bytes: int,
        arguments: Sequence[Pointer | Maps | np.generic],
        seed: int = 0,
        *,
        cluster: int = 1,
        poison: Poison = "nan",
        timeout_s: float = 300.0,
    ) -> None:
        """Like `launch`, on the arrays of an arena."""
        threads = (block, 1, 1) if isinstance(block, int) else block
        numbers = (*grid, *threads, smem_bytes, seed, _POISON_BYTES[poison], arena.file, arena.size, cluster)
        command = [str(self._runner), str(self._library), *map(str, numbers), *(_text(arena, a) for a in arguments)]
        try:
            done = subprocess.run(
                command, pass_fds=[arena.file], capture_output=True, text=True, errors="replace", timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise EmulatorError(f"{self.source.kernel}: no end within {timeout_s:g} s") from None
        if done.stdout:
            log.info("%s printed:\n%s", self.source.kernel, done.stdout)
        if done.returncode != 0:
            raise EmulatorError(f"{self.source.kernel}: {_failure(done.returncode, done.stderr)}")
        if (damage := arena.damage()) is not None:
            raise EmulatorError(f"{self.source.kernel}: {damage}")


def read_only(arrays: Mapping[str, NDArray[Any]]) -> frozenset[str]:
    """Names of the arrays that are not writeable."""
    return frozenset(name for name, array in arrays.items() if not array.flags.writeable)


def copy_in(arena: Arena, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy arrays to those of the same name in the arena."""
    for name, array in arrays.items():
        arena.read(name).view(array.dtype)[...] = array.reshape(-1)


def copy_out(arena: Arena, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy the arena's arrays back to those of the same name that are writeable."""
    for name, array in arrays.items():
        if array.flags.writeable:
            array[...] = arena.read(name).view(array.dtype).reshape(array.shape)


def _text(arena: Arena, argument: Pointer | Maps | np.generic) -> str:
    """An argument as the runner reads it."""
    if isinstance(argument, np.generic):
        return f"value:{argument.tobytes().hex()}"
    if isinstance(argument, Maps):
        return "maps:" + ";".join(_map_text(arena, one, one.array not in argument.read_only) for one in argument.maps)
    span = arena.spans[argument.name]
    return f"{'rw' if argument.writable else 'ro'}:{span.offset}:{span.size}:{argument.name}"


def _map_text(arena: Arena, one: TensorMap, writable: bool) -> str:
    span = arena.spans[one.array]
    numbers = (
        len(one.dims), one.swizzle_bytes, one.element_bytes, int(one.element == "tf32"), one.offset_bytes,
        *one.dims, *one.strides_bytes, *one.box,
    )  # fmt: skip
    return ",".join(map(str, (*numbers, "rw" if writable else "ro", span.offset, span.size, one.array)))


def _failure(status: int, stderr: str) -> str:
    """What the runner said in its own words, then the head of a sanitizer's report."""
    lines = stderr.strip().splitlines()
    said = [line.removeprefix("emulator: ") for line in lines if line.startswith("emulator: ")]
    if status == _REPORTED and said:
        return said[-1]
    ended = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return "\n".join([*(said or [ended]), *lines[:_REPORT_LINES]])
