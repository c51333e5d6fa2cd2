"""One compiler process: a fresh interpreter that compiles what it is sent and may be killed at any time."""

import logging
import pickle
import signal
import subprocess
from collections.abc import Callable
from multiprocessing.connection import Connection

from im2wingen.child_process import kill_group, signal_group, start_child
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError, UsageError
from im2wingen.nvrtc import Cubin
from im2wingen.render import Source

CompileFunction = Callable[[Source, str], Cubin]
Answer = Cubin | Im2wingenError

_START_LIMIT_S = 120.0
_ENDING_LIMIT_S = 5.0
_ORPHAN_GRACE_S = 10.0


class CompilerProcess:
    """The parent's end.

    `function` is the pickled CompileFunction. The process inherits the signal mask of the thread that makes it.
    """

    def __init__(self, function: bytes) -> None:
        self._process, self._connection = start_child("im2wingen.compile_process", "a compiler process")
        self._function = function
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def compile(self, source: Source, arch: str, limit_s: float) -> Answer:
        """The cubin or what went wrong; after a time-out or a crash the process is dead."""
        if not self._ready and not self._await_ready():
            return Im2wingenError(f"a compiler process could not be started: it {self._ending()}")
        try:
            self._connection.send((source, arch, limit_s))
            if self._connection.poll(limit_s):
                answer: Answer = self._connection.recv()
                return answer
        except (EOFError, OSError):
            return CompileError(source.kernel, f"the compiler process {self._ending()} while it compiled for {arch}")
        self.kill()
        return CompileTimeoutError(f"{source.kernel} took longer than {limit_s:g} s to compile for {arch}")

    def kill(self) -> None:
        """End the process and those that it started now; a compile in another thread returns as from a crash."""
        kill_group(self._process)
        self._process.wait()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and those that it started, where there are any left."""
        signal_group(self._process, number)

    def close(self) -> None:
        """Kill the process and free its connection; no compile may be running."""
        self.kill()
        self._connection.close()

    def _await_ready(self) -> bool:
        """Hand over the function and wait until it's imported; False if the process died or hangs instead."""
        try:
            self._connection.send_bytes(self._function)
            self._ready = self._connection.poll(_START_LIMIT_S) and self._connection.recv() == "ready"
        except (EOFError, OSError):
            return False
        return self._ready

    def _ending(self) -> str:
        """How the process that went silent ended; one that is still there is killed."""
        try:
            code = self._process.wait(_ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "hung"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def serve(handle: int) -> None:
    """The process's end: answer requests until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    logging.disable(logging.WARNING)  # the parent has its own word on a foreign CUDA toolkit
    with Connection(handle) as connection:
        try:
            function: CompileFunction = pickle.loads(connection.recv_bytes())
            connection.send("ready")
            while True:
                source, arch, limit_s = connection.recv()
                # If the parent died meanwhile, nobody kills a hung compilation: the alarm's default action does.
                signal.setitimer(signal.ITIMER_REAL, limit_s + _ORPHAN_GRACE_S)
                connection.send(_answer(function, source, arch))
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (EOFError, ConnectionError):
            return


def _answer(function: CompileFunction, source: Source, arch: str) -> Answer:
    try:
        return function(source, arch)
    except (CompileError, UsageError) as error:
        return error
    except Im2wingenError as error:  # the others may not survive pickling
        return Im2wingenError(str(error))
