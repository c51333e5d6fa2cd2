import json
from dataclasses import fields, replace

import pytest
from db_records import a_record
from hypothesis import given, settings
from hypothesis import strategies as st

from im2wingen.db import (
    TrialRecord,
    TuningDatabase,
    export_lines,
    export_name,
    merge_records,
    parse_export,
    read_export,
    write_export,
)
from im2wingen.errors import UsageError
from im2wingen.outcome import Outcome

HASHES = [(), ("1a" * 32,), ("2b" * 32, "3c" * 32)]
# few values each, so that identities often meet
RECORDS = st.lists(
    st.builds(
        a_record,
        st.sampled_from([64, 128]),
        median_us=st.sampled_from([1.0, 2.0]),
        trial=st.integers(0, 1),
        cubin_sha256=st.sampled_from(HASHES),
    ),
    max_size=6,
)
FLOATS = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False)


def text_of(records: list[TrialRecord]) -> str:
    return "".join(export_lines(records))


@settings(max_examples=60, deadline=None)
@given(RECORDS, RECORDS, RECORDS)
def test_merging_is_commutative_associative_and_idempotent(one, two, three):
    both = merge_records(one, two)
    assert both == merge_records(two, one)
    assert merge_records(both, three) == merge_records(one, merge_records(two, three))
    assert merge_records(both, both) == merge_records(both, one) == both
    assert {r.identity for r in both} == {r.identity for r in [*one, *two]}


@settings(max_examples=25, deadline=None)
@given(RECORDS, RECORDS)
def test_a_database_merges_by_the_same_rule(one, two):
    with TuningDatabase.open("sqlite://") as database:
        new = database.record_all(one) + database.record_all(two)
        assert database.records() == merge_records(one, two)
        assert new == len(database.records())
        assert database.record_all(two + one) == 0
        assert database.records() == merge_records(two, one)


@settings(max_examples=40, deadline=None)
@given(st.builds(a_record, min_us=FLOATS, max_error=FLOATS, spread=FLOATS, reason=st.text(max_size=20)))
def test_export_import_export_is_byte_identical(record):
    text = text_of([record])
    with TuningDatabase.open("sqlite://") as database:
        database.record_all(parse_export(text, name="x", trust=True))
        assert text_of(database.records()) == text


def test_an_export_does_not_depend_on_the_order_of_recording(tmp_path):
    records = [a_record(size, trial=trial, outcome=outcome) for size, trial, outcome in
               ((64, 3, Outcome.OK), (32, 1, Outcome.SPILLS), (128, 2, Outcome.SLOWER))]  # fmt: skip
    for path, order in ((tmp_path / "a", records), (tmp_path / "b", records[::-1])):
        assert write_export(order, path) == 3
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert [json.loads(line)["trial"] for line in content.splitlines()] == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_an_import_brings_no_binaries_unless_trusted(tmp_path):
    write_export([a_record()], tmp_path / "x.jsonl")
    assert read_export(tmp_path / "x.jsonl") == [a_record(cubin_sha256=())]
    assert read_export(tmp_path / "x.jsonl", trust=True) == [a_record()]


def test_importing_ones_own_export_changes_nothing(tmp_path):
    with TuningDatabase.open("sqlite://") as database:
        database.record(a_record())
        write_export(database.records(), tmp_path / "x.jsonl")
        assert database.record_all(read_export(tmp_path / "x.jsonl")) == 0
        assert database.records() == [a_record()]


def test_blank_lines_and_missing_defaults_are_fine():
    values = json.loads(a_record().text)
    del values["spread"], values["play_off"]
    (record,) = parse_export(f"\n{json.dumps(values)}\r\n\n", name="x", trust=True)
    assert record == a_record(spread=None)


def line(**changes: object) -> str:
    return json.dumps({**json.loads(a_record().text), **changes})


WRONG = {
    "problem_key": ["cv9", "n1c3h8w8k8r3s3/fp16/nhwc-krsc-nhwc/none/x", "n01c3h8w8k8r3s3/fp16/nhwc-krsc-nhwc/none", 1],
    "family": ["", "mma; DROP TABLE trial", None, "x" * 65],
    "config": [[], {"a": 1.5}, {"a": None}, {"a": "x y"}, {"a b": 1}, {"a": 2**70}, {"a": {}}],
    "config_digest": ["xyz", "0" * 16, 5],
    "template_digest": ["", "g" * 64, "0" * 65],
    "source_digest": ["zz", None],
    "outcome": ["OK", "fine", None, ["ok"]],
    "reason": [None, "nul\0", "\ud800", 3],
    "device_name": ["x" * 201, "two\nlines", None],
    "arch": ["sm 90", 90],
    "sm_count": [-1, 1.0, True, "132", 2**31],
    "driver_version": [580, None],
    "nvrtc_version": [13.0],
    "predicted": [0, "false", None],
    "median_us": [0, -1.0, "1", True, 10**400],
    "min_us": [-0.5, [1]],
    "spread": [-0.1, "x"],
    "samples": [None, 1.5],
    "clock_mhz": [None, -5],
    "protocol_version": ["1", None],
    "max_error": [-1.0],
    "norm_error": [{}],
    "workspace_bytes": [-1, 1.5, 2**63],
    "num_regs": [-1, "168"],
    "smem_bytes": [False],
    "cubin_sha256": ["1a" * 32, ["1a"], [None], ["1A" * 32]],
    "study": [None, "a\tb"],
    "trial": [-1, None],
    "play_off": [1, None],
    "created_at": ["yesterday", "2025-11-03T09:30:00", "2025-11-03T09:30:00+01:00", 0],
}


def test_every_field_has_wrong_values_to_try():
    assert list(WRONG) == [field.name for field in fields(TrialRecord)]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named_with_its_line_and_field(field, value):
    with pytest.raises(UsageError, match=rf"^x\.jsonl line 3: field {field} is "):
        parse_export(f"{line()}\n\n{line(**{field: value})}\n", name="x.jsonl")


@pytest.mark.parametrize("text", ["{", "[]", "1", "null", "[" * 100_000, '{"a": NaN}', line()[:-1]])
def test_a_line_that_is_no_object(text):
    with pytest.raises(UsageError, match="x line 1: it is not a JSON object"):
        parse_export(text, name="x")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(constant):
    with pytest.raises(UsageError, match="x line 1"):
        parse_export(line().replace("100.0", constant), name="x")


def test_an_unknown_field_and_a_missing_one():
    with pytest.raises(UsageError, match="line 1: field 'cubin' is unknown; allowed are problem_key, family"):
        parse_export(line(cubin="AAAA"), name="x")
    values = json.loads(line())
    del values["arch"]
    with pytest.raises(UsageError, match="line 1: field arch is missing"):
        parse_export(json.dumps(values), name="x")


def test_files_that_can_not_be_read(tmp_path):
    with pytest.raises(UsageError, match="can't be read: No such file"):
        read_export(tmp_path / "none.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_export(tmp_path / "binary.jsonl")


def test_a_failed_write_leaves_the_old_export(tmp_path):
    path = tmp_path / "x.jsonl"
    write_export([a_record()], path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_export([replace(a_record(), config={"a": object()})], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("device", "name"),
    [("NVIDIA H200", "nvidia-h200.jsonl"), ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb.jsonl"),
     ("../../etc/x", "etc-x.jsonl")],
)  # fmt: skip
def test_the_name_of_an_export(device, name):
    assert export_name(device) == name
