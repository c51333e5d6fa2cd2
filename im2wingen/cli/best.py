"""im2wingen best: what is stored about a problem, best first."""

from collections.abc import Sequence
from typing import Annotated

import typer

from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu_target import cpu_target
from im2wingen.db import LayeredRecords, TrialRecord
from im2wingen.device import device_count
from im2wingen.errors import NotStoredError
from im2wingen.families import FAMILIES, AnyTarget, family_named, family_names
from im2wingen.problem import ConvProblem
from im2wingen.render import template_digests
from im2wingen.report import config_table, records_table
from im2wingen.runtime import opened_records
from im2wingen.target import PRESETS


def register(app: typer.Typer) -> None:
    app.command("best")(best)


def best(
    shapes: opt.ShapesArgument = None,
    shape: opt.ShapesOption = None,
    precision: opt.AnyPrecisionOption = None,
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    epilogue: opt.EpilogueOption = "none",
    limit: Annotated[int, typer.Option(min=1, help="Records of each problem.")] = 3,
    cores: opt.CoresOption = None,
    backend: opt.BackendOption = None,
    arch: opt.ArchOption = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show the best stored records of each problem: the user's database first, then those that came with im2wingen.

    Without --arch and --backend: of this machine's device or, where there is none, of the CPU and of every GPU
    architecture. Records of kernel templates that have changed since are left out, as `load` leaves them out. Exits
    with 5 where nothing is stored.
    """
    place = opt.Place(arch=arch, backend=backend, threads=None)
    options = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue=epilogue)
    families = family_names(None, cores)
    problems, _ = place.resolve(options, shapes, shape, families)
    output = Output(as_json=as_json)
    targets = _targets(arch, backend, output)
    with opened_records(opt.database_url(db)) as records:
        found = {problem: _best(records, problem, targets, limit, families) for problem in problems}
    if not any(found.values()):
        where = targets[0].arch if len(targets) == 1 else "any architecture"
        words = " ".join([*opt.problem_arguments(problems), *opt.cores_arguments(cores)])
        raise NotStoredError(f"nothing is stored for {problems[0].key} and {where}; run: im2wingen tune {words}")
    for problem, stored in found.items():
        if stored:
            output.show(records_table(opt.problem_name(problem), stored))
            output.show(config_table(f"{stored[0].family} {stored[0].config_digest}", stored[0].config))
        else:
            output.note(f"nothing is stored for {problem.key}")
    command = ["best", *opt.problem_arguments(problems), "--limit", str(limit), *opt.cores_arguments(cores)]
    command += [] if len(targets) > 1 else place.arguments(backend == "cpu", targets[0])
    document: dict[str, object] = {
        "problems": [
            {"problem_key": problem.key, "records": [opt.record_document(record) for record in stored]}
            for problem, stored in found.items()
        ]
    }
    output.finish([*command, *opt.database_arguments(db)], document)


def _targets(arch: str | None, backend: str | None, output: Output) -> list[AnyTarget]:
    if backend == "cpu":
        return [cpu_target()]
    if arch is None and device_count() == 0:
        return [*([] if backend else [cpu_target()]), *PRESETS.values()]
    return [opt.find_target(arch, output)]


def _best(
    records: LayeredRecords,
    problem: ConvProblem,
    targets: list[AnyTarget],
    limit: int,
    families: Sequence[str] | None,
) -> list[TrialRecord]:
    digests = template_digests(family_named(name) for name in families or FAMILIES)
    return [
        record
        for target in targets
        for record in records.best(
            problem.key, arch=target.arch, device_name=target.name, template_digests=digests, limit=limit
        )
    ]
