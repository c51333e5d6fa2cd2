"""This machine's CPU as a target of so many threads."""

import os
from dataclasses import replace
from functools import cache

from im2wingen.cpu_target import CpuTarget, cpu_target
from im2wingen.errors import UsageError


@cache
def usable_cores() -> int:
    """Threads that this process may run at once; asked once, since OpenMP may pin the calling thread later."""
    return len(os.sched_getaffinity(0))


def cpu_with(threads: int | None = None) -> CpuTarget:
    """This machine's CPU with so many threads, one a core if None; UsageError for more than run at once."""
    target, most = cpu_target(), usable_cores()
    if threads is not None and not 1 <= threads <= most:
        raise UsageError(f"threads is {threads}; allowed are 1 to {most}, what this process may run at once")
    return replace(target, cores=threads or min(target.cores, most))
