"""im2wingen verify: a problem's kernels against a float64 reference."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer
from rich.table import Table

from im2wingen.cache import CubinCache
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu.worker import cpu_worker
from im2wingen.cpu_target import CpuTarget
from im2wingen.device import device_count
from im2wingen.errors import CompileError, EmulatorError, Im2wingenError, UsageError
from im2wingen.families import AnyTarget, families_for, family_named, family_names
from im2wingen.families.base import Config, Family
from im2wingen.outcome import Candidate, Evaluation, Outcome
from im2wingen.problem import ConvProblem
from im2wingen.render import plan_sources
from im2wingen.report import format_us, rows_table
from im2wingen.runtime import look_up
from im2wingen.settings import read_settings
from im2wingen.target import Target
from im2wingen.verify_data import GuardError, WrongResultError
from im2wingen.worker import DeviceWorker


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A config to verify; `origin` says why this one."""

    origin: str
    family: Family
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What was run, perhaps smaller than the problem, and what came out; `evaluation` is None where nothing ran."""

    case: _Case
    where: str
    ran: ConvProblem
    evaluation: Evaluation | None
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.evaluation is not None and self.evaluation.outcome != Outcome.OK

    @property
    def document(self) -> dict[str, object]:
        evaluation = self.evaluation
        error, timing = (evaluation.error, evaluation.timing) if evaluation else (None, None)
        return {
            "family": self.case.family.name,
            "config": self.case.config.to_dict(),
            "config_digest": self.case.config.digest(),
            "origin": self.case.origin,
            "where": self.where,
            "verified_problem": self.ran.key,
            "outcome": str(evaluation.outcome) if evaluation else "not run",
            "reason": self.reason or (evaluation.reason if evaluation else ""),
            "max_error": error.max_error if error else None,
            "norm_error": error.norm_error if error else None,
            "median_us": timing.median_us if timing else None,
        }

    def __str__(self) -> str:
        facts = self.document
        text = f"{facts['family']} {facts['config_digest']} ({facts['origin']}) on {facts['verified_problem']}"
        text += f": {facts['outcome']}"
        if self.evaluation is not None and self.evaluation.error is not None:
            error = self.evaluation.error
            text += f", max error {error.max_error:.3g}, norm error {error.norm_error:.3g}"
        return f"{text}: {facts['reason']}" if facts["reason"] else text


def verify(
    shapes: opt.ShapesArgument = None,
    shape: opt.ShapesOption = None,
    precision: opt.AnyPrecisionOption = None,
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    epilogue: opt.EpilogueOption = "none",
    family: opt.FamilyOption = None,
    cores: opt.CoresOption = None,
    emulate: Annotated[bool, typer.Option("--emulate", help="Use the CPU emulator although there is a GPU.")] = False,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Emulate under the address sanitizer.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the test data.")] = 0,
    backend: opt.BackendOption = None,
    threads: opt.ThreadsOption = None,
    arch: opt.ArchOption = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Check what each family computes for each problem: its default configuration, and the stored best.

    On the GPU the problem itself runs, on small integers (bit for bit) and on random normals (within the error bound),
    with guard bytes around every buffer; on the CPU likewise. Where neither can run it, or with --emulate or --arch, a
    smaller problem with the same filter, strides, pads and layouts runs in the CPU emulator. Exits with 1 if a kernel
    is wrong.
    """
    emulated = emulate or sanitize or arch is not None
    place = opt.Place(arch=arch, backend="cuda" if backend is None and emulated else backend, threads=threads)
    options = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue=epilogue)
    families = family_names(family and [family], cores)
    problems, on_cpu = place.resolve(options, shapes, shape, families)
    if on_cpu and emulated:
        raise UsageError("--emulate and --sanitize run GPU kernels; leave them out, or --backend cpu")
    output = Output(as_json=as_json)
    on_device = on_cpu or (not emulated and device_count() > 0)
    target = place.target(on_cpu, output)
    where = "the CPU" if on_cpu else "the GPU" if on_device else "the CPU emulator"
    if not on_device:
        output.note("verifying smaller problems of the same kind in the CPU emulator")
    verdicts: list[_Verdict] = []
    for problem in problems:
        cases = _cases(problem, target, families, opt.database_url(db))
        if isinstance(target, CpuTarget):
            run = _measured(cpu_worker(problem, target, seed=seed), target, problem, cases)
        elif on_device:
            run = _measured(DeviceWorker(problem, seed=seed), target, problem, cases)
        else:
            run = _emulated(problem, target, cases, seed, sanitize)
        for verdict in run:
            verdicts.append(verdict)
            output.note(str(verdict))
    output.show(_table(verdicts, where))
    command = ["verify", *opt.problem_arguments(problems), *([] if family is None else ["--family", family])]
    command += opt.cores_arguments(cores)
    command += [flag for flag, given in (("--emulate", not on_device), ("--sanitize", sanitize)) if given]
    command += ["--seed", str(seed), *([] if on_device and not on_cpu else place.arguments(on_cpu, target))]
    output.finish([*command, *opt.database_arguments(db)], {"verdicts": [verdict.document for verdict in verdicts]})
    wrong = [verdict for verdict in verdicts if verdict.is_wrong]
    if wrong:
        raise Im2wingenError(f"{len(wrong)} of {len(verdicts)} kernels failed; the first: {wrong[0]}")


