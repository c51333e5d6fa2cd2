"""im2wingen bench: the layers side by side with other libraries, and a README's table out of the result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from im2wingen.bench.accuracy_table import accuracy_table, default_accuracy_name
from im2wingen.bench.markdown import BenchTable, rewrite_file
from im2wingen.bench.request import CPU_PEERS, PEERS, cpu_request, layer_names, peer_names, request
from im2wingen.bench.result import load
from im2wingen.bench.runs import median_of
from im2wingen.bench.stored import AnyResult, any_name, any_table_of, load_any, progress_of
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.errors import UsageError
from im2wingen.families import family_names
from im2wingen.layers import SUITES
from im2wingen.problem import ConvProblem

_AGAINST_HELP = (
    f"Peers, separated by commas: {', '.join(PEERS)}, on the CPU {', '.join(CPU_PEERS)}; or none "
    "[cudnn, on the CPU all]."
)
_ROUNDS, _CPU_ROUNDS = 3, 5
_PLAN_SECONDS, _FINALISTS = 4.0, 3


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is measured and how, wherever it is."""

    names: tuple[str, ...]
    against: str | None
    some: ConvProblem  # precision and layout are everyone's
    batch: int | None
    prepacked: bool
    rounds: int | None
    cores: str | None


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    shapes: opt.ShapesArgument = None,
    shape: opt.ShapesOption = None,
    suite: Annotated[str, typer.Option(help=f"The layers where no shape is given: {', '.join(SUITES)}.")] = "im2win",
    layers: Annotated[str | None, typer.Option(help="Only these of the suite: cv1,cv8.")] = None,
    against: Annotated[str | None, typer.Option(help=_AGAINST_HELP, show_default=False)] = None,
    precision: opt.AnyPrecisionOption = None,
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    prepacked: Annotated[bool, typer.Option(help="Pack the filter beforehand, outside the time.")] = False,
    rounds: Annotated[
        int | None,
        typer.Option(
            help=f"Rounds in which every contestant is timed [{_ROUNDS}, on the CPU {_CPU_ROUNDS}].", show_default=False
        ),
    ] = None,
    plan_seconds: Annotated[
        float | None,
        typer.Option(help=f"Seconds a layer for screening cuDNN's plans [{_PLAN_SECONDS:g}].", show_default=False),
    ] = None,
    finalists: Annotated[
        int | None,
        typer.Option(help=f"Plans of cuDNN that go through the whole protocol [{_FINALISTS}].", show_default=False),
    ] = None,
    cores: opt.CoresOption = None,
    backend: opt.BackendOption = None,
    threads: opt.ThreadsOption = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which no further layer starts.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result there after every layer, as JSON.")] = None,
    table: Annotated[
        list[Path] | None,
        typer.Option(help="Measure nothing: take this result of an earlier --out. Once a run; of several, medians."),
    ] = None,
    accuracy: Annotated[
        list[Path] | None,
        typer.Option(help="Measure nothing: the errors in this result and others, as one table. Once a result."),
    ] = None,
    readme: Annotated[Path | None, typer.Option(help="Rewrite the table between this file's bench markers.")] = None,
    name: Annotated[str | None, typer.Option(help="The markers' name; without it such as fp16-nhwc-n128.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write bars there (.png, .svg ...); needs matplotlib.")] = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure im2wingen beside cuDNN's best plan, on the CPU oneDNN's best way, and other peers; all verified, in one
    process.

    A README's table stands between <!-- bench:NAME --> and <!-- /bench:NAME -->; --table FILE --readme README rewrites
    it from a result without measuring, and --table FILE --table FILE ... from several GPU runs: each layer from the run
    in which its speed-up is the median.

    \b
    im2wingen bench --suite im2win --precision fp16 --out result.json
    im2wingen bench --backend cpu --batch 1 --prepacked --out cpu.json
    im2wingen bench --accuracy fp32.json --accuracy tf32.json --readme README.md
    """
    output = Output(as_json=as_json)
    if name is not None and readme is None:
        raise UsageError("name is the name of a table in a file; give the file with --readme")
    if time_limit is not None and time_limit <= 0:
        raise UsageError(f"time limit is {time_limit:g}; allowed is a number of seconds above 0")
    if accuracy:
        _show_accuracy(accuracy, readme, name, output)
        return
    result: AnyResult
    if table:
        command = ["bench", *(word for path in table for word in ("--table", str(path)))]
        result = load_any(table[0]) if len(table) == 1 else median_of([load(path) for path in table])
    else:
        names = layer_names([*(shapes or ()), *(shape or ())], suite, layers)
        place = opt.Place(arch=None, backend=backend, threads=threads)
        wanted = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue="none")
        problems, on_cpu = place.resolve(wanted, names, None, family_names(None, cores))
        asked = _Asked(names, against, problems[0], batch, prepacked, rounds, cores)
        limit_s = float("inf") if time_limit is None else time_limit
        if on_cpu:
            _refuse_on_cpu(plan_seconds, finalists, cores)
            result, words = _on_cpu(asked, place, output, out, db, limit_s)
        else:
            result, words = _on_gpu(asked, plan_seconds, finalists, output, out, db, limit_s)
        command = ["bench", *words, *opt.database_arguments(db), *(["--out", str(out)] if out is not None else [])]
    _show(result, output)
    if readme is not None:
        command += _rewrite(readme, name, any_name(result), any_table_of(result), output)
    if plot is not None:
        from im2wingen.bench.plot import save_plot

        save_plot(result, plot)
        command += ["--plot", str(plot)]
    output.finish(command, {"result": result.to_dict()})


def _show_accuracy(paths: list[Path], readme: Path | None, name: str | None, output: Output) -> None:
    """The errors of several results as one table."""
    results = [load(path) for path in paths]
    table = accuracy_table(results)
    output.show(table.to_rich())
    command = ["bench", *(word for path in paths for word in ("--accuracy", str(path)))]
    if readme is not None:
        command += _rewrite(readme, name, default_accuracy_name(results), table, output)
    output.finish(command, {"header": table.header, "rows": table.rows})


def _rewrite(readme: Path, name: str | None, default: str, table: BenchTable, output: Output) -> list[str]:
    """Put the table into the file; the command line's words for it."""
    changed = rewrite_file(readme, name or default, table.to_markdown())
    output.note(f"{readme}: table bench:{name or default} {'rewritten' if changed else 'was up to date'}")
    return ["--readme", str(readme), *(["--name", name] if name else [])]


