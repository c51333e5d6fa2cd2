import pytest
from db_records import ARCH, DIGEST, PROBLEM, a_record

from im2wingen import ConvProblem
from im2wingen.db import LayeredRecords, ShippedRecords, export_lines, export_name, parse_export, write_export
from im2wingen.errors import UsageError
from im2wingen.outcome import Outcome
from im2wingen.render import data_folder


def ask(shipped):
    return shipped.candidates(PROBLEM.key, arch=ARCH, template_digests=DIGEST)


def test_every_file_is_read_and_brings_no_binaries(tmp_path):
    write_export([a_record(1)], tmp_path / "a.jsonl")
    write_export([a_record(2)], tmp_path / "b.jsonl")
    (tmp_path / "README.md").write_text("no records")
    assert ask(ShippedRecords(tmp_path)) == [a_record(1, cubin_sha256=()), a_record(2, cubin_sha256=())]


def test_only_what_a_look_up_may_return(tmp_path):
    records = [
        a_record(1, outcome=Outcome.SPILLS),
        a_record(2, median_us=None),
        a_record(3, template_digest="00" * 32),
        a_record(4, arch="sm_80"),
        a_record(5, problem_key=ConvProblem.parse("cv1").key),
    ]
    write_export(records, tmp_path / "a.jsonl")
    assert ask(ShippedRecords(tmp_path)) == []


def test_neighbours(tmp_path):
    key = ConvProblem.parse("cv9", batch=1).key
    stale = a_record(problem_key=ConvProblem.parse("cv9", batch=2).key, template_digest="00" * 32)
    write_export([a_record(problem_key=key), stale], tmp_path / "a.jsonl")
    layered = LayeredRecords((ShippedRecords(tmp_path),))
    found = layered.near(PROBLEM, arch=ARCH, template_digests=DIGEST)
    assert [(n.level, n.record.problem_key) for n in found] == [("batch", key)]


def test_a_wrong_file_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"a\.jsonl line 1: field problem_key is missing"):
        ask(ShippedRecords(tmp_path))


def test_a_missing_folder_ships_nothing(tmp_path):
    assert ask(ShippedRecords(tmp_path / "none")) == []


def test_what_this_repository_ships_is_canonical():
    for path in data_folder("tuning_db").glob("*.jsonl"):
        text = path.read_text()
        records = parse_export(text, name=path.name, trust=True)
        assert "".join(export_lines(records)) == text
        assert {export_name(record.device_name) for record in records} == {path.name}
        assert not any(record.predicted for record in records)
