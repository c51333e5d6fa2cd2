"""The worker's process management, with evaluators that hang, die, fail and answer."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from im2wingen.errors import DeviceError, Im2wingenError, NoDeviceError
from im2wingen.evaluator import evaluation_of
from im2wingen.families.base import Plan
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.settings import environment_with
from im2wingen.worker import DeviceWorker

PROBLEM = ConvProblem.parse("n1c1h4w4k1r1s1")
OK = Candidate(family="ok", config_digest="0" * 16, plan=Plan(launches=()), cubins=())


def candidate(behaviour: str) -> Candidate:
    return replace(OK, family=behaviour)


class FakeEvaluator:
    """Behaves as the candidate's family says; the clock of its timings is its process id."""

    def __init__(self, problem: ConvProblem, ordinal: int, seed: int) -> None:
        self.usable = True
        self.problem, self.ordinal, self.seed = problem, ordinal, seed

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        match candidate.family:
            case "hang":
                time.sleep(1000)
            case "exit":
                os._exit(7)
            case "killed":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "raise":
                raise DeviceError("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
            case "fault":
                self.usable = False
                return Evaluation(outcome=Outcome.ILLEGAL_ACCESS, reason="a kernel used an illegal address")
        return Evaluation(outcome=Outcome.OK, reason=f"{self.problem.key} {self.ordinal} {self.seed}", timing=timing())

    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]:
        for each in candidates:
            self.evaluate(each, None)
        return [timing() for _ in candidates]

    def close(self) -> None:
        pass


def timing() -> Timing:
    return Timing(median_us=2.0, min_us=1.0, spread=0.1, samples=7, clock_mhz=os.getpid())


def no_device(problem: ConvProblem, ordinal: int, seed: int) -> FakeEvaluator:
    raise NoDeviceError("device 5 does not exist")


def dies_at_start(problem: ConvProblem, ordinal: int, seed: int) -> FakeEvaluator:
    os._exit(3)


class TellsItsThreads(FakeEvaluator):
    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        threads = os.environ["OMP_NUM_THREADS"]
        return Evaluation(outcome=Outcome.OK, reason=f"{threads} threads", timing=timing())


def tells_its_threads(problem: ConvProblem, ordinal: int, seed: int) -> FakeEvaluator:
    return TellsItsThreads(problem, ordinal, seed)


@pytest.fixture
def worker() -> Iterator[DeviceWorker]:
    with DeviceWorker(PROBLEM, 2, run_timeout_s=3.0, seed=9, factory=FakeEvaluator) as worker:
        yield worker


def process_of(worker: DeviceWorker) -> int:
    answer = worker.evaluate(OK)
    assert answer.timing is not None
    return answer.timing.clock_mhz


def test_one_process_answers_all(worker: DeviceWorker) -> None:
    first = worker.evaluate(OK, 3.0)
    assert first.outcome is Outcome.OK
    assert first.reason == f"{PROBLEM.key} 2 9"
    process = process_of(worker)
    assert process == process_of(worker) != os.getpid()
    assert worker.playoff([OK, OK], 0.1) == [replace(timing(), clock_mhz=process)] * 2
    assert worker.playoff([], 0.1) == []
    assert worker.restarts == 0


def test_a_hang_is_killed_and_the_next_candidate_runs(worker: DeviceWorker) -> None:
    process = process_of(worker)
    answer = worker.evaluate(candidate("hang"))
    assert answer.outcome is Outcome.RUN_TIMEOUT
    assert "within 3 s" in answer.reason
    assert process_of(worker) != process
    assert worker.restarts == 1
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_crash_by_signal_is_the_candidates(worker: DeviceWorker) -> None:
    answer = worker.evaluate(candidate("killed"))
    assert answer.outcome is Outcome.ILLEGAL_ACCESS
    assert "SIGSEGV" in answer.reason
    assert worker.evaluate(OK).outcome is Outcome.OK


def test_an_exit_is_our_own_trouble(worker: DeviceWorker) -> None:
    with pytest.raises(Im2wingenError, match="exit code 7"):
        worker.evaluate(candidate("exit"))
    assert worker.evaluate(OK).outcome is Outcome.OK


def test_trouble_in_the_worker_is_raised_here(worker: DeviceWorker) -> None:
    with pytest.raises(Im2wingenError, match="cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY"):
        worker.evaluate(candidate("raise"))
    assert worker.evaluate(OK).outcome is Outcome.OK
    assert worker.restarts == 1


def test_a_dead_context_is_left_behind(worker: DeviceWorker) -> None:
    process = process_of(worker)
    assert worker.evaluate(candidate("fault")).outcome is Outcome.ILLEGAL_ACCESS
    assert process_of(worker) != process


def test_a_lost_playoff_times_nobody(worker: DeviceWorker) -> None:
    assert worker.playoff([OK, candidate("killed")], 0.1) == [None, None]
    assert worker.playoff([OK], 0.1)[0] is not None


def test_a_closed_worker_leaves_no_process() -> None:
    with DeviceWorker(PROBLEM, factory=FakeEvaluator) as worker:
        process = process_of(worker)
        assert worker.setup_s >= 0
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_the_process_gets_the_environment_asked_for() -> None:
    environment = environment_with({"OMP_NUM_THREADS": "3"})
    with DeviceWorker(PROBLEM, factory=tells_its_threads, environment=environment) as worker:
        assert worker.evaluate(OK).reason.startswith("3 ")
    assert "OMP_NUM_THREADS" in environment
    assert environment.keys() - os.environ.keys() <= {"OMP_NUM_THREADS"}


def test_set_up_errors_are_told() -> None:
    with pytest.raises(NoDeviceError, match="device 5 does not exist"), DeviceWorker(PROBLEM, factory=no_device):
        pass
    with pytest.raises(Im2wingenError, match="exit code 3"), DeviceWorker(PROBLEM, factory=dies_at_start):
        pass


@pytest.mark.parametrize(
    ("call", "code", "outcome"),
    [
        ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", Outcome.ILLEGAL_ACCESS),
        ("cuMemcpyDtoHAsync", "CUDA_ERROR_MISALIGNED_ADDRESS", Outcome.ILLEGAL_ACCESS),
        ("cuEventSynchronize", "CUDA_ERROR_LAUNCH_FAILED", Outcome.LAUNCH_ERROR),
        ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_INSTRUCTION", Outcome.LAUNCH_ERROR),
        ("cuStreamSynchronize", "CUDA_ERROR_LAUNCH_TIMEOUT", Outcome.RUN_TIMEOUT),
        ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", Outcome.LAUNCH_ERROR),
        ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", Outcome.LAUNCH_ERROR),
        ("cuMemAlloc", "CUDA_ERROR_INVALID_VALUE", None),  # our own mistake
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", None),
        ("cuModuleLoadData", "CUDA_ERROR_OUT_OF_MEMORY", None),
        ("cuStreamSynchronize", "CUDA_ERROR_ECC_UNCORRECTABLE", None),
    ],
)
def test_driver_errors_become_outcomes(call: str, code: str, outcome: Outcome | None) -> None:
    evaluation = evaluation_of(DeviceError(call, code))
    assert (evaluation and evaluation.outcome) == outcome
    assert evaluation is None or code in evaluation.reason
