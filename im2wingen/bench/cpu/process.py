"""The CPU benchmark from outside: a process with pinned threads measures, this one writes and shows."""

import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from im2wingen.bench.cpu.conditions import bench_environment
from im2wingen.bench.cpu.result import CpuBenchOptions, CpuBenchResult
from im2wingen.bench.cpu.suite import CpuBenchRequest, measured
from im2wingen.bench.result import save
from im2wingen.child_process import kill_group, start_child
from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.errors import Im2wingenError, UsageError
from im2wingen.families import families_for
from im2wingen.problem import ConvProblem
from im2wingen.settings import environment_with

_ENDING_LIMIT_S = 30.0
_PRECISIONS = ("fp32", "bf16", "int8")


def run_cpu_bench(
    problems: Mapping[str, ConvProblem],
    options: CpuBenchOptions,
    *,
    out: Path | None = None,
    time_limit_s: float = float("inf"),
    db: str | None = None,
    on_layer: Callable[[CpuBenchResult], None] = lambda _: None,
) -> CpuBenchResult:
    """Measure the problems (layer name -> problem) in order; `on_layer` sees the result so far after each.

    `out` is rewritten after each layer. No layer starts that the time limit would cut, as far as the longest one so far
    tells; what is missing then leaves `complete` false. Raises UsageError for more threads than cores and for
    precisions and layouts that no peer has, UnsupportedError for a problem that the CPU can't run, Im2wingenError
    without a compiler or where the process died.
    """
    target = cpu_with(options.threads)
    cpu_compiler_version()
    for problem in problems.values():
        families_for(problem, target)
        _check_peers(problem)
    request = CpuBenchRequest(problems=problems, options=options, time_limit_s=time_limit_s, db=db)
    process, connection = start_child(
        "im2wingen.bench.cpu.process", "the benchmark's process",
        environment=environment_with(bench_environment(options.threads)),
    )  # fmt: skip
    result: CpuBenchResult | None = None
    try:
        connection.send(request)
        while (answer := connection.recv()) is not None:
            if isinstance(answer, str):
                raise Im2wingenError(answer)
            assert isinstance(answer, CpuBenchResult)
            result = answer
            if result.layers:
                if out is not None:
                    save(result, out)
                on_layer(result)
    except (EOFError, ConnectionError):
        code = process.wait(_ENDING_LIMIT_S)
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        raise Im2wingenError(f"the benchmark's process {how}; what it wrote to stderr says why") from None
    finally:
        connection.close()
        kill_group(process)
        process.wait()
    assert result is not None
    return result


def _check_peers(problem: ConvProblem) -> None:
    """UsageError for what no peer computes."""
    if problem.precision not in _PRECISIONS:
        raise UsageError(f"precision is {problem.precision!r}; bench on the CPU measures {', '.join(_PRECISIONS)}")
    if not {problem.x_layout, problem.y_layout} <= {"nhwc", "nchw"}:
        raise UsageError(f"layout is {problem.layout!r}; bench on the CPU measures nhwc, nchw, nchw-nhwc and nhwc-nchw")


def serve(handle: int) -> None:
    """The process's end: the result after each layer, then None; a text says what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    with Connection(handle) as connection:
        try:
            for result in measured(connection.recv()):
                connection.send(result)
            connection.send(None)
        except (EOFError, ConnectionError):
            return
        except Im2wingenError as error:
            connection.send(str(error))
