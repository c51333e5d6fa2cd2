"""A benchmark run: every layer, every contestant, one process, one stream; written out after each layer."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from im2wingen.bench import direct, im2col, inductor, ours, torch_conv
from im2wingen.bench.accuracy import Reference, check, reference
from im2wingen.bench.buffers import Buffers, allocate, set_count, unwritten
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.cudnn import PlanScreen, Screening
from im2wingen.bench.environment import versions
from im2wingen.bench.floor import allow_tf32, floor_us, measure_ceilings
from im2wingen.bench.in_time import layers_in_time
from im2wingen.bench.optional import PeerUnavailableError, import_torch, sentence_of
from im2wingen.bench.result import (
    CUDNN,
    OURS,
    PLANS,
    PROTOCOL,
    UNTRIED,
    BenchOptions,
    BenchResult,
    LayerResult,
    Measurement,
    measurement_of,
    save,
)
from im2wingen.bench.timing import GraphTimer, time_interleaved
from im2wingen.device import Device, device_count, open_device
from im2wingen.errors import Im2wingenError, NoDeviceError
from im2wingen.families import check_cores
from im2wingen.outcome import ErrorStats, Timing
from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

_PREPARE: dict[str, Callable[[Session], list[Contestant]]] = {
    "im2col": im2col.contestants,
    "direct": direct.contestants,
    "inductor": inductor.contestants,
}
_SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A contestant that gave the right answer."""

    contestant: Contestant
    timer: GraphTimer
    error: ErrorStats
    peak_bytes: int


def run_bench(
    problems: Mapping[str, ConvProblem],
    options: BenchOptions,
    *,
    out: Path | None = None,
    time_limit_s: float = float("inf"),
    db: str | None = None,
    on_layer: Callable[[BenchResult], None] = lambda _: None,
) -> BenchResult:
    """Measure the problems (layer name -> problem) in order; `on_layer` sees the result so far after each.

    `out` is rewritten after each layer. No layer starts that the time limit would cut, as far as the longest one so far
    tells; what is missing then leaves `complete` false. Raises PeerUnavailableError without PyTorch, NoDeviceError.
    """
    started = time.monotonic()
    if device_count() == 0:
        raise NoDeviceError("bench measures on a CUDA device and this machine has none")
    torch = import_torch()
    with (
        closing(open_device(torch.cuda.current_device())) as device,
        torch.cuda.stream(torch.cuda.Stream()),
        _plan_screen(torch, options) as (screen, no_plans),
    ):
        run = _Run(torch, device, options, screen, no_plans, db)
        result = BenchResult(
            protocol=PROTOCOL,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            device=device.name,
            arch=device.target.arch,
            versions=versions(torch, device.driver_version),
            options=options,
            ceilings=run.ceilings,
            elapsed_s=0.0,
            complete=False,
            layers=(),
        )
        for layer, elapsed_s in layers_in_time(problems, run.layer, started=started, time_limit_s=time_limit_s):
            layers = (*result.layers, layer)
            result = replace(result, layers=layers, elapsed_s=elapsed_s, complete=len(layers) == len(problems))
            if out is not None:
                save(result, out)
            on_layer(result)
    return result


@contextmanager
def _plan_screen(torch: Any, options: BenchOptions) -> Iterator[tuple[PlanScreen | None, str]]:
    """The cuDNN handle on the current stream, or None and the sentence why not."""
    if CUDNN not in options.against:
        yield None, ""
        return
    try:
        screen = PlanScreen(torch.cuda.current_stream())
    except PeerUnavailableError as error:
        log.warning("%s", error)
        yield None, str(error)
        return
    try:
        yield screen, ""
    finally:
        torch.cuda.synchronize()
        screen.close()