def _on_gpu(
    asked: _Asked,
    plan_seconds: float | None,
    finalists: int | None,
    output: Output,
    out: Path | None,
    db: str | None,
    time_limit_s: float,
) -> tuple[AnyResult, list[str]]:
    """The result, and the command line's words for it."""
    from im2wingen.bench.suite import run_bench

    problems, options = request(
        asked.names, against=peer_names("cudnn" if asked.against is None else asked.against),
        precision=asked.some.precision, layout=asked.some.layout, batch=asked.batch, prepacked=asked.prepacked,
        rounds=_ROUNDS if asked.rounds is None else asked.rounds,
        plan_seconds=_PLAN_SECONDS if plan_seconds is None else plan_seconds,
        finalists=_FINALISTS if finalists is None else finalists, cores=asked.cores,
    )  # fmt: skip
    result = run_bench(
        problems, options, out=out, db=db, on_layer=lambda so_far: output.note(progress_of(so_far)),
        time_limit_s=time_limit_s,
    )  # fmt: skip
    words = _words(asked, options.against, options.rounds)
    return result, [*words, "--plan-seconds", f"{options.plan_seconds:g}", "--finalists", str(options.finalists)]


def _on_cpu(
    asked: _Asked, place: opt.Place, output: Output, out: Path | None, db: str | None, time_limit_s: float
) -> tuple[AnyResult, list[str]]:
    """The same on this machine's CPU, which is said where nobody asked for it."""
    from im2wingen.bench.cpu.process import run_cpu_bench

    target = cpu_with(place.threads)
    problems, options = cpu_request(
        asked.names, against=peer_names(",".join(CPU_PEERS) if asked.against is None else asked.against, CPU_PEERS),
        precision=asked.some.precision, layout=asked.some.layout, batch=asked.batch, prepacked=asked.prepacked,
        rounds=_CPU_ROUNDS if asked.rounds is None else asked.rounds, threads=target.cores,
    )  # fmt: skip
    compiler = cpu_compiler_version()
    if place.backend is None:
        output.note(
            f"there is no CUDA device here: measuring on the CPU, {target.name} ({target.arch}), with {compiler}"
        )
    result = run_cpu_bench(
        problems, options, out=out, db=db, on_layer=lambda so_far: output.note(progress_of(so_far)),
        time_limit_s=time_limit_s,
    )  # fmt: skip
    return result, [*_words(asked, options.against, options.rounds), *place.arguments(True, target)]


def _refuse_on_cpu(plan_seconds: float | None, finalists: int | None, cores: str | None) -> None:
    if cores is not None:
        raise UsageError("--cores are a GPU's; leave it out on the CPU")
    if plan_seconds is not None or finalists is not None:
        raise UsageError("--plan-seconds and --finalists are for cuDNN's plans; leave them out on the CPU")


def _words(asked: _Asked, against: tuple[str, ...], rounds: int) -> list[str]:
    """The command line's words that both have."""
    words = [*asked.names, "--against", ",".join(against) or "none"]
    words += ["--precision", asked.some.precision, "--layout", asked.some.layout]
    words += [] if asked.batch is None else ["--batch", str(asked.batch)]
    words += ["--prepacked"] if asked.prepacked else []
    words += opt.cores_arguments(asked.cores)
    return [*words, "--rounds", str(rounds)]


def _show(result: AnyResult, output: Output) -> None:
    """The table, and what is missing in it."""
    output.show(any_table_of(result).to_rich())
    for layer in result.layers:
        for contestant, sentence in layer.skipped.items():
            output.note(f"{layer.layer}: {contestant}: {sentence}")
