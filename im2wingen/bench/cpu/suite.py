"""What the measuring process does: every layer, every contestant, interleaved."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from im2wingen.bench.cpu import direct, im2col, onednn, ours
from im2wingen.bench.cpu.accuracy import CpuReference
from im2wingen.bench.cpu.conditions import keep_freed_memory, on_all_cores, pin_other_threads
from im2wingen.bench.cpu.contestant import Arrays, CpuContestant, CpuSession
from im2wingen.bench.cpu.environment import cpu_versions
from im2wingen.bench.cpu.peak import PeakKernel
from im2wingen.bench.cpu.result import BACKEND, CPU_PROTOCOL, ONEDNN, CpuBenchOptions, CpuBenchResult, CpuLayerResult
from im2wingen.bench.cpu.timer import CpuTimer
from im2wingen.bench.in_time import layers_in_time
from im2wingen.bench.optional import sentence_of
from im2wingen.bench.result import OURS, measurement_of
from im2wingen.bench.timing import time_interleaved
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu.measure import clock_mhz, one_run_us
from im2wingen.cpu_target import CpuTarget
from im2wingen.errors import Im2wingenError
from im2wingen.outcome import ErrorStats
from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

_PREPARE: dict[str, Callable[[CpuSession], list[CpuContestant]]] = {
    ONEDNN: onednn.contestants,
    "im2col": im2col.contestants,
    "direct": direct.contestants,
}
_PEAK = "multiply-add peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBenchRequest:
    """What is to be measured, as it goes to the process that does."""

    problems: Mapping[str, ConvProblem]
    options: CpuBenchOptions
    time_limit_s: float
    db: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A contestant that gave the right answer."""

    contestant: CpuContestant
    timer: CpuTimer
    error: ErrorStats


def measured(request: CpuBenchRequest) -> Iterator[CpuBenchResult]:
    """The result so far, after each layer, and where there was time for none the empty one.

    To be called in a process with `bench_environment`, before OpenMP runs.
    Allocator and threads of the process are never again what they were.
    """
    started = time.monotonic()
    options = request.options
    pin_other_threads()
    keep_freed_memory()
    cores, target = os.sched_getaffinity(0), cpu_with(options.threads)
    result = CpuBenchResult(
        backend=BACKEND, protocol=CPU_PROTOCOL, date=datetime.now(UTC).isoformat(timespec="seconds"),
        device=target.name, arch=target.arch, versions=cpu_versions(onednn=ONEDNN in options.against), options=options,
        elapsed_s=0.0, complete=False, layers=(),
    )  # fmt: skip
    bench = _Bench(target, cores, options, request.db)
    timed = layers_in_time(request.problems, bench.layer, started=started, time_limit_s=request.time_limit_s)
    for layer, elapsed_s in timed:
        layers = (*result.layers, layer)
        result = replace(result, layers=layers, elapsed_s=elapsed_s, complete=len(layers) == len(request.problems))
        yield result
    if not result.layers:
        yield result


class _Bench:
    """What the layers of one run share."""

    def __init__(self, target: CpuTarget, cores: set[int], options: CpuBenchOptions, db: str | None) -> None:
        self._target, self._cores, self._options, self._db = target, cores, options, db
        self._peak = PeakKernel(target)
        self._peak.launch()  # OpenMP pins the caller at its first parallel region

    def layer(self, name: str, problem: ConvProblem) -> CpuLayerResult:
        """Prepare, verify and time all contestants of one layer, and the peak among them."""
        arrays = Arrays.of(problem)
        session = CpuSession(
            problem=problem, arrays=arrays, target=self._target, prepacked=self._options.prepacked, db=self._db
        )
        skipped: dict[str, str] = {}
        reference = CpuReference.of(problem, arrays)
        entries: dict[str, _Entry] = {}
        for contestant in self._contestants(session, skipped):
            with _skipping(contestant.name, skipped):
                entries[contestant.name] = _try_out(arrays, reference, contestant)
        timers = {_PEAK: CpuTimer(self._peak.launch, first_us=0.0, clock=self._peak.clock.restarted())}
        timers |= {key: entry.timer for key, entry in entries.items()}
        timings = time_interleaved(timers, rounds=self._options.rounds, clock_mhz=clock_mhz)
        ours = next((entry.contestant for entry in entries.values() if entry.contestant.peer == OURS), None)
        measurements = tuple(
            measurement_of(
                problem, timings[key], entry.error, contestant=key, peer=entry.contestant.peer,
                detail=entry.contestant.detail, workspace_bytes=entry.contestant.workspace_bytes, peak_bytes=None,
                tflops_digits=5,
            )
            for key, entry in entries.items()
        )  # fmt: skip
        return CpuLayerResult(
            layer=name, problem_key=problem.key, flops=problem.flops, compulsory_bytes=problem.compulsory_bytes,
            peak_gflops=round(self._peak.flops / timings[_PEAK].median_us * 1e-3, 2),
            peak_mhz=self._peak.clock.mhz, busy_mhz=ours.clock.mhz if ours and ours.clock else 0,
            window_bytes=None if ours is None else ours.window_bytes, im2win_bytes=problem.im2win_bytes,
            im2col_bytes=problem.im2col_bytes, measurements=measurements, skipped=skipped,
        )  # fmt: skip

    def _contestants(self, session: CpuSession, skipped: dict[str, str]) -> list[CpuContestant]:
        """Ours and those of the peers asked for; in the order in which a first round runs them."""
        found: list[CpuContestant] = []
        with _skipping(OURS, skipped), on_all_cores(self._cores):
            found.append(ours.contestant(session))
        for peer, prepare in _PREPARE.items():
            if peer in self._options.against:
                with _skipping(peer, skipped):
                    found += prepare(session)
        return found


@contextmanager
def _skipping(name: str, skipped: dict[str, str]) -> Iterator[None]:
    """What a contestant can't do becomes a sentence."""
    try:
        yield
    except (Im2wingenError, RuntimeError, MemoryError) as error:
        log.info("%s is left out: %s", name, error)
        skipped[name] = sentence_of(error)


def _try_out(arrays: Arrays, reference: CpuReference, contestant: CpuContestant) -> _Entry:
    """Run it once on a y that tells what isn't written."""
    arrays.spoil()
    first_us = one_run_us(contestant.launch)
    error = reference.check(contestant.output())
    timer = CpuTimer(contestant.launch, first_us=first_us, clock=contestant.clock)
    return _Entry(contestant=contestant, timer=timer, error=error)
