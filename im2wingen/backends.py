"""Where kernels run: on a CUDA GPU or on this machine's CPU, and which of them serves who asks for neither."""

from collections.abc import Sequence
from typing import Literal, get_args

from im2wingen.cpu_target import cpu_target
from im2wingen.device import device_count
from im2wingen.errors import UnsupportedError, UsageError
from im2wingen.families import families_for
from im2wingen.problem import ConvProblem

Backend = Literal["cuda", "cpu"]


def check_backend(name: str | None) -> Backend | None:
    """The name as a Backend; UsageError for another."""
    for backend in get_args(Backend):
        if name == backend:
            found: Backend = backend
            return found
    if name is not None:
        raise UsageError(f"backend is {name!r}; allowed are {', '.join(get_args(Backend))}")
    return None


def resolve_backend(
    problem: ConvProblem,
    backend: str | None,
    *,
    threads: int | None,
    asks_for_gpu: bool,
    families: Sequence[str] | None = None,
) -> Backend:
    """What the arguments of `tune` and `load` come to; UsageError where they contradict each other.

    `asks_for_gpu`: one of them names a GPU.
    """
    asked = check_backend(backend)
    if asked == "cpu" and asks_for_gpu:
        raise UsageError("target, arch, devices and cores name a GPU and backend is 'cpu'; give one of them")
    found = asked or ("cuda" if asks_for_gpu else pick_backend([problem], families))
    if threads is not None and found == "cuda":
        raise UsageError("threads are the CPU's; allowed is threads with backend 'cpu'")
    return found


def pick_backend(problems: Sequence[ConvProblem], families: Sequence[str] | None = None) -> Backend:
    """A GPU where there is one, else the CPU where it can run all the problems by one of these families."""
    if device_count():
        return "cuda"
    return "cuda" if cpu_refusal(problems, families) else "cpu"


def cpu_refusal(problems: Sequence[ConvProblem], families: Sequence[str] | None = None) -> str | None:
    """The sentence why the CPU can't run one of the problems, or None. UsageError for an unknown family."""
    target = cpu_target()
    for problem in problems:
        try:
            families_for(problem, target, families)
        except UnsupportedError as error:
            return str(error)
    return None
