"""Where the command line writes: results to stdout, everything else to stderr."""

import json
import shlex
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType

_PIPE_WIDTH = 200  # columns of tables that go to a file or a pipe


class Output:
    """One command's output. With `as_json` stdout gets one JSON document and nothing else."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = _console(stderr=False)
        self.err = _console(stderr=True)

    def note(self, sentence: str) -> None:
        """Something that the user should know, on stderr."""
        self.err.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        """A table or sentence for people, on stdout; nothing under --json."""
        if not self.as_json:
            self._out.print(renderable, highlight=False, markup=False, soft_wrap=isinstance(renderable, str))

    def text(self, text: str) -> None:
        """Text as it is, on stdout."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def finish(self, command: Sequence[str], document: dict[str, object]) -> None:
        """Say which command line does the same again and, under --json, write the document with it."""
        line = shlex.join(("im2wingen", *command))
        self.note(f"reproduce: {line}")
        if self.as_json:
            self.text(json.dumps({"command": line, **document}, indent=2, allow_nan=False))


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PIPE_WIDTH)
