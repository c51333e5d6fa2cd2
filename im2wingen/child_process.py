"""Fresh interpreters for work that may hang or crash. Unlike multiprocessing's spawn they never run __main__ again."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from im2wingen.errors import Im2wingenError

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({handle})"


def start_child(
    module: str, what: str, *, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that runs `serve(handle)` of the module, and our end of the connection that `handle` opens there.

    It inherits the caller's sys.path, signal mask and, where none is given, environment, and leads a process group of
    its own, so that what it starts ends with it and a terminal's Ctrl-C is the caller's alone. Im2wingenError says
    that `what` can't be started.
    """
    ours, theirs = Pipe()
    program = _PROGRAM.format(path=sys.path, module=module, handle=theirs.fileno())
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            process_group=0, env=environment,
        )  # fmt: skip
    except OSError as error:
        ours.close()
        raise Im2wingenError(f"{what} can't be started: {error.strerror}") from error
    finally:
        theirs.close()
    return process, ours


def signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Send a signal to a child and to what it started, where there is something left of them."""
    if process.returncode is None:  # else its id may be another's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """End a child and what it started now."""
    signal_group(process, signal.SIGKILL)
    process.kill()  # where it has not made its group yet