def _cases(problem: ConvProblem, target: AnyTarget, names: Sequence[str] | None, url: str) -> list[_Case]:
    """The default of every family (or of those named), and the stored best where it's another config."""
    families = families_for(problem, target, names)
    cases = [_Case(origin="default", family=family, config=family.default(problem, target)) for family in families]
    choice = look_up(problem, target, url, families=names)
    known = {(case.family.name, case.config) for case in cases}
    if choice.record is not None and (choice.family, choice.config) not in known:
        cases.append(
            _Case(origin=f"stored, level {choice.level}", family=family_named(choice.family), config=choice.config)
        )
    return cases


def _measured(
    worker: DeviceWorker, target: AnyTarget, problem: ConvProblem, cases: Iterable[_Case]
) -> Iterator[_Verdict]:
    """Each case in a process that a hang or a fault may end."""
    cache = CubinCache(read_settings().cache_dir)
    with worker:
        for case in cases:
            plan = case.family.plan(problem, target, case.config)
            try:
                cubins = tuple(cache.get_or_compile(source, target.arch) for source in plan_sources(plan))
            except CompileError as error:
                evaluation = Evaluation(outcome=Outcome.COMPILE_ERROR, reason=str(error))
            else:
                evaluation = worker.evaluate(
                    Candidate(family=case.family.name, config_digest=case.config.digest(), plan=plan, cubins=cubins)
                )
            yield _Verdict(case=case, where=target.name, ran=problem, evaluation=evaluation)


def _emulated(
    problem: ConvProblem, target: Target, cases: Iterable[_Case], seed: int, sanitize: bool
) -> Iterator[_Verdict]:
    """Each case at a size for the emulator; a default that fits none gives way to the small problem's own default."""
    from im2wingen.tuning.prediction import scaled_down
    from im2wingen.verify_emulated import verify_emulated

    for case in cases:
        small = scaled_down(problem, target, case.family, case.config)
        if small is None and case.origin == "default":
            small = _small(problem)
            config = case.family.default(small, target)
            case = _Case(origin="default of the small problem", family=case.family, config=config)
        if small is None:
            reason = "not run: no problem small enough for the emulator obeys the config's rules"
            yield _Verdict(case=case, where="emulator", ran=problem, evaluation=None, reason=reason)
            continue
        try:
            plan = case.family.plan(small, target, case.config)
            error = verify_emulated(small, plan, seed=seed, sanitize=sanitize)
            evaluation = Evaluation(outcome=Outcome.OK, error=error)
        except WrongResultError as wrong:
            evaluation = Evaluation(outcome=Outcome.WRONG_RESULT, reason=str(wrong))
        except (GuardError, EmulatorError) as fault:
            evaluation = Evaluation(outcome=Outcome.ILLEGAL_ACCESS, reason=str(fault))
        yield _Verdict(case=case, where="emulator", ran=small, evaluation=evaluation)


def _small(problem: ConvProblem) -> ConvProblem:
    """The same filter, strides, pads and layouts with few pixels and channels; C and K keep their remainder by 8."""
    return replace(
        problem,
        n=min(problem.n, 2),
        c=problem.c if problem.groups > 1 else min(problem.c, 16 + problem.c % 8),
        k=problem.k if problem.groups > 1 else min(problem.k, 32 + problem.k % 8),
        h=min(problem.h, problem.window_h + 2 * problem.stride_h),
        w=min(problem.w, problem.window_w + 8 * problem.stride_w),
    )


def _table(verdicts: Iterable[_Verdict], where: str) -> Table:
    columns = ("verified problem", "family", "config", "origin", "outcome", "#max error", "#norm error", "#us")
    rows = []
    for verdict in verdicts:
        evaluation = verdict.evaluation
        error, timing = (evaluation.error, evaluation.timing) if evaluation else (None, None)
        rows.append(
            [
                opt.problem_name(verdict.ran), verdict.case.family.name, verdict.case.config.digest(),
                verdict.case.origin, str(evaluation.outcome) if evaluation else "not run",
                f"{error.max_error:.3g}" if error else "-", f"{error.norm_error:.3g}" if error else "-",
                format_us(timing.median_us) if timing else "-",
            ]
        )  # fmt: skip
    return rows_table(f"verified on {where}", columns, rows)
