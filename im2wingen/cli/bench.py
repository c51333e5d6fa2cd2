"""im2wingen bench: the layers side by side with cuDNN and other peers, and a README's table out of the result."""

from pathlib import Path
from typing import Annotated

import typer

from im2wingen.bench.request import PEERS, layer_names, peer_names, request
from im2wingen.bench.result import BenchOptions, BenchResult, load
from im2wingen.bench.table import default_name, rewrite_file, table_of
from im2wingen.cli.options import (
    BatchOption,
    DbOption,
    JsonOption,
    LayoutOption,
    PrecisionOption,
    ShapesArgument,
    ShapesOption,
    database_arguments,
)
from im2wingen.cli.output import Output
from im2wingen.errors import UsageError
from im2wingen.layers import SUITES

_AGAINST_HELP = f"Peers, separated by commas: {', '.join(PEERS)}; or none."


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    shapes: ShapesArgument = None,
    shape: ShapesOption = None,
    suite: Annotated[str, typer.Option(help=f"The layers where no shape is given: {', '.join(SUITES)}.")] = "im2win",
    layers: Annotated[str | None, typer.Option(help="Only these of the suite: cv1,cv8.")] = None,
    against: Annotated[str, typer.Option(help=_AGAINST_HELP)] = "cudnn",
    precision: PrecisionOption = "fp16",
    layout: LayoutOption = "nhwc",
    batch: BatchOption = None,
    prepacked: Annotated[bool, typer.Option(help="Pack the filter beforehand, outside the time.")] = False,
    rounds: Annotated[int, typer.Option(help="Rounds in which every contestant is timed.")] = 3,
    plan_seconds: Annotated[float, typer.Option(help="Seconds a layer for screening cuDNN's plans.")] = 4.0,
    finalists: Annotated[int, typer.Option(help="Plans of cuDNN that go through the whole protocol.")] = 3,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which no further layer starts.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result there after every layer, as JSON.")] = None,
    table: Annotated[Path | None, typer.Option(help="Measure nothing: take this result of an earlier --out.")] = None,
    readme: Annotated[Path | None, typer.Option(help="Rewrite the table between this file's bench markers.")] = None,
    name: Annotated[str | None, typer.Option(help="The markers' name; without it such as fp16-nhwc-n128.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write bars there (.png, .svg ...); needs matplotlib.")] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure im2wingen beside cuDNN's best plan and other peers, all verified, in one process.

    A README's table stands between <!-- bench:NAME --> and <!-- /bench:NAME -->; --table FILE --readme README rewrites
    it from a result without a device.
    """
    output = Output(as_json=as_json)
    if name is not None and readme is None:
        raise UsageError("name is the name of a table in a file; give the file with --readme")
    if time_limit is not None and time_limit <= 0:
        raise UsageError(f"time limit is {time_limit:g}; allowed is a number of seconds above 0")
    names = layer_names([*(shapes or ()), *(shape or ())], suite, layers)
    problems, options = request(
        names, against=peer_names(against), precision=precision, layout=layout, batch=batch, prepacked=prepacked,
        rounds=rounds, plan_seconds=plan_seconds, finalists=finalists,
    )  # fmt: skip
    if table is not None:
        command = ["bench", "--table", str(table)]
        result = load(table)
    else:
        from im2wingen.bench.suite import run_bench

        command = ["bench", *_words(options, batch), *database_arguments(db)]
        command += ["--out", str(out)] if out is not None else []
        result = run_bench(
            problems, options, out=out, db=db, on_layer=lambda so_far: output.note(_progress(so_far)),
            time_limit_s=float("inf") if time_limit is None else time_limit,
        )  # fmt: skip
    shown = table_of(result)
    output.show(shown.to_rich())
    for layer in result.layers:
        for contestant, sentence in layer.skipped.items():
            output.note(f"{layer.layer}: {contestant}: {sentence}")
    if readme is not None:
        marker = name or default_name(result)
        changed = rewrite_file(readme, marker, shown.to_markdown())
        output.note(f"{readme}: table bench:{marker} {'rewritten' if changed else 'was up to date'}")
        command += ["--readme", str(readme), *(["--name", name] if name else [])]
    if plot is not None:
        from im2wingen.bench.plot import save_plot

        save_plot(result, plot)
        command += ["--plot", str(plot)]
    output.finish(command, {"result": result.to_dict()})


def _words(options: BenchOptions, batch: int | None) -> list[str]:
    """The command line's words for a measurement."""
    words = [*options.layers, "--against", ",".join(options.against) or "none"]
    words += ["--precision", options.precision, "--layout", options.layout]
    words += [] if batch is None else ["--batch", str(batch)]
    words += ["--prepacked"] if options.prepacked else []
    words += ["--rounds", str(options.rounds), "--plan-seconds", f"{options.plan_seconds:g}"]
    return [*words, "--finalists", str(options.finalists)]


def _progress(result: BenchResult) -> str:
    """One line about the layer that was measured last."""
    layer = result.layers[-1]
    parts = [f"{layer.layer} ({result.elapsed_s:.0f} s):"]
    best = sorted(layer.measurements, key=lambda m: m.median_us)
    parts += [f"{m.contestant} {m.median_us:.1f} us ({m.tflops:.0f} TFLOPS)" for m in best]
    return " ".join([parts[0], ", ".join(parts[1:]) or "nothing ran"])
