"""The CPU worker for real: a right kernel is measured, a broken one costs itself and nothing else."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cpu_kernels import PROBLEM, candidate, plan

from im2wingen.cpu.evaluator import CpuEvaluator, CpuEvaluatorFactory
from im2wingen.cpu.measure import thread_environment
from im2wingen.families.base import Plan
from im2wingen.outcome import Outcome
from im2wingen.settings import environment_with
from im2wingen.worker import DeviceWorker


@pytest.fixture(scope="module")
def worker() -> Iterator[DeviceWorker]:
    with DeviceWorker(
        PROBLEM,
        run_timeout_s=8.0,
        factory=CpuEvaluatorFactory(threads=2),
        environment=environment_with(thread_environment(2)),
    ) as worker:
        yield worker


def test_a_right_kernel_is_measured(worker: DeviceWorker) -> None:
    answer = worker.evaluate(candidate())
    assert answer.outcome is Outcome.OK, answer.reason
    assert answer.timing is not None
    assert 0 < answer.timing.min_us <= answer.timing.median_us
    assert answer.timing.samples >= 5
    assert answer.error is not None
    assert 0 < answer.error.norm_error < 1e-6


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("wrong", Outcome.WRONG_RESULT, "1 of .* on integer data; the worst, at n=2 k=3"),
        ("unwritten", Outcome.WRONG_RESULT, "1 of them NaN"),
        ("segfault", Outcome.ILLEGAL_ACCESS, "SIGSEGV"),
        ("abort", Outcome.LAUNCH_ERROR, "SIGABRT"),
        ("hang", Outcome.RUN_TIMEOUT, "within 8 s"),
        ("writes past y", Outcome.ILLEGAL_ACCESS, "SIGSEGV"),  # y ends with a page
        ("reads past x", Outcome.ILLEGAL_ACCESS, "SIGSEGV"),
        ("writes before y", Outcome.ILLEGAL_ACCESS, "outside y: 1 bytes before"),
        ("writes past packed", Outcome.ILLEGAL_ACCESS, "outside workspace packed: 1 bytes after"),
        ("spoils x", Outcome.ILLEGAL_ACCESS, "SIGSEGV"),  # inputs are read-only
    ],
)
def test_a_fault_is_an_outcome_and_the_next_candidate_runs(
    worker: DeviceWorker, fault: str, outcome: Outcome, words: str
) -> None:
    answer = worker.evaluate(candidate(fault))
    assert answer.outcome is outcome, answer.reason
    assert re.search(words, answer.reason), answer.reason
    assert worker.evaluate(candidate()).outcome is Outcome.OK


def test_a_slow_kernel_is_not_measured_in_full(worker: DeviceWorker) -> None:
    answer = worker.evaluate(candidate("slow"), 5.0)
    assert answer.outcome is Outcome.SLOWER
    assert "more than 1.5 times the best, 5.0 us" in answer.reason
    assert answer.timing is not None
    assert answer.timing.samples == 1


def test_packing_is_done_before_and_not_timed(worker: DeviceWorker) -> None:
    slow, slow_packing = (worker.evaluate(candidate(fault)).timing for fault in ("slow", "slow packing"))
    assert slow is not None
    assert slow_packing is not None
    assert slow_packing.median_us < slow.median_us / 2


def test_a_play_off_times_all_side_by_side(worker: DeviceWorker) -> None:
    fast, slow = worker.playoff([candidate(), candidate("slow")], 0.5)
    assert fast is not None
    assert slow is not None
    assert fast.median_us < slow.median_us


def test_a_lost_play_off_times_nobody(worker: DeviceWorker) -> None:
    assert worker.playoff([candidate(), candidate("segfault")], 0.5) == [None, None]


def test_what_cannot_be_loaded_is_an_outcome() -> None:
    evaluator = CpuEvaluator(PROBLEM, threads=1, seed=0)
    right = candidate()
    damaged = replace(right, cubins=tuple(replace(cubin, image=b"\x7fELF" + b"\0" * 100) for cubin in right.cubins))
    renamed = replace(right, cubins=tuple(replace(cubin, kernel="another") for cubin in right.cubins))
    for wrong, words in ((damaged, "can't be loaded"), (renamed, 'no extern "C" function another')):
        answer = evaluator.evaluate(wrong, None)
        assert (answer.outcome, evaluator.usable) == (Outcome.LAUNCH_ERROR, True)
        assert words in answer.reason


def test_a_workspace_beyond_memory_is_an_outcome() -> None:
    evaluator = CpuEvaluator(PROBLEM, threads=1, seed=0)
    huge = Plan(launches=plan().launches, workspace={"packed": 1 << 46})
    answer = evaluator.evaluate(replace(candidate(), plan=huge), None)
    assert answer.outcome is Outcome.LAUNCH_ERROR
    assert "does not fit" in answer.reason


def test_open_files_do_not_pile_up() -> None:
    evaluator = CpuEvaluator(PROBLEM, threads=1, seed=0)
    evaluator.evaluate(candidate(), None)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        evaluator.evaluate(candidate(), None)
    assert len(os.listdir("/proc/self/fd")) == before
