"""What a worker process does on its device: verify a candidate, probe it, measure it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from im2wingen.device import Device, open_device
from im2wingen.device_data import BufferSets, Filler
from im2wingen.errors import DeviceError
from im2wingen.families.base import Plan
from im2wingen.kernel import LoadedPlan
from im2wingen.measure import GraphTimer, RunSet, probe_us, sample_timers, time_runs, timing_of
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.verify import Verifier
from im2wingen.verify_data import GuardError, WrongResultError

log = logging.getLogger(__name__)

SLOWER_FACTOR = 1.5  # of the best time so far
_PROBE_SLACK_US = 20.0  # what events around a single launch may add

# Errors that a kernel causes and that leave the context dead.
_FAULTS: dict[str, tuple[Outcome, str]] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": (Outcome.ILLEGAL_ACCESS, "a kernel used an illegal address"),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (Outcome.ILLEGAL_ACCESS, "a kernel used a misaligned address"),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (Outcome.ILLEGAL_ACCESS, "a kernel used an address of the wrong space"),
    "CUDA_ERROR_LAUNCH_FAILED": (Outcome.LAUNCH_ERROR, "a kernel trapped or failed"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (Outcome.LAUNCH_ERROR, "a kernel ran an illegal instruction"),
    "CUDA_ERROR_INVALID_PC": (Outcome.LAUNCH_ERROR, "a kernel jumped to an illegal place"),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": (Outcome.LAUNCH_ERROR, "a kernel broke its call stack"),
    "CUDA_ERROR_ASSERT": (Outcome.LAUNCH_ERROR, "an assertion in a kernel failed"),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (Outcome.RUN_TIMEOUT, "the driver stopped a kernel that ran too long"),
}
# Calls and codes by which the driver refuses a kernel before it runs; the context stays alive.
_REFUSING_CALLS = {"cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"}
_REFUSALS = {
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_NOT_FOUND",
}


class DeviceEvaluator:
    """Test data, reference and timing buffers of one problem on one device; `usable` turns false on a dead context."""

    def __init__(self, problem: ConvProblem, ordinal: int, seed: int) -> None:
        self.usable = True
        self._device: Device = open_device(ordinal)
        self._filler = Filler(self._device)
        self._verifier = Verifier(problem, self._device, self._filler, seed=seed)
        self._sets = BufferSets(self._device, self._filler, problem, seed=seed + 1)

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        """Verify, probe, measure; what the candidate causes is an Evaluation, our own trouble a DeviceError."""
        try:
            return self._evaluate(candidate, best_us)
        except GuardError as error:
            return Evaluation(outcome=Outcome.ILLEGAL_ACCESS, reason=str(error))
        except WrongResultError as error:
            return Evaluation(outcome=Outcome.WRONG_RESULT, reason=str(error))
        except DeviceError as error:
            self.usable = _refused(error)
            evaluation = evaluation_of(error)
            if evaluation is None:
                raise
            return evaluation

    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]:
        """Verified candidates timed against each other, in turns; all None if one of them fails after all."""
        try:
            with ExitStack() as stack:
                workspace = self._workspace([candidate.plan for candidate in candidates], stack)
                runs = [self._run(stack.enter_context(self._loaded(each)), workspace) for each in candidates]
                return list(time_runs(self._device, runs, sets=self._sets.count, seconds=seconds))
        except DeviceError as error:
            self.usable = _refused(error)
            if evaluation_of(error) is None:
                raise
            log.warning("the play-off was lost: %s", error)
            return [None] * len(candidates)

    def close(self) -> None:
        self._sets.close()
        self._verifier.close()
        self._filler.close()
        self._device.close()

    def _evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        wanted, free = candidate.plan.workspace_bytes, self._device.free_bytes()
        if wanted > free:
            reason = f"its workspace of {wanted} bytes does not fit into the device's free memory, {free} bytes"
            return Evaluation(outcome=Outcome.LAUNCH_ERROR, reason=reason)
        limit_us = SLOWER_FACTOR * best_us if best_us is not None else float("inf")
        with ExitStack() as stack:
            loaded = stack.enter_context(self._loaded(candidate))
            error = self._verifier.check(loaded)
            run = self._run(loaded, self._workspace([candidate.plan], stack))
            probe = probe_us(self._device, run, sets=self._sets.count)
            slow = probe if probe > limit_us + _PROBE_SLACK_US else None
            if slow is None:
                timer = GraphTimer(self._device, run, sets=self._sets.count, run_us=probe)
                try:
                    warm_up = timer.replay_us()
                    if warm_up <= limit_us:
                        (timing,) = sample_timers(self._device, [timer])
                        return Evaluation(outcome=Outcome.OK, timing=timing, error=error)
                    slow = warm_up
                finally:
                    timer.close()
            reason = f"its probe took {slow:.1f} us, more than {SLOWER_FACTOR} times the best so far, {best_us:.1f} us"
            timing = timing_of([slow], self._device.clock_mhz())
            return Evaluation(outcome=Outcome.SLOWER, reason=reason, timing=timing, error=error)

    @contextmanager
    def _loaded(self, candidate: Candidate) -> Iterator[LoadedPlan]:
        loaded = LoadedPlan(candidate.plan, candidate.cubins)
        try:
            yield loaded
        finally:
            loaded.unload()

    def _workspace(self, plans: Sequence[Plan], stack: ExitStack) -> dict[str, int]:
        """Pointers to memory by name, enough for any of plans that run one after another."""
        sizes: dict[str, int] = {}
        for plan in plans:
            for name, size in plan.workspace.items():
                sizes[name] = max(size, sizes.get(name, 0))
        workspace = {}
        for name, size in sizes.items():
            workspace[name] = self._device.alloc(size)
            stack.callback(self._device.free, workspace[name])
        return workspace

    def _run(self, loaded: LoadedPlan, workspace: dict[str, int]) -> RunSet:
        """The plan over the rotating sets."""
        pointers = [each | workspace for each in self._sets.pointers]
        for each in pointers:
            loaded.prepare(each)  # a probe times launches, not this
        return lambda i: loaded.launch(pointers[i], self._device.stream)


def evaluation_of(error: DeviceError) -> Evaluation | None:
    """The outcome that a driver error means for a candidate; None where the candidate is not to blame."""
    if error.code in _FAULTS:
        outcome, sentence = _FAULTS[error.code]
        return Evaluation(outcome=outcome, reason=f"{sentence} ({error})")
    if _refused(error):
        return Evaluation(outcome=Outcome.LAUNCH_ERROR, reason=str(error))
    return None


def _refused(error: DeviceError) -> bool:
    return error.call in _REFUSING_CALLS and error.code in _REFUSALS
