"""The timing protocol for CPUs: warmed-up candidates in interleaved rounds, median and spread of undisturbed samples.

Every run reads and writes the same preallocated arrays, as a layer of a network finds its x just written, and a filter
that was packed before: networks pack it once, which can take longer than a run and as long in every config. A sample is
the time of as many runs as fill 3 ms, over their number; each round takes one sample of every candidate, so that what
else happens on the machine hits all of them alike, and there are as many rounds as fit the budget. The process's
threads are pinned and wait actively (`thread_environment`), so they have all their cores' time unless something else
runs there: a sample with less of it than others of its candidate is disturbed and doesn't count, and where too many
are, further rounds follow. Raise CPU_PROTOCOL_VERSION whenever a change here makes times incomparable.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from im2wingen.measure import timing_of
from im2wingen.outcome import Timing

CPU_PROTOCOL_VERSION = 2
SEARCH_S = 0.6  # for one candidate
_SAMPLE_US = 3_000.0
_MIN_ROUNDS, _MAX_ROUNDS = 5, 40
_PATIENCE = 3.0  # times the budget, for undisturbed samples
_UNDISTURBED = 0.97  # of the largest share of the cores' time that a sample of the candidate had
_PROBE_RUNS, _PROBE_US = 16, 100_000.0  # at most

Run = Callable[[], None]


def thread_environment(threads: int) -> dict[str, str]:
    """What tells OpenMP to use so many threads, each on a core of its own."""
    return {
        "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "OMP_DYNAMIC": "false",
        "OMP_WAIT_POLICY": "active",
    }  # fmt: skip


def one_run_us(run: Run) -> float:
    started = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - started) / 1e3


def probe_us(run: Run, *, enough_us: float) -> float:
    """A cheap upper estimate of one run's time: the best of several, of fewer once it's as good as `enough_us`."""
    times: list[float] = []
    while not times or (min(times) > enough_us and len(times) < _PROBE_RUNS and sum(times) < _PROBE_US):
        times.append(one_run_us(run))
    return min(times)


@dataclass(frozen=True, slots=True)
class _Sample:
    us: float  # of one run
    cores: float  # CPU time over time: how many the process had


def time_runs(runs: Sequence[Run], *, budget_s: float) -> list[Timing]:
    """The full protocol; one Timing each, in order. `budget_s` is for each candidate, five rounds come in any case."""
    warm_us = [min(one_run_us(run), one_run_us(run)) for run in runs]
    repeats = [math.ceil(_SAMPLE_US / max(us, 0.1)) for us in warm_us]
    samples: list[list[_Sample]] = [[] for _ in runs]
    started = time.perf_counter()
    while _wants_more(samples, (time.perf_counter() - started) / (budget_s * max(len(runs), 1))):
        for run, count, taken in zip(runs, repeats, samples, strict=True):
            taken.append(_sample(run, count))
    mhz = clock_mhz()
    return [timing_of([sample.us for sample in undisturbed(taken)], mhz) for taken in samples]


def _wants_more(samples: Sequence[list[_Sample]], budgets: float) -> bool:
    """Whether another round follows, after so many times the budget."""
    rounds = min((len(taken) for taken in samples), default=_MAX_ROUNDS)
    if rounds < _MIN_ROUNDS or (budgets < 1 and rounds < _MAX_ROUNDS):
        return True
    disturbed = any(len(_clean(taken)) < _MIN_ROUNDS for taken in samples)
    return disturbed and budgets < _PATIENCE and rounds < _PATIENCE * _MAX_ROUNDS


def undisturbed(taken: Sequence[_Sample]) -> list[_Sample]:
    """The samples that count; never fewer than five of those taken."""
    clean = _clean(taken)
    if len(clean) >= _MIN_ROUNDS:
        return clean
    return sorted(taken, key=lambda sample: -sample.cores)[:_MIN_ROUNDS]


def _clean(taken: Sequence[_Sample]) -> list[_Sample]:
    most = max(sample.cores for sample in taken)
    return [sample for sample in taken if sample.cores >= _UNDISTURBED * most]


def clock_mhz() -> int:
    """The highest clock among the cores now, as the kernel tells it; 0 where it doesn't."""
    scaled = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    found = [int(text) // 1000 for path in scaled if (text := path.read_text().strip()).isdigit()]
    if not found:
        cpuinfo = Path("/proc/cpuinfo")
        text = cpuinfo.read_text() if cpuinfo.exists() else ""
        found = [round(float(mhz)) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    return max(found, default=0)


def _sample(run: Run, count: int) -> _Sample:
    cpu, started = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(count):
        run()
    passed = time.perf_counter_ns() - started
    return _Sample(us=passed / 1e3 / count, cores=(time.process_time_ns() - cpu) / passed)
