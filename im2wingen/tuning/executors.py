"""Who compiles and measures for a tuning run: the seam where a cluster takes the place of this host."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from im2wingen.cache import CubinCache
from im2wingen.compile_pool import CompilePool
from im2wingen.device import open_device
from im2wingen.errors import UsageError
from im2wingen.families.base import AnyTarget
from im2wingen.measure import PROTOCOL_VERSION
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.settings import read_settings
from im2wingen.tuning.attempt import Compiled
from im2wingen.worker import DeviceWorker

T = TypeVar("T")

COMPILE_TIMEOUT_S = 20.0
_RUN_TIMEOUT_S = 10.0  # a hang must not eat the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the trials of an executor have in common: alike devices, one driver, one measuring protocol."""

    target: AnyTarget
    driver_version: str  # for the CPU: of its compiler
    protocol_version: int


class Executor(Protocol):
    """Compiles and evaluates for one problem; a context manager. Futures may be waited for in any order.

    A future raises CompileError or CompileTimeoutError where the sources are at fault, and any other Im2wingenError
    where we are; what a kernel does wrong on a device is an Evaluation. Cancelling a future is always allowed.
    """

    @property
    def facts(self) -> DeviceFacts: ...

    @property
    def compile_slots(self) -> int:
        """Configs that compile side by side."""
        ...

    @property
    def device_slots(self) -> int:
        """Candidates that run side by side."""
        ...

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]: ...

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        """Verify and measure; `best_us` is the time to beat, None for a full measurement in any case."""
        ...

    def play_off(self, finalists: Sequence[Compiled], seconds: float) -> Future[list[Evaluation | None]]:
        """Measure all against each other on one device, in about `seconds`; None for one that could not be."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def device_facts(ordinals: Sequence[int]) -> DeviceFacts:
    """The facts of this host's devices; UsageError unless they are alike, NoDeviceError if one is missing."""
    found = []
    for ordinal in ordinals:
        device = open_device(ordinal)
        try:
            found.append((device.target, device.driver_version))
        finally:
            device.close()
    if not found:
        raise UsageError("devices is empty; allowed is one ordinal or more")
    names = {target.name for target, _ in found}
    if len(names) > 1:
        raise UsageError(f"devices are {', '.join(sorted(names))}; allowed in one tuning run are devices of one name")
    target, driver_version = found[0]
    return DeviceFacts(target=target, driver_version=driver_version, protocol_version=PROTOCOL_VERSION)


def compiler_pool(workers: int | None = None) -> CompilePool:
    """A pool with the user's kernel cache; its processes leave this one and the device workers a core."""
    workers = workers or max(1, len(os.sched_getaffinity(0)) - 1)
    return CompilePool(workers, COMPILE_TIMEOUT_S, CubinCache(read_settings().cache_dir))


class LocalExecutor:
    """This host: a pool of compiler processes and one DeviceWorker for each device, all of them working at once.

    The pool is the caller's, open before and after.
    """

    def __init__(
        self,
        problem: ConvProblem,
        facts: DeviceFacts,
        pool: CompilePool,
        *,
        ordinals: Sequence[int] = (0,),
    ) -> None:
        self.facts = facts
        self.compile_slots = pool.max_workers
        self._pool = pool
        self._lanes = [_Lane(DeviceWorker(problem, ordinal, run_timeout_s=_RUN_TIMEOUT_S)) for ordinal in ordinals]
        self._stack = ExitStack()

    @property
    def device_slots(self) -> int:
        return len(self._lanes)

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]:
        return self._pool.submit(sources, self.facts.target.arch)

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        lane = next((lane for lane in self._lanes if lane.idle), self._lanes[0])
        return lane.submit(lambda worker: worker.evaluate(candidate, best_us))

    def play_off(self, finalists: Sequence[Compiled], seconds: float) -> Future[list[Evaluation | None]]:
        candidates = [finalist.candidate for finalist in finalists]
        return self._lanes[0].submit(
            lambda worker: [_evaluation(timing) for timing in worker.playoff(candidates, seconds)]
        )

    def __enter__(self) -> Self:
        for lane in self._lanes:
            self._stack.enter_context(lane)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()


class _Lane:
    """A device worker and the one thread that talks to it; the worker starts there while the pool compiles."""

    def __init__(self, worker: DeviceWorker) -> None:
        self._worker = worker
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="im2wingen-device")
        self._stack = ExitStack()
        self._last: Future[Any] | None = None

    @property
    def idle(self) -> bool:
        return self._last is None or self._last.done()

    def submit(self, task: Callable[[DeviceWorker], T]) -> Future[T]:
        """Run `task` in the thread; its future also raises what kept the worker from starting."""

        def run() -> T:
            self._started.result()
            return task(self._worker)

        future = self._last = self._thread.submit(run)
        return future

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the process inherits it: Ctrl-C is the parent's
        self._stack.enter_context(self._worker)

    def __enter__(self) -> Self:
        self._started = self._thread.submit(self._start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._stack.close()


def _evaluation(timing: Timing | None) -> Evaluation | None:
    return None if timing is None else Evaluation(outcome=Outcome.OK, timing=timing)
