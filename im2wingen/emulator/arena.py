"""Memory that this process and the emulator's runner share: arrays, each between guards."""

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 16  # bytes; the least that a kernel may count on (an array of a framework may be a view)
_FORBIDDEN_BYTES = 1 << 20  # around each array; the runner leaves them inaccessible, so they never become memory
_GUARD = 0xA7


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where an array lies in the memory file, in bytes; its first and last page hold guard bytes beside it."""

    offset: int
    size: int

    @property
    def page_begin(self) -> int:
        return self.offset // mmap.PAGESIZE * mmap.PAGESIZE

    @property
    def page_end(self) -> int:
        return -(-(self.offset + self.size) // mmap.PAGESIZE) * mmap.PAGESIZE


class Arena:
    """Named arrays of the given sizes in bytes, filled with 0xFF (NaN in every float format).

    Each ends as near to the end of a page as its alignment lets it, and forbidden pages follow: what runs past it by
    more than 15 bytes faults, what stays below that is found by `damage`.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.spans: dict[str, Span] = {}
        position = _FORBIDDEN_BYTES
        for name, size in sizes.items():
            end = -(-(position + size) // mmap.PAGESIZE) * mmap.PAGESIZE
            self.spans[name] = Span(offset=(end - size) // ALIGNMENT * ALIGNMENT, size=size)
            position = end + _FORBIDDEN_BYTES
        self.size = position
        self.file = os.memfd_create("im2wingen-emulator")
        os.ftruncate(self.file, self.size)
        self._memory = mmap.mmap(self.file, self.size)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        for span in self.spans.values():
            self._bytes[span.page_begin : span.page_end] = _GUARD
            self._bytes[span.offset : span.offset + span.size] = 0xFF

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._bytes
        os.close(self.file)

    def read(self, name: str) -> NDArray[np.uint8]:
        """The bytes of an array, as a view."""
        span = self.spans[name]
        return self._bytes[span.offset : span.offset + span.size]

    def damage(self) -> str | None:
        """A sentence on the first guard byte that was overwritten, or None."""
        for name, span in self.spans.items():
            before = self._bytes[span.page_begin : span.offset] != _GUARD
            after = self._bytes[span.offset + span.size : span.page_end] != _GUARD
            if before.any():
                return f"{before.size - int(np.flatnonzero(before)[-1])} bytes before the start of {name} were written"
            if after.any():
                return f"{int(np.flatnonzero(after)[0])} bytes past the end of {name} were written"
        return None
