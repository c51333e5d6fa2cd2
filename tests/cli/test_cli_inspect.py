"""im2wingen inspect: texts are pure, JSON is alone on stdout, the choice is the runtime's."""

import json

from stored import PROBLEM, WORDS, stored

from im2wingen.db import TuningDatabase
from im2wingen.families import FAMILIES
from im2wingen.render import render
from im2wingen.settings import read_settings
from im2wingen.target import preset


def served(cli):
    """The config and the launches of what is shown; the shipped database may know a better family than a test does."""
    document = cli("inspect", *WORDS, "--config", "--json", "--arch", "sm_90a").document
    family = FAMILIES[document["family"]]
    config = family.config_from_dict(document["config"])
    return config, family.plan(PROBLEM, preset("sm_90a"), config).launches


def test_source_is_the_text_that_is_compiled(cli):
    ran = cli("inspect", *WORDS, "--source", "--arch", "sm_90a")
    assert ran.code == 0
    assert ran.out.rstrip("\n") == "\n".join(render(launch).text.rstrip("\n") for launch in served(cli)[1])


def test_ptx_and_sass_are_of_the_arch(cli):
    kernel = "mma"
    ptx = cli("inspect", *WORDS, "--ptx", "--kernel", kernel, "--arch", "sm_80")
    assert ptx.code == 0
    assert ".target sm_80" in ptx.out
    assert f".entry {kernel}(" in ptx.out
    sass = cli("inspect", *WORDS, "--sass", "--kernel", kernel, "--arch", "sm_80")
    assert sass.code == 0
    assert f".text.{kernel}" in sass.out


def test_default_shows_config_and_usage(cli):
    ran = cli("inspect", *WORDS, "--arch", "sm_90a")
    assert ran.code == 0
    for field in served(cli)[0].to_dict():
        assert field in ran.out
    assert "level " in ran.out
    assert "regs" in ran.out


def test_json_is_alone_on_stdout(cli):
    ran = cli("inspect", *WORDS, "--json", "--arch", "sm_90a")
    document = json.loads(ran.out)
    templates = [launch.template for launch in served(cli)[1]]
    assert document["problem_key"] == PROBLEM.key
    assert [usage["kernel"] for usage in document["usage"]] == templates
    assert all(usage["num_regs"] > 0 for usage in document["usage"])
    texts = cli("inspect", *WORDS, "--source", "--json", "--arch", "sm_90a").document["kernels"]
    assert [text["kernel"] for text in texts] == templates


def test_the_stored_best_is_what_is_shown(cli):
    with TuningDatabase.open(read_settings().db_url) as database:
        database.record(stored(median_us=12.5))
    document = cli("inspect", *WORDS, "--config", "--json", "--arch", "sm_90a").document
    assert (document["level"], document["record"]["median_us"]) == ("exact", 12.5)
    text = cli("inspect", *WORDS, "--config", "--arch", "sm_90a").out
    assert "12.50 us" in text
    assert "roofline" in text


def test_without_device_and_arch_it_says_what_stands_in(cli):
    ran = cli("inspect", *WORDS, "--config")
    assert ran.code == 0
    assert "there is no CUDA device here; standing in for one: NVIDIA H200 (sm_90a)" in ran.err
