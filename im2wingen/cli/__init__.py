"""The command line: one file a verb; here is what they share, and the one place where errors become exit codes."""

import logging
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from im2wingen import __version__
from im2wingen.cli import bench, best, db, doctor, inspect, tune, verify
from im2wingen.errors import Im2wingenError
from im2wingen.settings import read_settings

log = logging.getLogger(__name__)

_HELP = """im2win convolution kernels: generated, tuned on your GPU or CPU, stored and served.

\b
im2wingen tune cv5 --precision fp16 --layout nhwc     find the best kernel of a layer
im2wingen best cv5                                    what is stored about it
im2wingen bench --against cudnn                       the twelve layers, side by side
im2wingen inspect cv5 --source                        read its source
im2wingen verify cv5                                  check the numbers against float64
im2wingen doctor                                      what is installed, what is missing

Every verb takes the shape as its argument or as --shape, prints the command line that reproduces what it did (on
stderr), and with --json writes one JSON document to stdout and everything else to stderr.

\b
Exit codes: 0 done; 1 our fault; 2 usage; 3 the problem is not supported; 4 no device; 5 nothing stored.
Environment: IM2WINGEN_DB, IM2WINGEN_CACHE, IM2WINGEN_MODE, IM2WINGEN_TUNE_BUDGET, IM2WINGEN_CXX, IM2WINGEN_LOG.
"""
_INTERRUPTED = 130


class _Verbs(TyperGroup):
    """Runs a verb and turns what it raises into one sentence on stderr and the documented exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Im2wingenError as error:
            _complain(str(error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            _complain("interrupted; what was stored before is kept")
            raise typer.Exit(_INTERRUPTED) from error
        except (typer.TyperException, typer.Exit, typer.Abort, BrokenPipeError):  # the parser's own, and a closed pipe
            raise
        except Exception as error:
            log.debug("unexpected error", exc_info=True)
            _complain(
                f"an error of im2wingen itself: {type(error).__name__}: {error}; "
                "please report it with the output of IM2WINGEN_LOG=DEBUG and of `im2wingen doctor`"
            )
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Verbs,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (tune, inspect, bench, best, verify, db, doctor):
    verb.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"im2wingen {__version__}")
        raise typer.Exit


@app.callback()
def _prepare(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    level = logging.getLevelNamesMapping().get(read_settings().log_level, logging.WARNING)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("im2wingen").setLevel(level)


def main() -> None:
    """Run the command line of this process and exit."""
    app()


def _complain(sentence: str) -> None:
    typer.echo(f"im2wingen: {sentence}", err=True)
