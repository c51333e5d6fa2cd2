"""im2wingen best and db: what is stored comes out, goes in, and is cleaned up."""

import json

import pytest
from stored import PROBLEM, WORDS, stored

from im2wingen.db import TuningDatabase, read_export
from im2wingen.settings import read_settings


@pytest.fixture
def filled(cli):
    """Two runs of the default config, a failure and a record of an old template."""
    with TuningDatabase.open(read_settings().db_url) as database:
        database.record_all(
            [
                stored(0, 50.0, cubin_sha256=("c0" * 32,)),
                stored(1, 40.0),
                stored(2, None, outcome="spills", reason="mma spills 64 bytes of registers"),
                stored(3, 1.0, template_digest="0" * 64),
            ]
        )
    return cli


def test_best_shows_the_best_first(filled):
    ran = filled("best", *WORDS, "--arch", "sm_90a", "--json")
    assert ran.code == 0
    ((problem,),) = (ran.document["problems"],)
    assert problem["problem_key"] == PROBLEM.key
    assert problem["records"][0]["median_us"] == 40.0  # not the stale 1.0
    assert "40.00" in filled("best", *WORDS).out  # without a device: of every arch


def test_best_of_several_tells_which_are_missing(filled):
    ran = filled("best", WORDS[0], "cv5", "--precision", "fp16", "--arch", "sm_90a", "--json")
    assert ran.code == 0
    assert ran.document["problems"][0]["records"]
    assert (ran.document["problems"][1]["records"] == []) == ("nothing is stored for n128c96" in ran.err)


def test_ls(filled):
    (problem,) = filled("db", "ls", "--json").document["problems"]
    assert (problem["problem_key"], problem["trials"], problem["measured"]) == (PROBLEM.key, 4, 3)
    assert PROBLEM.key in filled("db", "ls").out


def test_show_takes_shapes_and_keys(filled):
    by_shape = filled("db", "show", *WORDS, "--json").document
    by_key = filled("db", "show", PROBLEM.key, "--json").document
    assert by_shape["records"] == by_key["records"]
    assert len(by_shape["records"]) == 4
    failures = filled("db", "show", *WORDS, "--failures")
    assert "mma spills 64 bytes of registers" in failures.out
    assert filled("db", "show", "cv9").code == 5


def test_export_and_import(filled, tmp_path):
    file = tmp_path / "out.jsonl"
    assert filled("db", "export", file, "--json").document["records"] == 4
    assert filled("db", "export", "-").out == file.read_text()
    other = tmp_path / "other.sqlite"
    assert filled("db", "import", file, "--db", other, "--json").document == {
        "command": f"im2wingen db import {file} --db {other}", "records": 4, "new": 4
    }  # fmt: skip
    assert filled("db", "import", file, "--db", other, "--json").document["new"] == 0
    with TuningDatabase.open(str(other)) as database:
        assert all(record.cubin_sha256 == () for record in database.records())  # configs, never binaries
    filled("db", "import", file, "--trust", "--db", other)
    with TuningDatabase.open(str(other)) as database:
        assert any(record.cubin_sha256 for record in database.records())


def test_export_of_the_best(filled, tmp_path):
    file = tmp_path / "best.jsonl"
    filled("db", "export", file, "--best", "1", "--device", "NVIDIA H200")
    (record,) = read_export(file)
    assert record.outcome == "ok"
    assert filled("db", "export", "-", "--device", "nobody").out == ""
    assert filled("db", "export", "-", "--json").code == 2


def test_import_is_all_or_nothing(filled, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text(stored(9).text + "\n" + json.dumps({"problem_key": 1}) + "\n")
    ran = filled("db", "import", file)
    assert ran.code == 2
    assert "bad.jsonl line 2: field" in ran.err
    assert len(filled("db", "show", *WORDS, "--json").document["records"]) == 4
    assert filled("db", "import", tmp_path / "none.jsonl").code == 2


def test_merge(filled, tmp_path):
    other = tmp_path / "other.sqlite"
    with TuningDatabase.open(str(other)) as database:
        database.record_all([stored(0, 50.0), stored(7, 30.0, cubin_sha256=("d0" * 32,))])
    assert filled("db", "merge", other, "--json").document["new"] == 1  # trial 0 is there already
    records = filled("db", "show", *WORDS, "--json").document["records"]
    (merged,) = [record for record in records if record["trial"] == 7]
    assert merged["cubin_sha256"] == []
    assert filled("db", "merge", tmp_path / "none.sqlite").code == 1


def test_gc(filled):
    dry = filled("db", "gc", "--best", "1", "--dry-run", "--json").document
    assert (dry["stale"], dry["surplus"]) == (1, 2)
    assert len(filled("db", "show", *WORDS, "--json").document["records"]) == 4
    assert filled("db", "gc", "--json").document["stale"] == 1
    assert len(filled("db", "show", *WORDS, "--json").document["records"]) == 3
