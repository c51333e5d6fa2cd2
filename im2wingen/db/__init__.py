"""The tuning database: every trial, where it is kept, and which of them serves a problem."""

from im2wingen.db.database import GcCount, ProblemSummary, TuningDatabase, open_records
from im2wingen.db.exchange import export_lines, export_name, merge_records, parse_export, read_export, write_export
from im2wingen.db.look_up import LayeredRecords, Level, Neighbour, RecordSource, best_of_each, distance
from im2wingen.db.records import TrialRecord, utc_now
from im2wingen.db.shipped import ShippedRecords

__all__ = [
    "GcCount",
    "LayeredRecords",
    "Level",
    "Neighbour",
    "ProblemSummary",
    "RecordSource",
    "ShippedRecords",
    "TrialRecord",
    "TuningDatabase",
    "best_of_each",
    "distance",
    "export_lines",
    "export_name",
    "merge_records",
    "open_records",
    "parse_export",
    "read_export",
    "utc_now",
    "write_export",
]
