"""The records that come with im2wingen: `tuning_db/*.jsonl`, one file a device, read only."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from im2wingen.db.exchange import read_export
from im2wingen.db.look_up import is_refutation, is_usable, kind_of
from im2wingen.db.records import TrialRecord
from im2wingen.problem import ConvProblem
from im2wingen.render import data_folder


class ShippedRecords:
    """A RecordSource over exports in a folder, read at the first question; they bring configs, never binaries."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def _by_problem(self) -> dict[str, list[TrialRecord]]:
        folder = data_folder("tuning_db") if self._folder is None else self._folder
        found: dict[str, list[TrialRecord]] = defaultdict(list)
        for path in sorted(folder.glob("*.jsonl")):
            for record in read_export(path):
                if is_usable(record) or is_refutation(record):
                    found[record.problem_key].append(record)
        return dict(found)

    def candidates(self, problem_key: str, *, arch: str, template_digests: Mapping[str, str]) -> Sequence[TrialRecord]:
        """What look-ups need of the problem; UsageError names a file, line and field that is wrong."""
        return [
            record
            for record in self._by_problem.get(problem_key, ())
            if record.arch == arch and template_digests.get(record.family) == record.template_digest
        ]

    def problem_keys(self, kind: str, *, arch: str, template_digests: Mapping[str, str]) -> Iterable[str]:
        return [
            key
            for key in self._by_problem
            if kind_of(ConvProblem.from_key(key)) == kind
            and self.candidates(key, arch=arch, template_digests=template_digests)
        ]
