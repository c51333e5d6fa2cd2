"""Tuning for a device that is not here: real compilation, estimated times, finalists verified in the emulator."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Self

from im2wingen.compile_pool import CompilePool
from im2wingen.cost_model import estimate_us
from im2wingen.errors import EmulatorError
from im2wingen.families.base import Config, Family
from im2wingen.nvrtc import Cubin
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.target import Target
from im2wingen.tuning.attempt import Compiled
from im2wingen.tuning.executors import DeviceFacts
from im2wingen.verify_data import GuardError, WrongResultError
from im2wingen.verify_emulated import verify_emulated

log = logging.getLogger(__name__)

_SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)  # that N and the rows and columns of y may shrink to
_CHANNELS = (16, 32, 48, 64, 96, 128, 192, 256, 384)  # that C and K may shrink to, plus their remainder by 8
_MAX_PRODUCTS = 150_000_000  # what the emulator computes in some fifteen seconds


class PredictingExecutor:
    """Evaluates with the cost model; a play-off verifies each finalist on a small problem in the emulator.

    The pool is the caller's, open before and after.
    """

    device_slots = 1

    def __init__(self, problem: ConvProblem, target: Target, pool: CompilePool) -> None:
        self.facts = DeviceFacts(target=target, driver_version="", protocol_version=0)
        self.compile_slots = pool.max_workers
        self._problem, self._target = problem, target
        self._pool = pool

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]:
        return self._pool.submit(sources, self.facts.target.arch)

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        future: Future[Evaluation] = Future()
        future.set_result(self._estimated(candidate))
        return future

    def play_off(self, finalists: Sequence[Compiled], seconds: float) -> Future[list[Evaluation | None]]:
        future: Future[list[Evaluation | None]] = Future()
        with ThreadPoolExecutor(self.compile_slots) as threads:  # each emulated launch is a process of its own
            future.set_result(list(threads.map(self._verified, finalists)))
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is its own."""

    def _estimated(self, candidate: Candidate) -> Evaluation:
        target = self._target
        us = estimate_us(candidate.plan, target, candidate.cubins)
        timing = Timing(median_us=us, min_us=us, spread=0.0, samples=0, clock_mhz=target.clock_mhz)
        return Evaluation(outcome=Outcome.OK, timing=timing)

    def _verified(self, finalist: Compiled) -> Evaluation | None:
        """The estimate with the error found on a small problem; None where none is small enough."""
        family, config = finalist.attempt.pick.family, finalist.attempt.pick.config
        small = scaled_down(self._problem, self._target, family, config)
        if small is None:
            log.warning(
                "trial %d is not verified: its problem can't be scaled down for the emulator", finalist.attempt.number
            )
            return None
        try:
            error = verify_emulated(small, family.plan(small, self._target, config))
        except WrongResultError as wrong:
            return Evaluation(outcome=Outcome.WRONG_RESULT, reason=f"{small.shape} in the emulator: {wrong}")
        except (GuardError, EmulatorError) as fault:
            return Evaluation(outcome=Outcome.ILLEGAL_ACCESS, reason=f"{small.shape} in the emulator: {fault}")
        return replace(self._estimated(finalist.candidate), error=error)


def scaled_down(problem: ConvProblem, target: Target, family: Family, config: Config) -> ConvProblem | None:
    """The problem with the same filter, strides, pads and layouts, as small as the config's rules allow.

    N, H, W, C and K shrink in this order, each to the first of some sizes at which the config stays legal. None if the
    emulator would take too long even so.
    """
    small = problem
    for shrink in (_batches, _heights, _widths, _input_channels, _output_channels):
        small = next((each for each in shrink(small) if _is_legal(each, target, family, config)), small)
    return small if small.gemm_m * small.gemm_n * small.gemm_k <= _MAX_PRODUCTS else None


def _is_legal(problem: ConvProblem, target: Target, family: Family, config: Config) -> bool:
    return family.unsupported(problem, target) is None and not family.broken_rules(problem, target, config)


def _batches(problem: ConvProblem) -> Iterator[ConvProblem]:
    return (replace(problem, n=size) for size in _SIZES if size < problem.n)


def _heights(problem: ConvProblem) -> Iterator[ConvProblem]:
    heights = (problem.window_h + (rows - 1) * problem.stride_h for rows in _SIZES)
    return (replace(problem, h=h) for h in heights if h < problem.h)


def _widths(problem: ConvProblem) -> Iterator[ConvProblem]:
    widths = (problem.window_w + (columns - 1) * problem.stride_w for columns in _SIZES)
    return (replace(problem, w=w) for w in widths if w < problem.w)


def _input_channels(problem: ConvProblem) -> Iterator[ConvProblem]:
    return (replace(problem, c=c) for c in _fewer(problem.c, problem.groups))


def _output_channels(problem: ConvProblem) -> Iterator[ConvProblem]:
    return (replace(problem, k=k) for k in _fewer(problem.k, problem.groups))


def _fewer(channels: int, groups: int) -> Iterator[int]:
    """Smaller numbers of channels with the same remainder by 8, which decides on vector width and partial tiles."""
    return (size + channels % 8 for size in _CHANNELS if groups == 1 and size + channels % 8 < channels)
