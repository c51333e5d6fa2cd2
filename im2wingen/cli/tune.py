"""im2wingen tune: search the best kernel of one or several problems."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from im2wingen.backends import Backend
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.cpu_target import CpuTarget
from im2wingen.device import device_count
from im2wingen.errors import UsageError
from im2wingen.families import AnyTarget, families_for, family_names
from im2wingen.problem import ConvProblem
from im2wingen.report import config_table, rows_table, speed_sentence
from im2wingen.target import DEFAULT_ARCH, Target, preset

if TYPE_CHECKING:
    from im2wingen.compile_pool import CompilePool
    from im2wingen.tune import TuneResult

_EXECUTORS = ("local",)


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def tune(
    shapes: opt.ShapesArgument = None,
    shape: opt.ShapesOption = None,
    precision: opt.AnyPrecisionOption = None,
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    epilogue: opt.EpilogueOption = "none",
    time_budget: Annotated[
        float, typer.Option(help="Seconds for each problem, set-up included; exceeded until a first one has run.")
    ] = 45.0,
    max_trials: Annotated[int | None, typer.Option(help="At most this many configurations for each problem.")] = None,
    family: Annotated[list[str] | None, typer.Option(help="Only this kernel family; may be repeated.")] = None,
    cores: opt.CoresOption = None,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the problem's latest study.")] = False,
    executor: Annotated[str, typer.Option(help="Who compiles and measures: local (this host).")] = "local",
    backend: opt.BackendOption = None,
    threads: opt.ThreadsOption = None,
    arch: opt.ArchOption = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Search the configurations of each problem, verify and measure them, and store every trial.

    On a GPU and on the CPU every number is measured; without a GPU the CPU is tuned if it can run the problem. With
    --arch, or where neither can, kernels are compiled for real, their times are the cost model's estimates, the
    finalists are verified in the CPU emulator, and the records are marked as predicted; a measurement always outranks
    them. Ctrl-C keeps what was stored.

    \b
    im2wingen tune cv5 --precision fp16 --layout nhwc
    im2wingen tune n32c64h56w56k64r3s3pad1 --time-budget 120 --db team.sqlite
    im2wingen tune im2win --precision fp32 --arch sm_80
    im2wingen tune cv9 --batch 1 --backend cpu --threads 2
    """
    place = opt.Place(arch=arch, backend=backend, threads=threads)
    options = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue=epilogue)
    families = family_names(family, cores)
    problems, on_cpu = place.resolve(options, shapes, shape, families)
    if executor not in _EXECUTORS:
        raise UsageError(f"executor is {executor!r}; allowed are {', '.join(_EXECUTORS)}")
    output = Output(as_json=as_json)
    target = None if on_cpu else _stand_in(arch, backend, output)
    shown_target = target or (_cpu(threads, backend, output) if on_cpu else opt.find_target(None, output))
    for problem in problems:  # before hours are spent on those that come first
        families_for(problem, shown_target, families)
    from im2wingen.tuning.cpu_executor import cpu_compiler_pool
    from im2wingen.tuning.executors import compiler_pool

    results: list[TuneResult] = []
    with cpu_compiler_pool() if on_cpu else compiler_pool() as pool:
        for problem in problems:
            results.append(
                _tuned(
                    problem, target, shown_target, output, pool, families=families, time_budget_s=time_budget,
                    max_trials=max_trials, seed=seed, resume=resume, db=db, backend="cpu" if on_cpu else None,
                    threads=threads,
                )
            )  # fmt: skip
            if results[-1].stopped_by == "interrupted":
                break
    command = ["tune", *opt.problem_arguments(problems), "--time-budget", f"{time_budget:g}"]
    command += [] if max_trials is None else ["--max-trials", str(max_trials)]
    command += [word for name in family or () for word in ("--family", name)]
    command += opt.cores_arguments(cores)
    command += ["--seed", str(seed), *(["--resume"] if resume else [])]
    command += [] if target is None and not on_cpu else place.arguments(on_cpu, shown_target)
    output.finish([*command, *opt.database_arguments(db)], {"results": [_document(result) for result in results]})


