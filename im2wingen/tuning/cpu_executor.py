"""This machine's CPU as a tuning run's device."""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from im2wingen.cache import CubinCache
from im2wingen.compile_pool import CompilePool
from im2wingen.cpu.devices import cpu_with, usable_cores
from im2wingen.cpu.measure import CPU_PROTOCOL_VERSION
from im2wingen.cpu.worker import cpu_worker
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.cpu_target import CpuTarget
from im2wingen.errors import Im2wingenError
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.settings import read_settings
from im2wingen.tuning.attempt import Compiled
from im2wingen.tuning.executors import DeviceFacts

T = TypeVar("T")

COMPILE_TIMEOUT_S = 60.0  # the pauses for measurements count


def cpu_facts(threads: int | None = None) -> DeviceFacts:
    """The facts of this machine's CPU with so many threads (None: one a core).

    UsageError for more threads than cores, Im2wingenError where there is no C++ compiler.
    """
    return DeviceFacts(
        target=cpu_with(threads), driver_version=cpu_compiler_version(), protocol_version=CPU_PROTOCOL_VERSION
    )


def cpu_compiler_pool() -> CompilePool:
    """A pool with the user's kernel cache, as wide as the machine: it pauses while something is measured."""
    return CompilePool(usable_cores(), COMPILE_TIMEOUT_S, CubinCache(read_settings().cache_dir))


class CpuExecutor:
    """Evaluates in the caller's thread, in a worker process with pinned threads, while the pool's compilers pause.

    So nothing of a tuning run but the candidate itself runs while it's measured. The pool is the caller's.
    """

    device_slots = 1

    def __init__(self, problem: ConvProblem, facts: DeviceFacts, pool: CompilePool) -> None:
        assert isinstance(facts.target, CpuTarget)
        self.facts = facts
        self.compile_slots = pool.max_workers
        self._pool = pool
        self._worker = cpu_worker(problem, facts.target)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="im2wingen-cpu")

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]:
        return self._pool.submit(sources, self.facts.target.arch)

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        return self._alone(lambda: self._worker.evaluate(candidate, best_us))

    def play_off(self, finalists: Sequence[Compiled], seconds: float) -> Future[list[Evaluation | None]]:
        candidates = [finalist.candidate for finalist in finalists]
        return self._alone(lambda: [_evaluation(timing) for timing in self._worker.playoff(candidates, seconds)])

    def _alone(self, work: Callable[[], T]) -> Future[T]:
        """Run it now, without compilers beside it."""
        future: Future[T] = Future()
        try:
            self._started.result()
            with self._pool.paused():
                future.set_result(work())
        except Im2wingenError as error:
            future.set_exception(error)
        return future

    def _start(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the process inherits it: Ctrl-C is the parent's
        self._worker.__enter__()

    def __enter__(self) -> Self:
        self._started = self._thread.submit(self._start)  # test data and reference, while the first configs compile
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown()
        self._worker.close()


def _evaluation(timing: Timing | None) -> Evaluation | None:
    return None if timing is None else Evaluation(outcome=Outcome.OK, timing=timing)
