"""Compiles sources in processes that may hang or crash without harm to anything but their own job."""

import logging
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from im2wingen.cache import CubinCache
from im2wingen.compile_process import Answer, CompileFunction, CompilerProcess
from im2wingen.compilers import compile_kernel
from im2wingen.errors import CacheError, Im2wingenError
from im2wingen.nvrtc import Cubin
from im2wingen.render import Source

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """One submit: its future, which stays cancellable until the request is settled, and the cubins so far."""

    future: Future[tuple[Cubin, ...]]
    cubins: list[Cubin | None]
    settled: bool = False

    def settle(self) -> bool:
        """True for the one caller that has to deliver; call it with the pool's lock held."""
        first, self.settled = not self.settled, True
        return first

    def deliver(self, error: Im2wingenError | None = None) -> None:
        """Wake who waits for the future; a cancelled one raises its CancelledError. Call it without the lock."""
        if not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(tuple(cubin for cubin in self.cubins if cubin is not None))
        else:
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class _Job:
    """One source to compile and the places, (request, index), that wait for it."""

    source: Source
    arch: str
    waiters: list[tuple[_Request, int]] = field(default_factory=list)


class CompilePool:
    """Up to `workers` compiler processes, started when there is work; each source has `timeout_s` seconds.

    A source that is already being compiled isn't compiled twice. Leaving the `with` block cancels what is not done.
    `compile_function` is a module's top-level function, which the processes import.
    """

    def __init__(
        self,
        workers: int,
        timeout_s: float,
        cache: CubinCache | None = None,
        *,
        compile_function: CompileFunction = compile_kernel,
    ) -> None:
        self.max_workers = workers
        self._timeout_s = timeout_s
        self._cache = cache
        self._function = pickle.dumps(compile_function)
        self._changed = threading.Condition()  # guards everything below
        self._queue: deque[_Job] = deque()
        self._jobs: dict[tuple[Source, str], _Job] = {}  # queued or running
        self._threads: list[threading.Thread] = []
        self._processes: set[CompilerProcess] = set()
        self._idle = 0
        self._paused = False
        self._closed = False

    def submit(self, sources: tuple[Source, ...], arch: str) -> Future[tuple[Cubin, ...]]:
        """The cubins of `sources` in their order.

        The future raises the first CompileError or CompileTimeoutError of a source, and Im2wingenError where compiling
        is impossible here. Cancelling it drops the sources that nobody else waits for.
        """
        request = _Request(Future(), [self._cached(source, arch) for source in sources])
        with self._changed:
            if self._closed:
                raise RuntimeError("the compile pool is closed")
            for index, source in enumerate(sources):
                if request.cubins[index] is None:
                    self._enqueue(source, arch, request, index)
            done = None not in request.cubins and request.settle()
        if done:
            request.deliver()
        request.future.add_done_callback(lambda _: self._drop(request))
        return request.future

    def close(self) -> None:
        """Cancel what is not done and end the processes, a hung one too."""
        with self._changed:
            self._closed = True
            open_requests = [request for job in self._jobs.values() for request, _ in job.waiters if request.settle()]
            self._queue.clear()
            self._jobs.clear()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
        for request in open_requests:
            request.future.cancel()
            request.deliver()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No compiler of the pool runs inside the block, so that what is measured there has the cores for itself.

        Time limits go on.
        """
        self._pause(True)
        try:
            yield
        finally:
            self._pause(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pause(self, wanted: bool) -> None:
        with self._changed:
            self._paused = wanted
            for process in self._processes:
                process.signal_group(signal.SIGSTOP if wanted else signal.SIGCONT)

    def _cached(self, source: Source, arch: str) -> Cubin | None:
        try:
            return self._cache.get(source, arch) if self._cache else None
        except CacheError as error:
            self._give_up_cache(error)
            return None

    def _store(self, source: Source, cubin: Cubin) -> None:
        try:
            if self._cache:
                self._cache.put(source, cubin)
        except CacheError as error:
            self._give_up_cache(error)

    def _give_up_cache(self, error: CacheError) -> None:
        log.warning("compiling without the kernel cache: %s", error)
        self._cache = None

    def _enqueue(self, source: Source, arch: str, request: _Request, index: int) -> None:
        job = self._jobs.get((source, arch))
        if job is None:
            job = self._jobs[source, arch] = _Job(source, arch)
            self._queue.append(job)
            if len(self._queue) > self._idle and len(self._threads) < self.max_workers:
                thread = threading.Thread(target=self._work, name="im2wingen-compile", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        job.waiters.append((request, index))

    def _work(self) -> None:
        """A thread's life: take a job, have this thread's process compile it, deliver."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the processes inherit it: Ctrl-C is the parent's
        process: CompilerProcess | None = None
        while job := self._next_job():
            answer: Answer = Im2wingenError(f"compiling {job.source.kernel} was given up")
            try:
                process = self._living(process)
                answer = process.compile(job.source, job.arch, self._timeout_s)
                if isinstance(answer, Cubin):
                    self._store(job.source, answer)
            except Im2wingenError as error:
                answer = error
            finally:
                self._finish(job, answer)
        self._retire(process)

    def _next_job(self) -> _Job | None:
        """The next job that somebody still wants; None when the pool is closed."""
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._queue or self._closed)
                self._idle -= 1
                if self._closed:
                    return None
                job = self._queue.popleft()
                if not all(request.settled for request, _ in job.waiters):
                    return job
                del self._jobs[job.source, job.arch]  # cancelled, or failed by another of the request's sources

    def _living(self, process: CompilerProcess | None) -> CompilerProcess:
        """The thread's process, replaced where it's missing or dead."""
        if process and process.alive:
            return process
        self._retire(process)
        fresh = CompilerProcess(self._function)
        with self._changed:
            self._processes.add(fresh)
            if self._closed:
                fresh.kill()
            elif self._paused:
                fresh.signal_group(signal.SIGSTOP)
        return fresh

    def _retire(self, process: CompilerProcess | None) -> None:
        if process:
            with self._changed:
                self._processes.discard(process)
            process.close()

    def _finish(self, job: _Job, answer: Answer) -> None:
        error = None if isinstance(answer, Cubin) else answer
        ready: list[_Request] = []
        with self._changed:
            self._jobs.pop((job.source, job.arch), None)  # close() empties it
            for request, index in job.waiters:
                if isinstance(answer, Cubin):
                    request.cubins[index] = answer
                if (error or None not in request.cubins) and request.settle():
                    ready.append(request)
        for request in ready:
            request.deliver(error)

    def _drop(self, request: _Request) -> None:
        """A future's done callback: settle a cancelled request, so that its queued jobs are skipped."""
        with self._changed:
            cancelled = request.settle()
        if cancelled:
            request.deliver()
