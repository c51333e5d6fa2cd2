"""Fresh interpreters for work that may hang or crash. Unlike multiprocessing's spawn they never run __main__ again."""

import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from im2wingen.errors import Im2wingenError

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({handle})"


def start_child(module: str, what: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process that runs `serve(handle)` of the module, and our end of the connection that `handle` opens there.

    It inherits the caller's sys.path and signal mask. Im2wingenError says that `what` can't be started.
    """
    ours, theirs = Pipe()
    program = _PROGRAM.format(path=sys.path, module=module, handle=theirs.fileno())
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        ours.close()
        raise Im2wingenError(f"{what} can't be started: {error.strerror}") from error
    finally:
        theirs.close()
    return process, ours
