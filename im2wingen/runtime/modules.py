"""Kernels loaded on a device, kept in an LRU that threads share."""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, weakref_slot=True, eq=False)
class LoadedKernels:
    """A loaded plan in two halves: `pack` depends on the filter alone (None if nothing does), `main` is the rest."""

    pack: Any  # a LoadedPlan or LoadedCpuPlan: what the device's `load` gave
    main: Any


@dataclass(slots=True, eq=False)
class _Entry:
    """A place in the LRU; its lock is held while the kernels are being loaded."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    kernels: LoadedKernels | None = None


class ModuleCache:
    """The `capacity` loaded kernels that were asked for last; one loading of a key at a time, others side by side.

    What leaves the LRU lives on as long as a convolution holds it. It is given to `unload` at the next loading, never
    from a garbage collection, which could fall into the capture of a CUDA graph.
    """

    def __init__(self, capacity: int, unload: Callable[[Any], None]) -> None:
        self._capacity = capacity
        self._unload = unload
        self._lock = threading.Lock()  # guards _entries
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._retired: deque[Any] = deque()

    def get(self, key: Hashable, load: Callable[[], LoadedKernels]) -> LoadedKernels:
        """The kernels under `key`, loaded by `load` where they are not there; its error is the caller's alone."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.kernels is None:
                self._unload_retired()
                entry.kernels = load()
                weakref.finalize(entry.kernels, self._retire, entry.kernels.pack, entry.kernels.main).atexit = False
            return entry.kernels

    def __len__(self) -> int:
        return len(self._entries)

    def _retire(self, *plans: Any) -> None:
        self._retired.extend(plan for plan in plans if plan is not None)

    def _unload_retired(self) -> None:
        while self._retired:
            try:
                plan = self._retired.popleft()
            except IndexError:  # another thread took the last one
                return
            self._unload(plan)