class _Run:
    """What the layers of one run share."""

    def __init__(
        self,
        torch: Any,
        device: Device,
        options: BenchOptions,
        screen: PlanScreen | None,
        no_plans: str,
        db: str | None,
    ) -> None:
        self._torch, self._device, self._options, self._db = torch, device, options, db
        self._screen, self._no_plans = screen, no_plans
        self._cores = check_cores(options.cores)
        if screen is None:  # then PyTorch's own search is all that speaks for cuDNN
            torch.backends.cudnn.benchmark_limit = 0
        self.ceilings = measure_ceilings(torch, options.precision)
        allow_tf32(torch, options.precision == "tf32")

    def layer(self, name: str, problem: ConvProblem) -> LayerResult:
        """Prepare, verify and time all contestants of one layer."""
        torch, options = self._torch, self._options
        sets = set_count(problem, self._device.target.l2_bytes)
        buffers = allocate(torch, problem, sets, seed=_SEED)
        session = Session(
            torch=torch, target=self._device.target, problem=problem, buffers=buffers, prepacked=options.prepacked,
            db=self._db, plan_seconds=options.plan_seconds, finalists=options.finalists, cores=self._cores,
        )  # fmt: skip
        skipped: dict[str, str] = {}
        screening = self._screen_plans(session, skipped)
        contestants = self._others(session, skipped) + screening.finalists
        expected = reference(torch, problem, buffers)
        entries: dict[str, _Entry] = {}
        for contestant in contestants:
            with self._skipping(contestant.name, skipped):
                entries[contestant.name] = _try_out(torch, session, expected, contestant)
        timers = {entry_name: entry.timer for entry_name, entry in entries.items()}
        timings = time_interleaved(timers, rounds=options.rounds, clock_mhz=self._device.clock_mhz) if timers else {}
        for timer in timers.values():
            timer.close()
        measurements = [_measurement(problem, entries[key], timings[key]) for key in entries]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return LayerResult(
            layer=name, problem_key=problem.key, flops=problem.flops, compulsory_bytes=problem.compulsory_bytes,
            floor_us=floor_us(problem, self.ceilings), buffer_sets=sets, plans_offered=screening.offered,
            plans_screened=screening.screened, measurements=tuple(measurements), skipped=skipped,
        )  # fmt: skip

    def _screen_plans(self, session: Session, skipped: dict[str, str]) -> Screening:
        screening = Screening()
        if CUDNN not in self._options.against:
            return screening
        if self._screen is None:
            skipped[PLANS] = self._no_plans
            return screening
        with self._skipping(PLANS, skipped):
            screening = self._screen.screen(session)
            if screening.out_of_time:
                skipped[PLANS] = f"{screening.out_of_time} of {screening.offered}{UNTRIED}"
        return screening

    def _others(self, session: Session, skipped: dict[str, str]) -> list[Contestant]:
        """Ours, PyTorch's cuDNN entry and the peers asked for; in the order in which a first round runs them."""
        found: list[Contestant] = []
        with self._skipping(OURS, skipped):
            found.append(ours.contestant(session))
        if CUDNN in self._options.against:
            with self._skipping("torch", skipped):
                found.append(torch_conv.contestant(session))
        for peer, prepare in _PREPARE.items():
            if peer in self._options.against:
                with self._skipping(peer, skipped):
                    found += prepare(session)
        return found

    @contextmanager
    def _skipping(self, name: str, skipped: dict[str, str]) -> Iterator[None]:
        """What a contestant can't do becomes a sentence; a broken CUDA context still ends the run."""
        try:
            yield
        except (Im2wingenError, RuntimeError) as error:
            self._torch.cuda.synchronize()
            log.warning("%s is left out: %s", name, error)
            skipped[name] = sentence_of(error)


def _try_out(torch: Any, session: Session, expected: Reference, contestant: Contestant) -> _Entry:
    """Run it twice on a y that nobody has written, watching the allocator, then capture it."""
    buffers: Buffers = session.buffers
    buffers.y[0].fill_(unwritten(torch, buffers.y[0].dtype))
    before = torch.cuda.memory_allocated()
    contestant.launch(0)
    torch.cuda.synchronize()
    held = contestant.held_bytes + torch.cuda.memory_allocated() - before
    if contestant.allocates_output:
        held -= buffers.y[0].numel() * session.problem.y_element_bytes
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    contestant.launch(0)
    torch.cuda.synchronize()
    transient = torch.cuda.max_memory_allocated() - before
    error = check(torch, session.problem, expected, contestant.output(0))
    timer = GraphTimer(torch, contestant.launch, sets=buffers.sets)
    return _Entry(contestant=contestant, timer=timer, error=error, peak_bytes=max(0, held) + transient)


def _measurement(problem: ConvProblem, entry: _Entry, timing: Timing) -> Measurement:
    contestant = entry.contestant
    return measurement_of(
        problem, timing, entry.error, contestant=contestant.name, peer=contestant.peer, detail=contestant.detail,
        workspace_bytes=contestant.workspace_bytes, peak_bytes=entry.peak_bytes, tflops_digits=2,
    )  # fmt: skip
