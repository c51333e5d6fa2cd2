"""Aligned and guarded host memory; what a forbidden page does is seen in test_cpu_evaluator."""

import ctypes

import numpy as np
import pytest

from im2wingen.cpu.memory import GuardedArray, aligned_bytes, available_bytes


@pytest.mark.parametrize("size", [1, 255, 4096, 1 << 20])
def test_aligned_bytes(size: int) -> None:
    found = aligned_bytes(size)
    assert (found.size, found.ctypes.data % 256) == (size, 0)


def test_memory_is_there() -> None:
    assert 1 << 20 < available_bytes() < 1 << 62


@pytest.mark.parametrize("size", [4, 100, 4096, 4 * 4096])  # 4096: no room before it in its own page
@pytest.mark.parametrize("alignment", [4, 256])
@pytest.mark.parametrize("steps", [0, 1])
def test_every_byte_outside_is_watched(size: int, alignment: int, steps: int) -> None:
    array = GuardedArray("y", size, alignment=alignment)
    array.place(steps)
    assert array.pointer % alignment == 0
    assert array.view(np.dtype(np.uint8), (size,)).ctypes.data == array.pointer
    array.bytes[...] = 0xFF
    assert array.damage() is None
    page_end = -(-(array.pointer + size) // 4096) * 4096
    behind = page_end - array.pointer - size
    assert behind < alignment * (1 + steps)
    for offset, words in ((-1, "1 bytes before"), (size, "1 bytes after")):
        if offset < 0 or offset < size + behind:
            ctypes.c_ubyte.from_address(array.pointer + offset).value = 0
            assert array.damage() == f"a kernel wrote outside y: {words} its {size} bytes"
            array.reset_guards()
            assert array.damage() is None


def test_read_only_and_back() -> None:
    array = GuardedArray("x", 64, alignment=4)
    array.set_writable(False)
    assert array.bytes[0] == array.bytes[0]
    array.set_writable(True)
    array.bytes[...] = 1
    assert array.bytes.sum() == 64
