"""What a CPU worker process does: verify a candidate, probe it, measure it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from im2wingen.cpu.data import array_forms
from im2wingen.cpu.loaded import LoadedCpuPlan, LoadError
from im2wingen.cpu.measure import SEARCH_S, Run, clock_mhz, probe_us, time_runs
from im2wingen.cpu.memory import aligned_bytes, available_bytes
from im2wingen.cpu.verifier import CpuVerifier
from im2wingen.errors import Im2wingenError
from im2wingen.measure import timing_of
from im2wingen.outcome import Candidate, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.verify_data import GuardError, WrongResultError

SLOWER_FACTOR = 1.5  # of the best time so far


class CpuEvaluator:
    """Test data, reference and timing arrays of one problem on `threads` cores; a fault ends the process instead."""

    def __init__(self, problem: ConvProblem, threads: int, seed: int) -> None:
        self.usable = True
        self._threads = threads
        forms = array_forms(problem)
        wanted, free = 2 * sum(form.size_bytes for form in forms.values()), available_bytes()
        if wanted > free:
            raise Im2wingenError(
                f"{problem.key} needs {_gib(wanted)} of memory to be measured; {_gib(free)} are available"
            )
        self._verifier = CpuVerifier(problem, seed=seed)
        data = self._verifier.normal
        self._arrays = {name: aligned_bytes(form.size_bytes) for name, form in forms.items()}
        views = {name: self._arrays[name].view(form.dtype).reshape(form.shape) for name, form in forms.items()}
        data.fill_x(views["x"])
        views["y"].fill(0)  # its pages are there before the first timing
        for name in views.keys() & {"w", "bias"}:
            views[name][...] = data.inputs[name]

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Evaluation:
        """Verify, probe, measure; what the candidate causes and survives is an Evaluation."""
        wanted, free = candidate.plan.workspace_bytes, available_bytes()
        if 2 * wanted > free:
            reason = f"its workspace of {_gib(wanted)} does not fit twice into the available memory, {_gib(free)}"
            return Evaluation(outcome=Outcome.LAUNCH_ERROR, reason=reason)
        try:
            with ExitStack() as stack:
                return self._evaluate(self._loaded(candidate, stack), best_us)
        except LoadError as error:
            return Evaluation(outcome=Outcome.LAUNCH_ERROR, reason=str(error))
        except GuardError as error:
            return Evaluation(outcome=Outcome.ILLEGAL_ACCESS, reason=str(error))
        except WrongResultError as error:
            return Evaluation(outcome=Outcome.WRONG_RESULT, reason=str(error))

    def playoff(self, candidates: Sequence[Candidate], seconds: float) -> list[Timing | None]:
        """Verified candidates timed against each other, interleaved, in about `seconds`."""
        with ExitStack() as stack:
            runs = [self._run(self._loaded(candidate, stack)) for candidate in candidates]
            return list(time_runs(runs, budget_s=seconds / max(1, len(runs))))

    def close(self) -> None:
        """Nothing outlives the process."""

    def _evaluate(self, loaded: LoadedCpuPlan, best_us: float | None) -> Evaluation:
        error = self._verifier.check(loaded)
        run = self._run(loaded)
        if best_us is not None:
            limit_us = SLOWER_FACTOR * best_us
            probe = probe_us(run, enough_us=limit_us)
            if probe > limit_us:
                reason = f"its probe took {probe:.1f} us, more than {SLOWER_FACTOR} times the best, {best_us:.1f} us"
                timing = timing_of([probe], clock_mhz())
                return Evaluation(outcome=Outcome.SLOWER, reason=reason, timing=timing, error=error)
        (timing,) = time_runs([run], budget_s=SEARCH_S)
        return Evaluation(outcome=Outcome.OK, timing=timing, error=error)

    def _loaded(self, candidate: Candidate, stack: ExitStack) -> LoadedCpuPlan:
        loaded = LoadedCpuPlan(candidate.plan, candidate.cubins, self._threads)
        stack.callback(loaded.unload)
        return loaded

    def _run(self, loaded: LoadedCpuPlan) -> Run:
        """The plan over the timing arrays, its packing done, with a workspace of its own, which the Run keeps alive."""
        arrays = self._arrays | {name: aligned_bytes(size) for name, size in loaded.plan.workspace.items()}
        pointers = {"bias": 0} | {name: array.ctypes.data for name, array in arrays.items()}
        packing, rest = loaded.plan.halves()
        loaded.launch(pointers, some=packing)
        return partial(_launch, loaded, pointers, rest, arrays)


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"


def _launch(loaded: LoadedCpuPlan, pointers: dict[str, int], some: list[int], _alive: object) -> None:
    loaded.launch(pointers, some=some)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuEvaluatorFactory:
    """An EvaluatorFactory for so many threads; the ordinal of a device means nothing to it."""

    threads: int

    def __call__(self, problem: ConvProblem, ordinal: int, seed: int) -> CpuEvaluator:
        return CpuEvaluator(problem, self.threads, seed)
