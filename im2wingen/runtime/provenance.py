"""Provenance: which kernel serves a convolution, by which rule it was chosen, and what is known about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from im2wingen.cpu_target import CpuTarget
from im2wingen.db.records import TrialRecord
from im2wingen.families.base import AnyTarget, TemplateValue
from im2wingen.nvrtc import Cubin
from im2wingen.problem import ConvProblem
from im2wingen.runtime.choice import Choice, Level

Origin = Literal["cache", "compiled", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a convolution's kernels come from.

    `record` is the stored trial that the config was taken from, None at level default. `origin` says whether all cubins
    came from the kernel cache, at least one was compiled now, or none were needed (no device).
    """

    problem_key: str
    level: Level
    rule: str  # a sentence
    family: str
    config: Mapping[str, TemplateValue]
    config_digest: str
    arithmetic: str  # `split`: fp32 of halves on tensor cores; `native`: the precision's own
    arch: str
    device_name: str | None  # None: loaded for an arch, to look at
    predicted: bool  # no measurement of this problem on this arch stands behind the choice
    record: TrialRecord | None
    workspace_bytes: int
    cubin_sha256: tuple[str, ...]  # one a launch, in launch order
    origin: Origin
    threads: int | None = None  # of the CPU; None on a GPU

    @classmethod
    def of(
        cls,
        problem: ConvProblem,
        target: AnyTarget,
        choice: Choice,
        cubins: tuple[Cubin, ...],
        origin: Origin,
        *,
        device_name: str | None,
    ) -> "Provenance":
        record = choice.record
        return cls(
            problem_key=problem.key,
            level=choice.level,
            rule=choice.rule,
            family=choice.family,
            config=choice.config.to_dict(),
            config_digest=choice.config.digest(),
            arithmetic=choice.config.arithmetic_name,
            arch=target.arch,
            device_name=device_name,
            predicted=choice.level != "exact" or record is None or record.predicted,
            record=record,
            workspace_bytes=choice.plan.workspace_bytes,
            cubin_sha256=tuple(cubin.sha256 for cubin in cubins),
            origin=origin,
            threads=target.cores if isinstance(target, CpuTarget) else None,
        )

    def to_dict(self) -> dict[str, object]:
        """JSON's types alone; the record shrinks to its measurement."""
        record = self.record
        return {
            "problem_key": self.problem_key,
            "level": self.level,
            "rule": self.rule,
            "family": self.family,
            "config": dict(self.config),
            "config_digest": self.config_digest,
            "arithmetic": self.arithmetic,
            "arch": self.arch,
            "device_name": self.device_name,
            "predicted": self.predicted,
            "record": None
            if record is None
            else {
                "problem_key": record.problem_key,
                "device_name": record.device_name,
                "predicted": record.predicted,
                "median_us": record.median_us,
                "study": record.study,
                "trial": record.trial,
                "created_at": record.created_at,
            },
            "workspace_bytes": self.workspace_bytes,
            "cubin_sha256": list(self.cubin_sha256),
            "origin": self.origin,
            "threads": self.threads,
        }

    def __str__(self) -> str:
        text = f"{self.problem_key}: {self.family} {self.config_digest}, level {self.level} ({self.rule})"
        if self.arithmetic != "native":
            text += f", {self.arithmetic} arithmetic"
        if self.record is not None and self.record.median_us is not None:
            text += f", {'predicted' if self.record.predicted else 'measured'} {self.record.median_us:.1f} us there"
        return text
