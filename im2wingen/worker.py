"""A process that owns a device for one problem, so that a hang or a fault there costs a candidate and not the study."""

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from im2wingen.errors import Im2wingenError
from im2wingen.evaluator import DeviceEvaluator
from im2wingen.outcome import Candidate, Evaluation, Timing
from im2wingen.problem import ConvProblem
from im2wingen.worker_process import (
    EvaluateRequest,
    EvaluatorFactory,
    LostProcessError,
    PlayoffRequest,
    Request,
    WorkerProcess,
)

log = logging.getLogger(__name__)

RUN_TIMEOUT_S = 20.0
SETUP_TIMEOUT_S = 300.0
_FAREWELL_S = 10.0


class DeviceWorker:
    """Evaluates candidates for a problem in a process of its own, which it replaces after a hang or a fault.

    `run_timeout_s` limits one evaluation. Preparing test data and reference happens at the process's start: it is
    limited by `setup_timeout_s` alone and its duration is `setup_s`. `factory` must be importable by name, and its
    process gets the caller's environment unless one is given.
    """

    def __init__(
        self,
        problem: ConvProblem,
        ordinal: int = 0,
        *,
        run_timeout_s: float = RUN_TIMEOUT_S,
        setup_timeout_s: float = SETUP_TIMEOUT_S,
        seed: int = 0,
        factory: EvaluatorFactory = DeviceEvaluator,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.setup_s = 0.0  # of the latest process
        self.restarts = -1  # processes started beyond the first
        self._arguments = (factory, problem, ordinal, seed, environment)
        self._run_timeout_s, self._setup_timeout_s = run_timeout_s, setup_timeout_s
        self._process: WorkerProcess | None = None

    def __enter__(self) -> Self:
        """Start the process; NoDeviceError, or another Im2wingenError, if it can't set itself up."""
        self._running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()

    def evaluate(self, candidate: Candidate, best_us: float | None = None) -> Evaluation:
        """Verify and measure a candidate; `best_us` is the best median so far, if any.

        Raises Im2wingenError for trouble that the candidate did not cause; the next call starts a fresh process.
        """
        try:
            answer = self._ask(EvaluateRequest(candidate=candidate, best_us=best_us), self._run_timeout_s)
        except LostProcessError as lost:
            return Evaluation(outcome=lost.outcome, reason=str(lost))
        assert isinstance(answer, Evaluation)
        return answer

    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]:
        """Time verified candidates against each other in about `seconds`; all None if one hung or crashed this time."""
        if not candidates:
            return []
        try:
            request = PlayoffRequest(candidates=tuple(candidates), seconds=seconds)
            answer = self._ask(request, self._run_timeout_s * len(candidates) + seconds)
        except LostProcessError as lost:
            log.warning("the play-off was lost: %s", lost)
            return [None] * len(candidates)
        assert isinstance(answer, list)
        return answer

    def close(self) -> None:
        """End the process; it is killed if it does not end by itself."""
        self._discard(patience_s=_FAREWELL_S)

    def _ask(self, request: Request, limit_s: float) -> object:
        process = self._running()
        try:
            answer = process.ask(request, limit_s)
        except BaseException:  # Ctrl-C included: its answer must not meet the next request
            self._discard()
            raise
        if not answer.usable:
            self._discard()
        return answer.value

    def _running(self) -> WorkerProcess:
        """The process, started and set up if there is none."""
        if self._process is None:
            self._process = WorkerProcess(*self._arguments)
            self.restarts += 1
            try:
                self.setup_s = self._process.set_up(self._setup_timeout_s)
            except BaseException as error:
                self._discard()
                if isinstance(error, LostProcessError):
                    raise Im2wingenError(f"the device's worker process could not be set up: {error}") from error
                raise
        return self._process

    def _discard(self, *, patience_s: float = 0.0) -> None:
        if self._process is not None:
            self._process.close(patience_s=patience_s)
            self._process = None
