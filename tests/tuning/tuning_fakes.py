"""Families and an executor without a device: a config's time is a formula, every answer is there at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, Self

from im2wingen.errors import Im2wingenError
from im2wingen.families.base import Choose, Config, Family, Plan, Rule
from im2wingen.families.support import pack_filter
from im2wingen.nvrtc import Cubin, nvrtc_version
from im2wingen.outcome import Candidate, ErrorStats, Evaluation, Outcome, Timing
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.target import Target, preset
from im2wingen.tuning.attempt import Compiled
from im2wingen.tuning.executors import DeviceFacts

PROBLEM = ConvProblem.parse("n2c8h8w8k16r3s3")
TARGET = replace(preset("sm_90a"), name="Fake GPU", predicted=False)
FACTS = DeviceFacts(target=TARGET, driver_version="1.2", protocol_version=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeConfig(Config):
    threads: int
    depth: int
    word: Literal["alpha", "beta", "gamma"] = "alpha"  # changes nothing about the kernel


def suggest(problem: ConvProblem, target: Target, choose: Choose) -> FakeConfig:
    return FakeConfig(
        threads=choose("threads", (32, 64, 96, 128, 192, 256)),
        depth=choose("depth", (1, 2, 3, 4, 6, 8)),
        word=choose("word", ("alpha", "beta", "gamma")),
    )


def fake_family(name: str, *, smem_bytes: int = 0) -> Family:
    """Legal configs have threads * depth <= 1024; the kernel is filter packing with that many threads."""

    def plan(problem: ConvProblem, target: Target, config: FakeConfig) -> Plan:
        launch, size = pack_filter(problem, order="row")
        launch = replace(
            launch,
            values={**launch.values, "THREADS": config.threads},
            block=config.threads,
            smem_bytes=smem_bytes + 1024 * config.depth,
            flops=1_000_000 // config.depth,
            pipe="ffma",
        )
        return Plan(launches=(launch,), workspace={"packed": size})

    return Family(
        name=name,
        cores="cuda" if name == "one" else "tensor",
        config_type=FakeConfig,
        templates=("pack_filter",),
        archs=("sm_90a",),
        unsupported=lambda problem, target: "it wants eight channels" if problem.c % 8 else None,
        suggest=suggest,
        rules=(Rule(sentence="threads * depth <= 1024", holds=lambda p, t, c: c.threads * c.depth <= 1024),),
        default=lambda problem, target: FakeConfig(threads=32, depth=1),
        plan=plan,
    )


ONE = fake_family("one")
TWO = fake_family("two", smem_bytes=64)  # as ONE, but a little slower


def fake_cubins(sources: Sequence[Source], **facts: Any) -> tuple[Cubin, ...]:
    """Cubins whose image is the text; `facts` replace the harmless ones."""
    harmless: dict[str, Any] = {"num_regs": 32, "spill_bytes": 0, "stack_bytes": 0, "smem_bytes": 0}
    return tuple(
        Cubin(
            kernel=source.kernel,
            arch=TARGET.arch,
            image=source.text.encode(),
            log="",
            compile_s=0.1,
            nvrtc_version=nvrtc_version(),
            **{**harmless, **facts},
        )
        for source in sources
    )


def time_us(candidate: Candidate) -> float:
    """The best is threads 128, depth 8."""
    (launch,) = candidate.plan.launches
    return 100 + abs(launch.block - 128) / 4 + 10 * (8 - launch.smem_bytes // 1024) + launch.smem_bytes % 1024 / 64


def timed(us: float) -> Evaluation:
    timing = Timing(median_us=us, min_us=us, spread=0.0, samples=7, clock_mhz=1000)
    return Evaluation(outcome=Outcome.OK, timing=timing, error=ErrorStats(max_error=1e-3, norm_error=1e-4))


@dataclass(kw_only=True)
class FakeExecutor:
    """Answers by the functions given; what they raise is raised by the futures."""

    compile_slots: int = 3
    device_slots: int = 1
    facts: DeviceFacts = FACTS
    compiler: Callable[[Sequence[Source]], tuple[Cubin, ...]] = fake_cubins
    device: Callable[[Candidate, float | None], Evaluation] = lambda candidate, best_us: timed(time_us(candidate))
    referee: Callable[[Candidate], Evaluation | None] = lambda candidate: timed(time_us(candidate))
    evaluated: list[Candidate] = field(default_factory=list)
    finalists: list[Compiled] = field(default_factory=list)
    open: bool = False

    def compile(self, sources: tuple[Source, ...]) -> Future[tuple[Cubin, ...]]:
        assert self.open
        return _settled(lambda: self.compiler(sources))

    def evaluate(self, candidate: Candidate, best_us: float | None) -> Future[Evaluation]:
        assert self.open
        self.evaluated.append(candidate)
        return _settled(lambda: self.device(candidate, best_us))

    def play_off(self, finalists: Sequence[Compiled], seconds: float) -> Future[list[Evaluation | None]]:
        assert self.open
        self.finalists.extend(finalists)
        return _settled(lambda: [self.referee(finalist.candidate) for finalist in finalists])

    def __enter__(self) -> Self:
        self.open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.open = False


def _settled(work: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work())
    except (Im2wingenError, KeyboardInterrupt) as error:
        future.set_exception(error)
    return future
