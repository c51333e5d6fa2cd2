"""Candidates that misbehave on a real device, and one that doesn't."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from im2wingen.device import open_device
from im2wingen.families.base import Launch, Plan
from im2wingen.nvrtc import Cubin, compile_cubin
from im2wingen.outcome import Candidate, Outcome
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.worker import DeviceWorker

pytestmark = pytest.mark.gpu

FAULTS = Path(__file__).parents[1] / "faults"
PROBLEM = ConvProblem.parse("n2c5h9w8k7r3s2", precision="fp32")  # what the texts in tests/faults compute


def fault(name: str, arch: str, *, block: int = 256, smem_bytes: int = 0) -> Candidate:
    text = (FAULTS / f"{name}.cu").read_text(encoding="utf-8")
    launch = Launch(
        template="fault", values={}, grid=(3, 1, 1), block=block, smem_bytes=smem_bytes, arguments=("x", "w", "y")
    )  # fmt: skip
    cubin: Cubin = compile_cubin(Source("fault", text), arch)
    return Candidate(family="fault", config_digest=name, plan=Plan(launches=(launch,)), cubins=(cubin,))


@pytest.fixture(scope="module")
def arch() -> str:
    device = open_device()
    device.close()
    return device.target.arch


@pytest.fixture(scope="module")
def worker() -> Iterator[DeviceWorker]:
    with DeviceWorker(PROBLEM, run_timeout_s=5.0) as worker:
        yield worker


def test_a_right_kernel_is_timed(worker: DeviceWorker, arch: str) -> None:
    answer = worker.evaluate(fault("direct", arch))
    assert answer.outcome is Outcome.OK, answer.reason
    assert answer.timing is not None
    assert 0.5 < answer.timing.min_us <= answer.timing.median_us < 1000
    assert answer.error is not None
    assert 0 < answer.error.norm_error < 1e-6


def test_a_slow_kernel_is_not_measured(worker: DeviceWorker, arch: str) -> None:
    answer = worker.evaluate(fault("slow", arch), 5.0)
    assert answer.outcome is Outcome.SLOWER, answer.reason
    assert answer.timing is not None
    assert answer.timing.median_us > 100
    assert answer.error is not None


@pytest.mark.parametrize(
    ("name", "outcome", "reason", "restarts"),
    [
        ("trap", Outcome.LAUNCH_ERROR, "CUDA_ERROR_(LAUNCH_FAILED|ILLEGAL_INSTRUCTION)", 1),
        ("far_write", Outcome.ILLEGAL_ACCESS, "CUDA_ERROR_ILLEGAL_ADDRESS", 1),
        ("misaligned", Outcome.ILLEGAL_ACCESS, "CUDA_ERROR_MISALIGNED_ADDRESS", 1),
        ("hang", Outcome.RUN_TIMEOUT, "within 5 s", 1),
        ("one_past_end", Outcome.ILLEGAL_ACCESS, "outside y: [1-4] bytes after its 2744 bytes", 0),
        ("wrong", Outcome.WRONG_RESULT, "elements of y are wrong on integer data", 0),
        ("unwritten", Outcome.WRONG_RESULT, "686 of 686 elements of y are wrong", 0),
        ("spoils_input", Outcome.WRONG_RESULT, "elements of y are wrong", 0),
    ],
)
def test_a_fault_is_an_outcome_and_the_next_candidate_runs(
    worker: DeviceWorker, arch: str, name: str, outcome: Outcome, reason: str, restarts: int
) -> None:
    before = worker.restarts
    answer = worker.evaluate(fault(name, arch))
    assert answer.outcome is outcome, answer.reason
    assert re.search(reason, answer.reason), answer.reason
    after = worker.evaluate(fault("direct", arch))
    assert after.outcome is Outcome.OK, after.reason
    assert worker.restarts == before + restarts


@pytest.mark.parametrize(("block", "smem_bytes"), [(2048, 0), (256, 10 * 2**20)])
def test_what_the_driver_refuses_needs_no_new_process(
    worker: DeviceWorker, arch: str, block: int, smem_bytes: int
) -> None:
    before = worker.restarts
    answer = worker.evaluate(fault("direct", arch, block=block, smem_bytes=smem_bytes))
    assert answer.outcome is Outcome.LAUNCH_ERROR, answer.reason
    assert worker.evaluate(fault("direct", arch)).outcome is Outcome.OK
    assert worker.restarts == before


def test_a_playoff_times_all(worker: DeviceWorker, arch: str) -> None:
    direct, slow = worker.playoff([fault("direct", arch), fault("slow", arch)], 0.5)
    assert direct is not None
    assert slow is not None
    assert direct.median_us < slow.median_us


def test_a_faulting_playoff_times_nobody(worker: DeviceWorker, arch: str) -> None:
    assert worker.playoff([fault("direct", arch), fault("hang", arch)], 0.5) == [None, None]
    assert worker.evaluate(fault("direct", arch)).outcome is Outcome.OK
