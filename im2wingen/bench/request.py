"""What the user asked to be measured, checked and as values."""

from collections.abc import Mapping, Sequence

from im2wingen.bench.cpu.result import CpuBenchOptions
from im2wingen.bench.result import BenchOptions
from im2wingen.errors import UsageError
from im2wingen.families import check_cores
from im2wingen.layers import SUITES, expanded
from im2wingen.problem import ConvProblem

PEERS = ("cudnn", "im2col", "direct", "inductor")
CPU_PEERS = ("onednn", "im2col", "direct")


def layer_names(shapes: Sequence[str], suite: str, layers: str | None) -> tuple[str, ...]:
    """The shapes where there are any, else the suite's layers, those of the comma-separated `layers` alone if given."""
    if suite not in SUITES:
        raise UsageError(f"suite is {suite!r}; allowed are {', '.join(SUITES)}")
    if shapes:
        if layers is not None:
            raise UsageError("layers picks from the suite; give either shapes or layers")
        return tuple(dict.fromkeys(expanded(shapes)))
    of_suite = tuple(SUITES[suite].layers)
    return of_suite if layers is None else _chosen("layers", layers, of_suite)


def peer_names(against: str, allowed: Sequence[str] = PEERS) -> tuple[str, ...]:
    """Comma-separated peers, or `none`."""
    return () if against.strip().lower() == "none" else _chosen("against", against, allowed)


def request(
    names: Sequence[str],
    *,
    against: tuple[str, ...],
    precision: str,
    layout: str,
    batch: int | None,
    prepacked: bool,
    rounds: int,
    plan_seconds: float,
    finalists: int,
    cores: str | None = None,
) -> tuple[dict[str, ConvProblem], BenchOptions]:
    """Layer name -> problem, and the options; UsageError names the field that is not allowed."""
    _check(("rounds", rounds, 1), ("finalists", finalists, 1), ("plan seconds", plan_seconds, 0))
    problems = _problems(names, precision, layout, batch)
    some = next(iter(problems.values()))
    options = BenchOptions(
        layers=tuple(problems), against=against, precision=some.precision, layout=some.layout,
        batch=_common_batch(problems), prepacked=prepacked, rounds=rounds, plan_seconds=float(plan_seconds),
        finalists=finalists, cores=check_cores(cores),
    )  # fmt: skip
    return problems, options


def cpu_request(
    names: Sequence[str],
    *,
    against: tuple[str, ...],
    precision: str,
    layout: str,
    batch: int | None,
    prepacked: bool,
    rounds: int,
    threads: int,
) -> tuple[dict[str, ConvProblem], CpuBenchOptions]:
    """The same for the CPU."""
    _check(("rounds", rounds, 1))
    problems = _problems(names, precision, layout, batch)
    some = next(iter(problems.values()))
    options = CpuBenchOptions(
        layers=tuple(problems), against=against, precision=some.precision, layout=some.layout,
        batch=_common_batch(problems), prepacked=prepacked, rounds=rounds, threads=threads,
    )  # fmt: skip
    return problems, options


def _check(*fields: tuple[str, float, int]) -> None:
    for field, number, least in fields:
        if number < least:
            raise UsageError(f"{field} is {number}; allowed are numbers from {least}")


def _problems(names: Sequence[str], precision: str, layout: str, batch: int | None) -> dict[str, ConvProblem]:
    return {name: ConvProblem.parse(name, precision=precision, layout=layout, batch=batch) for name in names}


def _common_batch(problems: Mapping[str, ConvProblem]) -> int | None:
    """The N of all problems, if there is one."""
    batches = {problem.n for problem in problems.values()}
    return batches.pop() if len(batches) == 1 else None


def _chosen(field: str, text: str, allowed: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names or not set(names) <= set(allowed):
        raise UsageError(f"{field} is {text!r}; allowed are, separated by commas, {', '.join(allowed)}")
    return names
