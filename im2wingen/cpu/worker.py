"""A process that evaluates on the CPU for one problem."""

from im2wingen.cpu.evaluator import CpuEvaluatorFactory
from im2wingen.cpu.measure import thread_environment
from im2wingen.cpu_target import CpuTarget
from im2wingen.problem import ConvProblem
from im2wingen.settings import environment_with
from im2wingen.worker import DeviceWorker

_RUN_TIMEOUT_S = 10.0  # for verification and measurement, on top of what a slow kernel's runs take
_SLOW_GFLOPS = 5.0  # of a core


def cpu_worker(problem: ConvProblem, target: CpuTarget, *, seed: int = 0) -> DeviceWorker:
    """A worker with as many pinned threads as the target has cores; its time limit grows with the problem."""
    return DeviceWorker(
        problem,
        run_timeout_s=_RUN_TIMEOUT_S + problem.flops / (_SLOW_GFLOPS * 1e9 * target.cores),
        seed=seed,
        factory=CpuEvaluatorFactory(threads=target.cores),
        environment=environment_with(thread_environment(target.cores)),
    )
