"""One config on its way through a tuning run: its kernels, what forbids to run them, and its record."""

from collections.abc import Hashable
from dataclasses import dataclass

from im2wingen.compilers import made_here
from im2wingen.cost_model import resident_ctas, warp_registers
from im2wingen.cpu_target import CpuTarget
from im2wingen.db import TrialRecord
from im2wingen.families.base import AnyTarget, Family, Plan
from im2wingen.nvrtc import Cubin, nvrtc_version
from im2wingen.outcome import Candidate, Evaluation, Outcome
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, plan_sources, sources_digest, template_digest
from im2wingen.tuning.study import Pick

_MAX_REASON = 2000  # characters of a compiler log that a record keeps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """A pick as trial `number`, rendered."""

    number: int
    pick: Pick
    plan: Plan
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """An attempt with its cubins, one a launch."""

    attempt: Attempt
    cubins: tuple[Cubin, ...]

    @property
    def candidate(self) -> Candidate:
        pick = self.attempt.pick
        return Candidate(
            family=pick.family.name, config_digest=pick.config.digest(), plan=self.attempt.plan, cubins=self.cubins
        )

    @property
    def kernels(self) -> Hashable:
        """Equal where the same machine code runs in the same way, whatever the configs say."""
        plan = self.attempt.plan
        launches = tuple((one.grid, one.block, one.smem_bytes, one.arguments) for one in plan.launches)
        return tuple(cubin.sha256 for cubin in self.cubins), launches, tuple(sorted(plan.workspace.items()))


def rendered(problem: ConvProblem, target: AnyTarget, number: int, pick: Pick) -> Attempt:
    """Plan and render a pick."""
    plan = pick.family.plan(problem, target, pick.config)
    return Attempt(number=number, pick=pick, plan=plan, sources=plan_sources(plan))


def forbidden(compiled: Compiled, target: AnyTarget) -> Evaluation | None:
    """The outcome of kernels that spill or don't fit an SM; None where they may run."""
    if isinstance(target, CpuTarget):
        return None
    for launch, cubin in zip(compiled.attempt.plan.launches, compiled.cubins, strict=True):
        if cubin.spill_bytes:
            reason = f"{cubin.kernel} spills {cubin.spill_bytes} bytes of registers"
            return Evaluation(outcome=Outcome.SPILLS, reason=reason)
        smem = launch.smem_bytes + cubin.smem_bytes
        if smem > target.smem_per_block_bytes:
            reason = f"{cubin.kernel} needs {smem} bytes of shared memory; a CTA has {target.smem_per_block_bytes}"
            return Evaluation(outcome=Outcome.ILLEGAL, reason=reason)
        registers = -(-launch.block // 32) * warp_registers(cubin.num_regs)
        if resident_ctas(launch, target, cubin) == 0:
            reason = f"{cubin.kernel} needs {registers} registers a CTA; an SM has {target.regs_per_sm}"
            return Evaluation(outcome=Outcome.ILLEGAL, reason=reason)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMaker:
    """What the records of one run on one device have in common."""

    problem: ConvProblem
    target: AnyTarget
    driver_version: str
    protocol_version: int
    study: str

    def fits(self, record: TrialRecord, families: dict[str, Family]) -> bool:
        """The record could have come from this run: same device, protocol, compiler and templates."""
        family = families.get(record.family)
        return family is not None and (
            record.device_name,
            record.arch,
            record.sm_count,
            record.predicted,
            record.protocol_version,
            record.template_digest,
            made_here(record.arch, nvrtc=record.nvrtc_version, driver=record.driver_version),
        ) == (
            self.target.name,
            self.target.arch,
            self._cores,
            self.target.predicted,
            self.protocol_version,
            template_digest(family.templates),
            True,
        )

    @property
    def _cores(self) -> int:
        """SMs, or the CPU's cores in use."""
        return self.target.cores if isinstance(self.target, CpuTarget) else self.target.sm_count

    def record(
        self, attempt: Attempt, evaluation: Evaluation, cubins: tuple[Cubin, ...] = (), *, play_off: bool = False
    ) -> TrialRecord:
        """The attempt's record; without `cubins` where they weren't compiled."""
        family, config, plan = attempt.pick.family, attempt.pick.config, attempt.plan
        timing, error = evaluation.timing, evaluation.error
        on_cpu = isinstance(self.target, CpuTarget)
        smem_bytes = [
            launch.smem_bytes + cubin.smem_bytes for launch, cubin in zip(plan.launches, cubins, strict=False)
        ]
        return TrialRecord(
            problem_key=self.problem.key,
            family=family.name,
            config=config.to_dict(),
            config_digest=config.digest(),
            template_digest=template_digest(family.templates),
            source_digest=sources_digest(attempt.sources),
            outcome=evaluation.outcome,
            reason=evaluation.reason[:_MAX_REASON],
            device_name=self.target.name,
            arch=self.target.arch,
            sm_count=self._cores,
            driver_version=self.driver_version,
            nvrtc_version="" if on_cpu else cubins[0].nvrtc_version if cubins else nvrtc_version(),
            predicted=self.target.predicted,
            median_us=timing.median_us if timing else None,
            min_us=timing.min_us if timing else None,
            spread=timing.spread if timing else None,
            samples=timing.samples if timing else 0,
            clock_mhz=timing.clock_mhz if timing else 0,
            protocol_version=self.protocol_version,
            max_error=error.max_error if error else None,
            norm_error=error.norm_error if error else None,
            workspace_bytes=plan.workspace_bytes,
            num_regs=None if on_cpu else max((cubin.num_regs for cubin in cubins), default=None),
            smem_bytes=None if on_cpu else max(smem_bytes, default=None),
            cubin_sha256=tuple(cubin.sha256 for cubin in cubins),
            study=self.study,
            trial=attempt.number,
            play_off=play_off,
        )
