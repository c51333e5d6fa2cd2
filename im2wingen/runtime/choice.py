"""Which configuration serves a problem, and by which rule: stored best, a neighbour's, or the family's default."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from im2wingen.compilers import made_here
from im2wingen.cost_model import estimate_us
from im2wingen.cpu_target import CpuTarget
from im2wingen.db.look_up import LayeredRecords
from im2wingen.db.records import TrialRecord
from im2wingen.errors import UsageError
from im2wingen.families import families_for
from im2wingen.families.base import AnyTarget, Config, Family, Plan
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, plan_sources, sources_digest, template_digests

log = logging.getLogger(__name__)

Level = Literal["exact", "batch", "shape", "default"]
_RECORDS = 8  # of the problem itself that are looked at before the next level
_NEIGHBOURS = 16
_WORSE = 1.03  # times the default's estimate: what a neighbour's config may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A legal configuration of the problem, rendered; `record` is what it was taken from, None for a default."""

    level: Level
    rule: str  # a sentence
    family: str
    config: Config
    plan: Plan
    sources: tuple[Source, ...]  # one a launch
    record: TrialRecord | None = None

    @property
    def recorded_sha256(self) -> tuple[str, ...]:
        """The cubins that the record vouches for; empty where it can't: another problem or compiler."""
        record = self.record
        if record is None or self.level != "exact":
            return ()
        if not made_here(record.arch, nvrtc=record.nvrtc_version, driver=record.driver_version):
            return ()
        return record.cubin_sha256 if len(record.cubin_sha256) == len(self.sources) else ()


def choose(
    problem: ConvProblem,
    target: AnyTarget,
    records: LayeredRecords,
    *,
    device_name: str | None = None,
    families: Sequence[str] | None = None,
) -> Choice:
    """The best known configuration, by the levels exact, batch, shape, default; any supported problem gets one.

    Stored configurations must fit their family's config type and rules for this problem, their templates must be those
    of today and, at level exact, so must the rendered source; another problem's must be hardly slower than the
    default by the cost model, unless it was measured and the problem differs in the epilogue alone. `families` restrict
    the choice. Raises UnsupportedError with the reason of each family, UsageError for an unknown family.
    """
    able = {one.name: one for one in families_for(problem, target, families)}
    default = None
    for choice in _stored(problem, target, records, able, device_name):
        if choice.level == "exact" or _measured_but_for_epilogue(choice, problem):
            return choice
        default = default or _default(problem, target, able)
        if estimate_us(choice.plan, target) <= _WORSE * estimate_us(default.plan, target):
            return choice
    return default or _default(problem, target, able)


def _measured_but_for_epilogue(choice: Choice, problem: ConvProblem) -> bool:
    record = choice.record
    if record is None or record.predicted:
        return False
    return replace(ConvProblem.from_key(record.problem_key), epilogue=problem.epilogue) == problem


def _stored(
    problem: ConvProblem,
    target: AnyTarget,
    records: LayeredRecords,
    able: Mapping[str, Family],
    device_name: str | None,
) -> Iterator[Choice]:
    """Usable choices from the database, best first; asked for lazily, level by level."""
    digests = template_digests(able.values())
    stored = records.best(
        problem.key, arch=target.arch, device_name=device_name,
        cores=target.cores if isinstance(target, CpuTarget) else None, template_digests=digests, limit=_RECORDS,
    )  # fmt: skip
    for record in stored:
        how = "predicted for" if record.predicted else "measured on"
        yield from _usable(problem, target, able, record, "exact", f"the best of this problem {how} {_where(record)}")
    for neighbour in records.near(
        problem, arch=target.arch, device_name=device_name, template_digests=digests, limit=_NEIGHBOURS
    ):
        record = neighbour.record
        if neighbour.level == "batch":
            rule = f"the best of the same layer stored as {record.problem_key}"
        else:
            rule = f"the best of the nearest stored layer, {record.problem_key}"
        yield from _usable(problem, target, able, record, neighbour.level, rule)


def _usable(
    problem: ConvProblem,
    target: AnyTarget,
    able: Mapping[str, Family],
    record: TrialRecord,
    level: Level,
    rule: str,
) -> Iterator[Choice]:
    """The record as a choice for this problem, or nothing where it doesn't serve."""
    family = able[record.family]
    try:
        config = family.config_from_dict(record.config)
    except UsageError as error:
        log.warning("ignored a stored record of %s: %s", record.problem_key, error)
        return
    if broken := family.broken_rules(problem, target, config):
        log.debug("config %s of %s does not serve %s: %s", record.config_digest, family.name, problem.key, broken[0])
        return
    plan = family.plan(problem, target, config)
    sources = plan_sources(plan)
    if level == "exact" and record.source_digest and record.source_digest != sources_digest(sources):
        log.info("ignored a stored record of %s: its kernels are rendered differently today", record.problem_key)
        return
    yield Choice(level=level, rule=rule, family=family.name, config=config, plan=plan, sources=sources, record=record)


def _default(problem: ConvProblem, target: AnyTarget, able: Mapping[str, Family]) -> Choice:
    """The default config of the family that the cost model ranks first."""
    plans: list[tuple[float, str, Config, Plan]] = []
    for name, family in able.items():
        config = family.default(problem, target)
        plan = family.plan(problem, target, config)
        plans.append((estimate_us(plan, target, None), name, config, plan))
    _, name, config, plan = min(plans, key=lambda entry: entry[:2])
    rule = f"nothing stored serves it well: the default config of family {name}"
    return Choice(level="default", rule=rule, family=name, config=config, plan=plan, sources=plan_sources(plan))


def _where(record: TrialRecord) -> str:
    return f"{record.device_name} ({record.arch})"
