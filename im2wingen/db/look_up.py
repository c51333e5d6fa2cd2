"""Which stored record serves a problem: the ranking, the levels, and several sources asked as one."""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from im2wingen.db.records import TrialRecord
from im2wingen.problem import ConvProblem

Level = Literal["batch", "shape"]


class RecordSource(Protocol):
    """Records that a look-up may read: usable ones and refutations, none with a stale template digest."""

    def candidates(
        self, problem_key: str, *, arch: str, template_digests: Mapping[str, str]
    ) -> Sequence[TrialRecord]: ...

    def problem_keys(self, kind: str, *, arch: str, template_digests: Mapping[str, str]) -> Iterable[str]:
        """The problems of a kind (precision and layouts) for which `candidates` gives something."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The best record of another problem, and how near that problem is.

    `batch`: the same layer, which differs in the batch (or the epilogue) alone; `shape`: another layer.
    """

    level: Level
    distance: float  # see `distance`
    record: TrialRecord


@dataclass(frozen=True, slots=True)
class LayeredRecords:
    """Several sources as one; on equal footing the records of an earlier source come first."""

    sources: tuple[RecordSource, ...]

    def best(
        self,
        problem_key: str,
        *,
        arch: str,
        device_name: str | None = None,
        cores: int | None = None,
        template_digests: Mapping[str, str],
        limit: int = 1,
    ) -> list[TrialRecord]:
        """Up to `limit` records of different configs, best first, see `rank`.

        `template_digests` maps each family that may answer to its template digest of today.
        """
        layers = [s.candidates(problem_key, arch=arch, template_digests=template_digests) for s in self.sources]
        return rank(layers, device_name=device_name, cores=cores)[:limit]

    def near(
        self,
        problem: ConvProblem,
        *,
        arch: str,
        device_name: str | None = None,
        template_digests: Mapping[str, str],
        limit: int = 5,
    ) -> list[Neighbour]:
        """The best record of each of up to `limit` other problems of the same precision and layouts.

        Level `batch` comes before level `shape`; within a level the nearer problem, then the smaller key. A single
        entry in `template_digests` keeps the answer within that family. The caller checks that a config is legal here.
        """
        keys: set[str] = set()
        for source in self.sources:
            keys.update(source.problem_keys(kind_of(problem), arch=arch, template_digests=template_digests))
        order: list[tuple[bool, float, str]] = []
        for key in keys - {problem.key}:
            other = ConvProblem.from_key(key)
            order.append((_layer(other) != _layer(problem), distance(problem, other), key))
        found: list[Neighbour] = []
        for another_layer, how_far, key in heapq.nsmallest(limit, order):
            best = self.best(key, arch=arch, device_name=device_name, template_digests=template_digests)
            level: Level = "shape" if another_layer else "batch"
            found += [Neighbour(level=level, distance=how_far, record=record) for record in best]
        return found


def rank(
    layers: Iterable[Iterable[TrialRecord]], *, device_name: str | None, cores: int | None = None
) -> list[TrialRecord]:
    """Order the usable records of one problem and arch, one for each config that no play-off refuted.

    In this order: measured before predicted; this device's name before others of the arch; as many `cores` (a CPU's
    threads) before other numbers; earlier layer; newer measuring protocol; then the median. Within a study, play-off
    medians stand before all others, so a config that was not in its study's play-off comes after those that were,
    however fast its own trial was.
    Ties break by config digest.
    """
    footings: dict[tuple[bool, bool, bool, int, int], dict[str, list[TrialRecord]]] = defaultdict(
        lambda: defaultdict(list)
    )
    known = [list(records) for records in layers]
    refutations = (record for records in known for record in records if is_refutation(record))
    refuted = set().union(*map(_subjects, refutations))
    for layer, records in enumerate(known):
        for record in records:
            if not is_usable(record) or (refuted and not refuted.isdisjoint(_subjects(record))):
                continue
            elsewhere = device_name is not None and record.device_name != device_name
            others = cores is not None and record.sm_count != cores
            footings[record.predicted, elsewhere, others, layer, -record.protocol_version][record.study].append(record)
    ordered: dict[tuple[str, str], TrialRecord] = {}
    for _, studies in sorted(footings.items()):
        queues = [sorted(studies[study], key=lambda r: (not r.play_off, *_speed(r))) for study in sorted(studies)]
        for record in heapq.merge(*queues, key=_speed):  # by the heads: nothing overtakes within a study
            ordered.setdefault((record.family, record.config_digest), record)
    return list(ordered.values())


def best_of_each(records: Iterable[TrialRecord], keep: int) -> Iterator[TrialRecord]:
    """The best `keep` records of every problem on every device: what is worth shipping, what gc() spares."""
    places: dict[tuple[str, str, str, int], list[TrialRecord]] = defaultdict(list)
    for record in records:
        if is_usable(record) or is_refutation(record):
            places[record.problem_key, record.device_name, record.arch, record.sm_count].append(record)
    for _, group in sorted(places.items()):
        yield from rank([group], device_name=None)[:keep]


def is_usable(record: TrialRecord) -> bool:
    """A look-up may return it, as far as the record itself says."""
    return record.outcome == "ok" and record.median_us is not None


def is_refutation(record: TrialRecord) -> bool:
    """Its play-off found the config wrong, whatever the search had estimated before."""
    return record.play_off and record.outcome != "ok"


def kind_of(problem: ConvProblem) -> str:
    """Precision and layouts, as in the key: configs do not travel between kinds."""
    return "/".join(problem.key.split("/")[1:3])


def distance(one: ConvProblem, other: ConvProblem) -> float:
    """How unlike two problems of one kind are: a weighted sum of |log2| of the ratios of their sizes, 0 for equal ones.

    The GEMM's extents count once; what a window's layout hangs on (C a group, R, S, strides, dilations, groups) counts
    twice; another epilogue adds 0.5. A config tuned for the nearest problem is a start, not a promise.
    """
    once = ("gemm_m", "gemm_n", "gemm_k", "q")
    twice = ("group_c", "r", "s", "stride_h", "stride_w", "dilation_h", "dilation_w", "groups")
    total = sum(abs(math.log2(getattr(one, name) / getattr(other, name))) for name in once)
    total += 2 * sum(abs(math.log2(getattr(one, name) / getattr(other, name))) for name in twice)
    return total + 0.5 * (one.epilogue != other.epilogue)


def _subjects(record: TrialRecord) -> set[tuple[object, ...]]:
    """What a verdict is about: the config under these templates, and its machine code whatever config it came from.

    The emulator's word on a predicted record says nothing about a measured one.
    """
    place = (record.device_name, record.predicted)
    config = (*place, record.family, record.config_digest, record.template_digest)
    return {config, (*place, record.cubin_sha256)} if record.cubin_sha256 else {config}


def _layer(problem: ConvProblem) -> str:
    return replace(problem, n=1).shape


def _speed(record: TrialRecord) -> tuple[float, str, str, int]:
    median_us = math.inf if record.median_us is None else record.median_us
    return (median_us, record.config_digest, record.study, record.trial)
