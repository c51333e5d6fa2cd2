"""im2wingen db: look at the tuning database, move records in and out, clean it up."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from im2wingen.cache import CubinCache
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.db import TrialRecord, TuningDatabase, best_of_each, export_lines, read_export, write_export
from im2wingen.db.connection import parse_place
from im2wingen.errors import NotStoredError, UsageError
from im2wingen.families import FAMILIES
from im2wingen.outcome import Outcome
from im2wingen.problem import ConvProblem
from im2wingen.render import template_digests
from im2wingen.report import format_bytes, format_us, records_table, rows_table
from im2wingen.settings import read_settings

_TRUST_HELP = "Keep the records' cubin hashes: kernels in the cache that match them may be loaded."
TrustOption = Annotated[bool, typer.Option("--trust", help=_TRUST_HELP)]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(
        help="Look at the tuning database, move records in and out, clean it up.", no_args_is_help=True,
        rich_markup_mode=None,
    )  # fmt: skip
    for name, command in (
        ("ls", ls), ("show", show), ("export", export), ("import", import_), ("merge", merge), ("gc", gc)
    ):  # fmt: skip
        verbs.command(name)(command)
    app.add_typer(verbs, name="db")


def ls(db: opt.DbOption = None, as_json: opt.JsonOption = False) -> None:
    """List the problems with what is stored about each."""
    output = Output(as_json=as_json)
    with _existing(db) as database:
        summaries = database.problems()
        shown = database.place.shown
    rows = [
        [
            opt.problem_name(ConvProblem.from_key(one.problem_key)), str(one.trials), str(one.measured),
            format_us(one.best_us), str(one.devices), one.last_created_at[:19],
        ]
        for one in summaries
    ]  # fmt: skip
    columns = ("problem", "#trials", "#measured", "#best us", "#devices", "last")
    output.show(rows_table(shown, columns, rows))
    output.finish(["db", "ls", *opt.database_arguments(db)], {"problems": [asdict(summary) for summary in summaries]})


def show(
    shape_argument: opt.ShapeArgument = None,
    shape: opt.ShapeOption = None,
    precision: opt.PrecisionOption = "fp16",
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    epilogue: opt.EpilogueOption = "none",
    failures: Annotated[bool, typer.Option("--failures", help="Only what did not run, with the reason.")] = False,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show every stored trial of a problem, failures with their reason. SHAPE may be a problem key as `ls` shows it."""
    output = Output(as_json=as_json)
    options = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue=epilogue)
    is_key = shape_argument is not None and "/" in shape_argument
    problem = ConvProblem.from_key(shape_argument or "") if is_key else options.one(shape_argument, shape)
    with _existing(db) as database:
        records = database.records(problem.key)
    if not records:
        raise NotStoredError(f"nothing is stored for {problem.key}")
    if failures:
        records = [record for record in records if record.outcome not in (Outcome.OK, Outcome.SLOWER)]
    else:
        records.sort(key=lambda record: (record.median_us is None, record.median_us or 0.0))
    output.show(records_table(opt.problem_name(problem), records))
    for record in records:
        if record.reason and failures:
            output.show(f"{record.study} #{record.trial}: {record.reason}")
    command = ["db", "show", *opt.problem_arguments([problem]), *(["--failures"] if failures else [])]
    output.finish(
        [*command, *opt.database_arguments(db)],
        {"problem_key": problem.key, "records": [opt.record_document(record) for record in records]},
    )


def export(
    file: Annotated[str, typer.Argument(help="The file to write, or - for stdout.")],
    keep_best: Annotated[
        int | None, typer.Option("--best", min=1, help="Only the best this many configs of each problem and device.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Only trials of the device of this name.")] = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Write records as sorted JSON lines, which diff and merge well."""
    if file == "-" and as_json:
        raise UsageError("file is '-' and --json is given; both want stdout, choose one")
    output = Output(as_json=as_json)
    with _existing(db) as database:
        records = [record for record in database.records() if device in (None, record.device_name)]
    if keep_best is not None:
        records = list(best_of_each(records, keep_best))
    if file == "-":
        count = len(records)
        for line in export_lines(records):
            output.text(line)
    else:
        try:
            count = write_export(records, Path(file))
        except OSError as error:
            raise UsageError(f"file is {file!r}, which can't be written: {error.strerror}") from error
        output.show(f"{count} records written to {file}")
    command = ["db", "export", file, *([] if keep_best is None else ["--best", str(keep_best)])]
    command += [] if device is None else ["--device", device]
    output.finish([*command, *opt.database_arguments(db)], {"file": file, "records": count})


def import_(
    files: Annotated[list[Path], typer.Argument(help="Files that `export` wrote.")],
    trust: TrustOption = False,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Take in exported records: configurations and numbers, never binaries. All of it or, on an error, nothing."""
    records = [record for file in files for record in read_export(file, trust=trust)]
    words = [str(file) for file in files]
    _take(records, ["db", "import", *words, *(["--trust"] if trust else [])], db, Output(as_json=as_json))


def merge(
    others: Annotated[list[str], typer.Argument(metavar="DATABASE...", help="Paths or URLs of other databases.")],
    trust: TrustOption = False,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Take in all records of other tuning databases, which stay as they are."""
    records: list[TrialRecord] = []
    for url in others:
        with TuningDatabase.open(url, read_only=True) as other:
            records += other.records() if trust else (replace(r, cubin_sha256=()) for r in other.records())
    _take(records, ["db", "merge", *others, *(["--trust"] if trust else [])], db, Output(as_json=as_json))


def gc(
    keep_best: Annotated[
        int | None, typer.Option("--best", min=1, help="Keep only the best this many configs of each problem.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Remove records of kernel templates that have changed since, and the kernel cache's least used files.

    With --best also whatever is not among the best of its problem and device; studies thinned out can't be resumed.
    """
    output = Output(as_json=as_json)
    with _existing(db, read_only=dry_run) as database:
        gone = database.gc(template_digests=template_digests(FAMILIES.values()), keep_best=keep_best, dry_run=dry_run)
    freed_bytes = 0 if dry_run else CubinCache(read_settings().cache_dir).gc()
    would = "would go" if dry_run else "removed"
    output.show(f"{would}: {gone.stale} records of changed templates, {gone.surplus} beyond the best")
    if not dry_run:
        output.show(f"kernel cache: {format_bytes(freed_bytes)} freed")
    command = ["db", "gc", *([] if keep_best is None else ["--best", str(keep_best)])]
    output.finish(
        [*command, *(["--dry-run"] if dry_run else []), *opt.database_arguments(db)],
        {"stale": gone.stale, "surplus": gone.surplus, "cache_freed_bytes": freed_bytes, "dry_run": dry_run},
    )


def _existing(db: str | None, *, read_only: bool = True) -> TuningDatabase:
    """The user's database; NotStoredError where it doesn't exist yet."""
    url = opt.database_url(db)
    file = parse_place(url, 0.0).file
    if file is not None and not file.exists():
        raise NotStoredError(f"nothing is stored: there is no tuning database at {file}")
    return TuningDatabase.open(url, read_only=read_only)


def _take(records: Iterable[TrialRecord], command: list[str], db: str | None, output: Output) -> None:
    kept = list(records)
    with TuningDatabase.open(opt.database_url(db)) as database:
        new = database.record_all(kept)
    output.show(f"{new} new records of {len(kept)}")
    output.finish([*command, *opt.database_arguments(db)], {"records": len(kept), "new": new})
