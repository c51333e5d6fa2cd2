"""The conditions that all contestants of a process find alike: pinned threads, memory that stays.

`thread_environment` of the tuner lets idle threads spin without end. Here the next contestant may have threads of its
own (OpenBLAS), so idle ones spin for milliseconds, which spans the gap between two launches, and sleep.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from im2wingen.cpu.measure import thread_environment

_SPINS = 300_000  # of GNU OpenMP, which has it as its default
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # mallopt's names for them
_CPUS = Path("/sys/devices/system/cpu")


def bench_environment(threads: int) -> dict[str, str]:
    """For the process that measures: as many threads for everybody, OpenMP's each on a core of its own.

    PyTorch gets huge pages for its outputs, as NumPy asks for them by itself.
    """
    pinned = {name: value for name, value in thread_environment(threads).items() if name != "OMP_WAIT_POLICY"}
    return {
        **pinned, "GOMP_SPINCOUNT": str(_SPINS), "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
        "THP_MEM_ALLOC_ENABLE": "1",
    }  # fmt: skip


def keep_freed_memory() -> None:
    """glibc's allocator gives nothing back from now on, so outputs that a peer allocates are pages it had before."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def pin_other_threads() -> int:
    """Put each thread of this process but the caller on a core of its own, from the second; how many there are.

    To be called when NumPy has started OpenBLAS's threads and there are no others.
    """
    cores = _one_cpu_a_core()
    tasks = sorted(int(task.name) for task in Path("/proc/self/task").iterdir())
    others = [task for task in tasks if task != threading.get_native_id()]
    for i, task in enumerate(others):
        os.sched_setaffinity(task, {cores[(i + 1) % len(cores)]})
    return len(others)


@contextmanager
def on_all_cores(cores: set[int]) -> Iterator[None]:
    """The caller may run on all these cores inside the block, wherever OpenMP has pinned it."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, pinned)


def _one_cpu_a_core() -> list[int]:
    """The first of each core's hardware threads."""
    first: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        first.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    return list(first.values())
