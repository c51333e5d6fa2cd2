"""The command line on this machine's CPU, for real: tune, best, inspect, verify, doctor."""

import shlex

import pytest

from im2wingen.cpu.devices import cpu_with
from im2wingen.cpu_compiler import cpu_compiler_version

SMALL = ("n1c8h6w6k16r3s3",)


@pytest.fixture
def tuned(cli):
    """A command line whose database holds what the CPU is best at."""
    ran = cli("tune", *SMALL, "--max-trials", "2", "--time-budget", "60", "--json")
    assert ran.code == 0, ran.err
    cli.result = ran
    return cli


def test_without_a_gpu_tune_picks_the_cpu_and_says_so(tuned):
    ran, cpu = tuned.result, cpu_with()
    assert "there is no CUDA device here: tuning on the CPU, " in ran.err
    assert f"({cpu.arch}), with {cpu_compiler_version()}; --arch sm_90a explores for a GPU" in ran.err
    assert " GFLOPS, " in ran.err
    (result,) = ran.document["results"]
    assert result["problem_key"] == "n1c8h6w6k16r3s3/fp32/nhwc-krsc-nhwc/none"  # fp32 where none is given
    assert (result["predicted"], result["trials"], result["arch"]) == (False, 2, cpu.arch)
    assert result["best"]["driver_version"] == cpu_compiler_version()
    assert result["gain"] is not None
    command = ran.document["command"]
    assert command.endswith("--seed 0 --backend cpu")


def test_what_was_tuned_is_shown(tuned):
    stored = tuned("best", *SMALL, "--json").document["problems"][0]["records"]
    assert stored[0]["family"] == "simd"
    assert tuned("best", *SMALL, "--backend", "cpu", "--json").document["problems"][0]["records"] == stored
    shown = tuned("inspect", *SMALL, "--json").document
    assert (shown["level"], shown["record"]) == ("exact", stored[0])
    assert {usage["compiler"] for usage in shown["usage"]} == {cpu_compiler_version()}
    assert tuned("inspect", *shlex.split(tuned("inspect", *SMALL, "--json").document["command"])[2:]).code == 0


def test_texts_of_a_cpu_kernel(tuned):
    source = tuned("inspect", *SMALL, "--source", "--kernel", "simd")
    assert 'extern "C" void simd(' in source.out
    asm = tuned("inspect", *SMALL, "--backend", "cpu", "--asm", "--kernel", "simd_pack")
    assert asm.code == 0, asm.err
    assert "simd_pack:" in asm.out
    assert "simd:" not in asm.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("inspect", *SMALL, "--sass"), "--sass doesn't go with a kernel for the CPU; allowed are --asm"),
        (("inspect", *SMALL, "--asm", "--arch", "sm_80"), "--asm doesn't go with a kernel for the GPU"),
        (("tune", *SMALL, "--arch", "sm_80", "--backend", "cpu"), "--arch names a GPU"),
        (("tune", *SMALL, "--arch", "sm_80", "--threads", "1"), "--arch names a GPU"),
        (("tune", *SMALL, "--backend", "gpu"), "backend is 'gpu'; allowed are cuda, cpu"),
        (("tune", *SMALL, "--backend", "cuda", "--threads", "1"), "--threads are the CPU's"),
        (("tune", *SMALL, "--backend", "cpu", "--threads", "999"), "threads is 999; allowed are 1 to"),
        (("verify", *SMALL, "--backend", "cpu", "--sanitize"), "--emulate and --sanitize run GPU kernels"),
    ],
)
def test_usage(cli, words, sentence):
    ran = cli(*words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_what_the_cpu_cannot_run(cli):
    ran = cli("tune", *SMALL, "--backend", "cpu", "--precision", "fp16")
    assert ran.code == 3
    assert "simd computes fp32, fp64, bf16, int8; the problem is fp16" in ran.err
    assert cli("tune", *SMALL, "--backend", "cuda").code == 4  # there is none


def test_verify_on_the_cpu(tuned):
    ran = tuned("verify", *SMALL, "--threads", "1", "--backend", "cpu", "--json")
    assert ran.code == 0, ran.err
    verdicts = ran.document["verdicts"]
    assert {verdict["outcome"] for verdict in verdicts} == {"ok"}
    assert {verdict["where"] for verdict in verdicts} == {cpu_with().name}
    assert verdicts[0]["verified_problem"] == "n1c8h6w6k16r3s3/fp32/nhwc-krsc-nhwc/none"
    assert ran.document["command"].endswith("--seed 0 --backend cpu --threads 1")


def test_doctor_tries_the_cpu(cli, monkeypatch):
    findings = {finding["subject"]: finding for finding in cli("doctor", "--json").document["findings"]}
    assert findings["CPU backend"]["verdict"] == "ok"
    assert cpu_with().name in findings["CPU backend"]["found"]
    monkeypatch.setattr("im2wingen.host_compiler.shutil.which", lambda name: None)
    ran = cli("doctor", "--json")
    findings = {finding["subject"]: finding for finding in ran.document["findings"]}
    assert ran.code == 0
    assert findings["CPU backend"]["verdict"] == "missing"
    assert "install g++" in findings["CPU backend"]["advice"]


def test_no_compiler_is_one_sentence(cli, monkeypatch):
    monkeypatch.setattr("im2wingen.host_compiler.shutil.which", lambda name: None)
    ran = cli("tune", *SMALL)
    assert ran.code == 1
    assert "no C++ compiler was found; install g++ or clang++, or name one by IM2WINGEN_CXX" in ran.err
