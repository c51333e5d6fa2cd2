"""Device memory with guard bytes on both sides."""

import numpy as np

from im2wingen.device import Device

_GUARD_BYTES = 4096  # a multiple of every alignment that a kernel may count on
NAN_BYTE = 0xFF  # every floating-point type reads it as NaN, integers as -1
HUGE_BYTE = 0x7B  # fp16 reads 61280, bf16 and fp32 1.3e36, int32 2.1e9, e4m3 352, e5m2 57344
OUTPUT_GUARD = 0xA5  # a finite number in every element type: NaN written over it is seen


class GuardedBuffer:
    """`size_bytes` at `pointer`; the byte after the last one is a guard already.

    Inputs take NaN_BYTE as their guard, so that what reads past the end spoils its result; outputs take OUTPUT_GUARD.
    """

    def __init__(self, device: Device, name: str, size_bytes: int, guard: int) -> None:
        self.name, self.size_bytes = name, size_bytes
        self._device, self._guard = device, guard
        self._base = device.alloc(size_bytes + 2 * _GUARD_BYTES)
        self.pointer = self._base + _GUARD_BYTES
        self.reset_guards()

    def fill(self, byte: int) -> None:
        """Fill the inside, in stream order."""
        self._device.memset(self.pointer, byte, self.size_bytes)

    def reset_guards(self) -> None:
        self._device.memset(self._base, self._guard, _GUARD_BYTES)
        self._device.memset(self.pointer + self.size_bytes, self._guard, _GUARD_BYTES)

    def damage(self) -> str | None:
        """A sentence if a guard byte was changed since the last reset, else None; waits for the stream."""
        found = np.empty(_GUARD_BYTES, np.uint8)
        for side, pointer in (("before", self._base), ("after", self.pointer + self.size_bytes)):
            self._device.copy_to_host(found, pointer)
            changed = np.flatnonzero(found != self._guard)
            if len(changed):
                distance = _GUARD_BYTES - int(changed[-1]) if side == "before" else int(changed[0]) + 1
                return f"a kernel wrote outside {self.name}: {distance} bytes {side} its {self.size_bytes} bytes"
        return None

    def free(self) -> None:
        self._device.free(self._base)
