import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from im2wingen.bench.cpu.conditions import bench_environment, on_all_cores
from im2wingen.bench.cpu.timer import CpuTimer


@pytest.mark.parametrize(
    ("first_us", "warm_us", "warm_runs", "launches"),
    [
        (900.0, 500.0, 3, 6),  # three milliseconds
        (900.0, 0.01, 3, 30_000),  # nothing takes less than a tenth of a microsecond
        (90_000.0, 80_000.0, 3, 1),  # one is enough
        (2e6, 0.0, 0, 1),  # so slow that the first launch tells
    ],
)
def test_a_sample_fills_some_milliseconds(
    first_us: float, warm_us: float, warm_runs: int, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def one_run_us(launch: Callable[[], None]) -> float:
        runs.append("warm")
        return warm_us

    monkeypatch.setattr("im2wingen.bench.cpu.timer.one_run_us", one_run_us)
    monkeypatch.setattr("im2wingen.bench.cpu.timer._preemptions", lambda: 0)
    timer = CpuTimer(lambda: runs.append("timed"), first_us=first_us)
    assert runs == ["warm"] * warm_runs
    assert timer.sample_us() == timer.replay_us / launches
    assert runs == ["warm"] * warm_runs + ["timed"] * launches


def test_what_the_system_takes_away_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.bench.cpu.timer.one_run_us", lambda launch: 3_000.0)
    timer = CpuTimer(lambda: None, first_us=0.0)
    counts = iter([7, 7, 8, 11])
    monkeypatch.setattr("im2wingen.bench.cpu.timer._preemptions", lambda: next(counts))
    for expected in (0, 3):
        timer.sample_us()
        assert timer.disturbed == expected


def test_threads_are_pinned_and_idle_ones_sleep() -> None:
    environment = bench_environment(2)
    assert (environment["OMP_PROC_BIND"], environment["OMP_NUM_THREADS"]) == ("close", "2")
    assert environment["OPENBLAS_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "2"
    assert "OMP_WAIT_POLICY" not in environment
    assert int(environment["GOMP_SPINCOUNT"]) > 0


def test_the_callers_place_is_kept() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with on_all_cores(before):
            assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)


# In a process of its own: threads and allocator are never again what they were.
_PINNED = """
import os, threading, time
from im2wingen.bench.cpu.conditions import keep_freed_memory, pin_other_threads
tasks = []
for _ in range(2):
    threading.Thread(target=lambda: (tasks.append(threading.get_native_id()), time.sleep(60)), daemon=True).start()
while len(tasks) < 2: time.sleep(0.01)
cores = sorted(os.sched_getaffinity(0))
assert pin_other_threads() >= 2
places = [os.sched_getaffinity(task) for task in tasks]
assert all(len(place) == 1 for place in places), places
assert len(cores) < 3 or places[0] != places[1], places
assert os.sched_getaffinity(0) == set(cores)
keep_freed_memory()
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p; libc.free.argtypes = [ctypes.c_void_p]
first = libc.malloc(100 << 20); libc.free(first)
assert libc.malloc(100 << 20) == first
"""


def test_other_threads_get_a_core_each_and_freed_memory_comes_back() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    program = f"import sys; sys.path[:] = {sys.path!r}\n{_PINNED}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
