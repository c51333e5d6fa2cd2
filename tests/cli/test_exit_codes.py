"""Every documented exit code, and errors as one sentence on stderr."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import im2wingen
from im2wingen.cli import best
from im2wingen.errors import NoDeviceError

VERBS = ("tune", "inspect", "bench", "best", "verify", "db", "doctor")


def test_help_documents_verbs_and_exit_codes(cli):
    ran = cli("--help")
    assert ran.code == 0
    for word in (*VERBS, "0 done; 1 our fault; 2 usage; 3 the problem is not supported; 4 no device; 5 nothing stored"):
        assert word in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(cli, verb):
    ran = cli(verb, "--help")
    assert ran.code == 0
    assert "Usage:" in ran.out


def test_version(cli):
    assert cli("--version").out.startswith("im2wingen 0.")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("best", "cv99"),
            2,
            "shape is 'cv99'; allowed is a named layer (cv1 to cv12, resnet50.conv1 ...) or a shape such as",
        ),
        (("best", "cv5", "--precision", "fp8"), 2, "precision is 'fp8'; allowed are fp32, tf32, fp16, bf16"),
        (("best", "cv5", "--layout", "hwcn"), 2, "layout is 'hwcn'; allowed are nhwc, nchw"),
        (("best", "cv5", "--batch", "0"), 2, "n is 0; allowed are integers from 1"),
        (("best", "cv5", "--epilogue", "gelu"), 2, "epilogue is 'gelu'; allowed are none, bias, bias_relu"),
        (("best", "cv5", "--arch", "sm_10"), 2, "arch is 'sm_10'; allowed are sm_80"),
        (("best",), 2, "the shape is missing"),
        (("inspect", "cv5", "--shape", "cv6"), 2, "the shape is given twice"),
        (("inspect", "cv5", "--family", "wmma", "--config"), 2, "family is 'wmma'; allowed are"),
        (("inspect", "cv5", "--ptx", "--sass"), 2, "--ptx and --sass can't be shown together"),
        (("inspect", "cv5", "--source", "--kernel", "x"), 2, "kernel is 'x'; allowed are"),
        (("tune", "cv5", "--executor", "ray"), 2, "executor is 'ray'; allowed are local"),
        (("tune", "cv5", "--time-budget", "0"), 2, "time_budget_s is 0.0; allowed is a number above 0"),
        (("inspect", "n1c8h8w8k8r3s3g2", "--precision", "fp16"), 3, "is not supported: simt: "),
        (("bench", "cv5", "--backend", "cuda"), 4, "this machine has none"),
        (("best", "cv5", "--precision", "bf16", "--arch", "sm_120a"), 5, "run: im2wingen tune n128c96h24w24k256r5s5"),
        (("db", "ls"), 5, "nothing is stored: there is no tuning database at"),
    ],
)
def test_sentence_and_code(cli, words, code, sentence):
    ran = cli(*words)
    assert (ran.code, ran.out) == (code, "")
    (line,) = [line for line in ran.err.splitlines() if line.startswith("im2wingen: ")]
    assert sentence in line


def test_parser_errors_are_usage(cli):
    for words in (("best", "cv5", "--frob"), ("frobnicate",), ("tune", "cv5", "--max-trials", "many")):
        assert cli(*words).code == 2


def test_wrong_environment_is_usage(cli, monkeypatch):
    monkeypatch.setenv("IM2WINGEN_MODE", "fast")
    ran = cli("best", "cv5")
    assert ran.code == 2
    assert "IM2WINGEN_MODE is 'fast'" in ran.err


def test_damaged_database_is_our_fault(cli, tmp_path):
    (tmp_path / "tuning.sqlite").write_bytes(b"this is no database, and long enough to be looked at as one" * 20)
    ran = cli("db", "ls")
    assert ran.code == 1
    assert "is not an SQLite database" in ran.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NoDeviceError("no device"), 4, "im2wingen: no device"),
        (KeyError("boom"), 1, "an error of im2wingen itself: KeyError: 'boom'; please report it"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_a_verb_raises(cli, monkeypatch, error, code, words):
    def fail(*_):
        raise error

    monkeypatch.setattr(best, "_targets", fail)
    ran = cli("best", "cv5")
    assert ran.code == code
    assert words in ran.err


def test_as_a_process(tmp_path):
    """The installed entry point and `python -m im2wingen` are this."""
    environment = os.environ | {"IM2WINGEN_DB": str(tmp_path / "t.sqlite"), "IM2WINGEN_CACHE": str(tmp_path / "c")}
    command = [sys.executable, "-m", "im2wingen", "best", "cv5", "--precision", "bf16", "--arch", "sm_120a", "--json"]
    checkout = Path(im2wingen.__file__).parents[1]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=checkout, check=False)
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.startswith("im2wingen: nothing is stored for ")
    assert not list(tmp_path.iterdir())  # looking leaves nothing behind


def test_reproducing_command_does_the_same(cli):
    ran = cli("inspect", "cv6", "--batch", "4", "--config", "--arch", "sm_80", "--json")
    assert ran.code == 0
    command = ran.document["command"]
    assert f"reproduce: {command}" in ran.err
    again = cli(*shlex.split(command)[1:], "--json")
    assert again.document == ran.document
