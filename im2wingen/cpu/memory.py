"""Host memory for kernels: aligned arrays, and arrays between forbidden pages and guard bytes."""

import ctypes
import mmap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORKSPACE_ALIGNMENT = 256  # bytes; what a kernel may count on for a workspace
_FORBIDDEN_BYTES = 1 << 20  # on both sides of a guarded array; never becomes memory
_GUARD = 0xA5  # a finite number in every element type
_PROT_NONE, _READ, _WRITE = 0, mmap.PROT_READ, mmap.PROT_WRITE


def aligned_bytes(size_bytes: int, alignment: int = WORKSPACE_ALIGNMENT) -> NDArray[np.uint8]:
    """Uninitialised bytes at a multiple of `alignment`."""
    memory = np.empty(size_bytes + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size_bytes]


def available_bytes() -> int:
    """Memory that can still be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return 1 << 62


class GuardedArray:
    """`size_bytes` that end as near to the end of a page as `alignment` lets them, with forbidden pages around.

    What reads or writes further out than the alignment is a SIGSEGV; a write below that is found by `damage`.
    """

    def __init__(self, name: str, size_bytes: int, *, alignment: int) -> None:
        self.name, self.size_bytes = name, size_bytes
        self._alignment = alignment
        pages = -(-(size_bytes + alignment) // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, pages + 2 * _FORBIDDEN_BYTES, flags=flags)
        everything = np.frombuffer(self._memory, np.uint8)
        self._inside = everything[_FORBIDDEN_BYTES : _FORBIDDEN_BYTES + pages]
        base = everything.ctypes.data
        _protect(base, _FORBIDDEN_BYTES, _PROT_NONE)
        _protect(base + _FORBIDDEN_BYTES + pages, _FORBIDDEN_BYTES, _PROT_NONE)
        self.place(0)

    def place(self, steps: int) -> None:
        """Move the array so many alignments (0 or 1) away from the end, its content lost and its guards anew."""
        self._start = (self._inside.size - self.size_bytes) // self._alignment * self._alignment
        self._start -= steps * self._alignment
        self.bytes: NDArray[np.uint8] = self._inside[self._start : self._start + self.size_bytes]
        self.pointer = self._inside.ctypes.data + self._start
        self.reset_guards()

    def view(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """The inside as an array."""
        return self.bytes.view(dtype).reshape(shape)

    def set_writable(self, writable: bool) -> None:
        """A kernel's write into an array that is not writable is a SIGSEGV."""
        _protect(self._inside.ctypes.data, self._inside.size, _READ | _WRITE if writable else _READ)

    def reset_guards(self) -> None:
        self._inside[: self._start] = _GUARD
        self._inside[self._start + self.size_bytes :] = _GUARD

    def damage(self) -> str | None:
        """A sentence if a guard byte was changed since the last reset, else None."""
        before = np.flatnonzero(self._inside[: self._start] != _GUARD)
        after = np.flatnonzero(self._inside[self._start + self.size_bytes :] != _GUARD)
        if before.size:
            distance = f"{self._start - int(before[-1])} bytes before"
        elif after.size:
            distance = f"{int(after[0]) + 1} bytes after"
        else:
            return None
        return f"a kernel wrote outside {self.name}: {distance} its {self.size_bytes} bytes"


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


def _protect(address: int, size: int, protection: int) -> None:
    if _libc().mprotect(address, size, protection):
        raise OSError(ctypes.get_errno(), "mprotect failed")
