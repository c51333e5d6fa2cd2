"""--cores on the command line."""

import pytest
from stored import stored

from im2wingen.db import TuningDatabase
from im2wingen.settings import read_settings

WORDS = ("n8c16h12w12k32r3s3", "--precision", "fp32", "--arch", "sm_80")
EXTRA = {"tune": ("--max-trials", "1"), "inspect": ("--config",), "verify": (), "best": ()}


def test_inspect_keeps_to_the_cores(cli):
    for cores, family, arithmetic in (("cuda", "simt", "direct"), ("tensor", "mma", "split")):
        document = cli("inspect", *WORDS, "--config", "--cores", cores, "--json").document
        assert (document["family"], document["cores"], document["arithmetic"]) == (family, cores, arithmetic)
        assert f"--cores {cores}" in document["command"]
    shown = cli("inspect", *WORDS, "--config", "--cores", "tensor")
    assert "family mma on tensor cores, arithmetic split" in shown.out


def test_best_finds_the_cores_alone(cli):
    with TuningDatabase.open(read_settings().db_url) as database:
        database.record(stored())  # of family mma
    words = ("n8c16h12w12k32r3s3", "--precision", "fp16", "--arch", "sm_90a")
    found = cli("best", *words, "--cores", "tensor", "--json").document["problems"][0]["records"]
    assert [record["family"] for record in found] == ["mma"]
    nothing = cli("best", *words, "--cores", "cuda")
    assert nothing.code == 5
    assert "--cores cuda" in nothing.err


@pytest.mark.parametrize("verb", EXTRA)
def test_bad_cores_are_usage(cli, verb):
    ran = cli(verb, *WORDS, *EXTRA[verb], "--cores", "gpu")
    assert ran.code == 2
    assert "cores is 'gpu'; allowed are cuda, tensor" in ran.err


def test_bench_takes_cores(cli):
    ran = cli("bench", "cv12", "--precision", "fp32", "--cores", "gpu")
    assert ran.code == 2
    assert "cores is 'gpu'; allowed are cuda, tensor" in ran.err
    ran = cli("bench", "cv12", "--backend", "cpu", "--cores", "cuda")
    assert ran.code == 2
    assert "--cores are a GPU's" in ran.err
