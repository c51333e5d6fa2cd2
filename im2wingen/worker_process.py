"""One device process: a fresh interpreter that evaluates what it is sent and may be killed at any time."""

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from im2wingen.child_process import kill_group, start_child
from im2wingen.errors import Im2wingenError, NoDeviceError
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

_ENDING_LIMIT_S = 30.0  # a process whose kernel hangs needs a while to die
_ORPHAN_GRACE_S = 30.0
_OUTCOMES = {signal.SIGSEGV: Outcome.ILLEGAL_ACCESS, signal.SIGBUS: Outcome.ILLEGAL_ACCESS}  # else LAUNCH_ERROR


class Evaluator(Protocol):
    """The process's part. `usable` false after a call asks for a fresh process."""

    usable: bool

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation: ...
    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]: ...
    def close(self) -> None: ...


EvaluatorFactory = Callable[[ConvProblem, int, int], Evaluator]  # problem, device ordinal, seed


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateRequest:
    candidate: Candidate
    best_us: float | None

    def run(self, evaluator: Evaluator) -> Evaluation:
        return evaluator.evaluate(self.candidate, self.best_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoffRequest:
    candidates: tuple[Candidate, ...]
    seconds: float

    def run(self, evaluator: Evaluator) -> list[Timing | None]:
        return evaluator.playoff(self.candidates, self.seconds)


Request = EvaluateRequest | PlayoffRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request gave, or how long the set-up took."""

    value: Evaluation | list[Timing | None] | float
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """An Im2wingenError in the process that no candidate is to blame for; the process ends with it."""

    sentence: str
    kind: type[Im2wingenError]


class LostProcessError(Exception):
    """The process is gone by the candidate's doing; `outcome` and the text say how."""

    def __init__(self, outcome: Outcome, sentence: str) -> None:
        self.outcome = outcome
        super().__init__(sentence)


class WorkerProcess:
    """The parent's end.

    Once a method has raised, or an answer was not usable, `close` is all that is left to call.
    """

    def __init__(
        self,
        factory: EvaluatorFactory,
        problem: ConvProblem,
        ordinal: int,
        seed: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._process, self._connection = start_child(
            "im2wingen.worker_process", "a worker process", environment=environment
        )
        self._setup = (factory, problem, ordinal, seed)

    def set_up(self, limit_s: float) -> float:
        """Make the evaluator in the process; the seconds that took there."""
        value = self._exchange(self._setup, limit_s).value
        assert isinstance(value, float)
        return value

    def ask(self, request: Request, limit_s: float) -> Answer:
        """Raises LostProcessError after a hang or a crash, Im2wingenError for trouble of our own."""
        return self._exchange((request, limit_s), limit_s)

    def close(self, *, patience_s: float = 0.0) -> None:
        """End the process; it has `patience_s` to do so by itself."""
        self._connection.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._kill()

    def _exchange(self, message: object, limit_s: float) -> Answer:
        try:
            self._connection.send(message)
            if not self._connection.poll(limit_s):
                self._kill()
                raise LostProcessError(Outcome.RUN_TIMEOUT, f"it did not finish within {limit_s:g} s and was killed")
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            raise self._ending() from None
        if isinstance(answer, _Trouble):
            raise answer.kind(answer.sentence)
        assert isinstance(answer, Answer)
        return answer

    def _ending(self) -> Exception:
        """What to raise for a process that is gone: a signal is the candidate's doing, an exit code our own trouble."""
        try:
            code = self._process.wait(_ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return LostProcessError(Outcome.LAUNCH_ERROR, "the worker process went silent and was killed")
        if code < 0:
            ending = signal.Signals(-code)
            outcome = _OUTCOMES.get(ending, Outcome.LAUNCH_ERROR)
            return LostProcessError(outcome, f"the worker process was ended by {ending.name}")
        return Im2wingenError(f"the worker process ended with exit code {code}; what it wrote to stderr says why")

    def _kill(self) -> None:
        kill_group(self._process)
        try:
            self._process.wait(_ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            log.warning("worker process %s survived its kill for %g s", self._process.pid, _ENDING_LIMIT_S)


def serve(handle: int) -> None:
    """The process's end: set up once, then answer requests until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    with Connection(handle) as connection:
        try:
            factory, problem, ordinal, seed = connection.recv()
            started = time.monotonic()
            evaluator: Evaluator = factory(problem, ordinal, seed)
            connection.send(Answer(value=time.monotonic() - started))
            while evaluator.usable:
                try:
                    request, limit_s = connection.recv()
                except (EOFError, ConnectionError):
                    evaluator.close()
                    return
                # If the parent died meanwhile, nobody kills a hung run: the alarm's default action does.
                signal.setitimer(signal.ITIMER_REAL, limit_s + _ORPHAN_GRACE_S)
                value = request.run(evaluator)
                signal.setitimer(signal.ITIMER_REAL, 0)
                connection.send(Answer(value=value, usable=evaluator.usable))
        except (EOFError, ConnectionError):
            return
        except Im2wingenError as error:
            kind = NoDeviceError if isinstance(error, NoDeviceError) else Im2wingenError  # others do not pickle
            connection.send(_Trouble(sentence=str(error), kind=kind))