def _cpu(threads: int | None, backend: str | None, output: Output) -> CpuTarget:
    """This machine's CPU, said where nobody asked for it; Im2wingenError where no compiler is here."""
    target = cpu_with(threads)
    compiler = cpu_compiler_version()
    if backend is None:
        output.note(
            f"there is no CUDA device here: tuning on the CPU, {target.name} ({target.arch}), with {compiler}; "
            f"--arch {DEFAULT_ARCH} explores for a GPU"
        )
    return target


def _stand_in(arch: str | None, backend: str | None, output: Output) -> Target | None:
    """The preset to predict for; None where this machine's device is measured."""
    if arch is None and (device_count() or backend == "cuda"):
        return None
    target = preset(arch or DEFAULT_ARCH)
    why = "--arch was given" if arch else "there is no CUDA device here"
    output.note(
        f"{why}: exploring for {target.name} ({target.arch}); kernels are compiled for real, times are the cost "
        "model's estimates and are stored as predicted"
    )
    return target


def _tuned(
    problem: ConvProblem,
    target: Target | None,
    shown_target: AnyTarget,
    output: Output,
    pool: "CompilePool",
    *,
    families: Sequence[str] | None,
    time_budget_s: float,
    max_trials: int | None,
    seed: int,
    resume: bool,
    db: str | None,
    backend: Backend | None,
    threads: int | None,
) -> "TuneResult":
    """Tune one problem, shown live, and show what was found."""
    from im2wingen.cli.live import TuneDisplay
    from im2wingen.tune import tune as run_tune  # brings Optuna along

    title = f"tuning {opt.problem_name(problem)} for {shown_target.name} ({shown_target.arch})"
    with TuneDisplay(output, problem, shown_target, title) as display:
        result = run_tune(
            problem,
            target=target,
            backend=backend,
            threads=threads,
            families=families,
            time_budget_s=time_budget_s,
            max_trials=max_trials,
            seed=seed,
            resume=resume,
            db=opt.database_url(db),
            pool=pool,
            on_progress=display,
        )
    _show(result, output)
    return result


def _show(result: "TuneResult", output: Output) -> None:
    best = result.best
    output.show(f"{opt.problem_name(result.problem)} on {result.target.name} ({result.target.arch})")
    if best is None or best.median_us is None:
        output.show("no configuration ran; see the outcomes")
    else:
        output.show(f"best: {speed_sentence(result.problem, result.target, best.median_us, predicted=best.predicted)}")
        if result.gain is not None:
            output.show(f"{result.gain:.2f} times as fast as the default configuration of family {best.family}")
        output.show(config_table(f"{best.family} {best.config_digest}", best.config))
    rows = [[outcome, str(count)] for outcome, count in sorted(result.counts.items(), key=lambda item: -item[1])]
    output.show(rows_table("outcomes", ("outcome", "#trials"), rows))
    output.show(
        f"{result.trials} trials in {result.elapsed_s:.1f} s, stopped by {result.stopped_by}, "
        f"{result.restored} from earlier runs, {result.illegal_picks} picks broke a rule; study {result.study}"
    )


def _document(result: "TuneResult") -> dict[str, object]:
    best = result.best
    return {
        "problem_key": result.problem.key,
        "device_name": result.target.name,
        "arch": result.target.arch,
        "predicted": result.target.predicted,
        "study": result.study,
        "best": None if best is None else opt.record_document(best),
        "default_us": result.default.median_us if result.default else None,
        "gain": result.gain,
        "trials": result.trials,
        "restored": result.restored,
        "illegal_picks": result.illegal_picks,
        "outcomes": dict(result.counts),
        "elapsed_s": round(result.elapsed_s, 3),
        "stopped_by": result.stopped_by,
    }
