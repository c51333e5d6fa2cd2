"""im2wingen tune, verify and doctor on a machine without a GPU."""

import io

import pytest
from rich.console import Console
from stored import PROBLEM, TARGET, WORDS, stored

from im2wingen.cli import doctor, verify
from im2wingen.cli.live import TuneDisplay
from im2wingen.cli.output import Output
from im2wingen.errors import Im2wingenError
from im2wingen.outcome import ErrorStats, Outcome
from im2wingen.tune import TuneResult
from im2wingen.tuning.progress import TuneProgress
from im2wingen.verify_data import WrongResultError

SMALL = ("n1c8h6w6k8r3s3", "--precision", "fp16")


def test_tune_predicts_without_a_device(cli):
    ran = cli("tune", *SMALL, "--max-trials", "2", "--time-budget", "60", "--json")
    assert ran.code == 0, ran.err
    assert "there is no CUDA device here: exploring for NVIDIA H200 (sm_90a)" in ran.err
    assert "(predicted)" in ran.err
    (result,) = ran.document["results"]
    assert result["predicted"]
    assert result["best"]["predicted"]
    assert result["trials"] == 2
    stored = cli("best", *SMALL, "--arch", "sm_90a", "--json").document["problems"][0]["records"]
    assert stored[0]["config_digest"] == result["best"]["config_digest"]
    shown = cli("inspect", *SMALL, "--config", "--arch", "sm_90a")
    assert "level exact" in shown.out
    assert "(predicted)" in shown.out


def test_tune_takes_several_shapes_and_the_suite():
    from im2wingen.cli.options import ProblemOptions

    options = ProblemOptions(precision="fp16", layout="nhwc", batch=2, epilogue="none")
    problems = options.several(["im2win", "cv5"], ["n1c8h6w6k8r3s3"])
    assert len(problems) == 13  # cv5 once
    assert {problem.n for problem in problems} == {2}
    assert [problem.layer_name for problem in problems][:2] == ["cv1", "cv2"]


def test_verify_in_the_emulator(cli, monkeypatch):
    ran_problems = []

    def fake(problem, plan, *, seed, sanitize):
        ran_problems.append((problem, seed, sanitize))
        return ErrorStats(max_error=1e-3, norm_error=2e-4)

    monkeypatch.setattr("im2wingen.verify_emulated.verify_emulated", fake)
    ran = cli("verify", *WORDS, "--family", "mma", "--seed", "3", "--sanitize", "--json")
    assert ran.code == 0, ran.err
    (verdict,) = ran.document["verdicts"]
    assert (verdict["outcome"], verdict["where"], verdict["norm_error"]) == ("ok", "emulator", 2e-4)
    ((problem, seed, sanitize),) = ran_problems
    assert (seed, sanitize) == (3, True)
    assert problem.flops <= PROBLEM.flops


def test_verify_exits_with_1_where_a_kernel_is_wrong(cli, monkeypatch):
    def fake(problem, plan, *, seed, sanitize):
        raise WrongResultError("3 of 100 elements are wrong")

    monkeypatch.setattr("im2wingen.verify_emulated.verify_emulated", fake)
    ran = cli("verify", *WORDS, "--family", "mma", "--json")
    assert ran.code == 1
    assert ran.document["verdicts"][0]["outcome"] == "wrong_result"
    assert "1 of 1 kernels failed; the first: mma " in ran.err
    assert "3 of 100 elements are wrong" in ran.err


def test_small_problem_keeps_what_matters():
    from im2wingen import ConvProblem

    problem = ConvProblem.parse("n128c99h224w224k66r7s5st2x1pad0,1,2,3dil2", layout="nchw", epilogue="bias")
    small = verify._small(problem)
    assert (small.r, small.s, small.stride_h, small.pad_right, small.dilation_w) == (7, 5, 2, 3, 2)
    assert (small.x_layout, small.epilogue) == ("nchw", "bias")
    assert (small.c % 8, small.k % 8) == (problem.c % 8, problem.k % 8)
    assert small.flops < 1e8


def test_doctor_is_content_without_a_gpu(cli):
    ran = cli("doctor", "--json")
    assert ran.code == 0
    findings = {finding["subject"]: finding for finding in ran.document["findings"]}
    assert findings["CUDA device"]["verdict"] == "missing"
    assert findings["CUDA device"]["advice"]
    for subject in ("packages", "NVRTC", "CUDA headers", "compilation", "templates", "tuning database"):
        assert findings[subject]["verdict"] == "ok", findings[subject]


def test_doctor_fails_where_something_essential_is_broken(cli, monkeypatch):
    def missing():
        raise Im2wingenError("NVRTC is not installed: pip install nvidia-cuda-nvrtc")

    monkeypatch.setattr(doctor, "nvrtc_version", missing)
    ran = cli("doctor")
    assert ran.code == 1
    assert "NVRTC is broken: pip install 'nvidia-cuda-nvrtc" in ran.err
    assert "reproduce: im2wingen doctor" in ran.err


def test_doctor_looks_at_the_database(cli, tmp_path):
    (tmp_path / "tuning.sqlite").write_bytes(b"this is no database, and long enough to be looked at as one" * 20)
    ran = cli("doctor", "--json")
    assert ran.code == 1
    assert "is not an SQLite database" in ran.out


def progress(trials, median_us=None):
    best = None if median_us is None else stored(trials, median_us)
    return TuneProgress(
        phase="search", elapsed_s=10.0 * trials, time_budget_s=60.0, max_trials=9, trials=trials, restored=2,
        counts={Outcome.OK: trials, Outcome.SPILLS: 1}, compiling=1, ready=2, best=best, last=best,
    )  # fmt: skip


def test_display_says_each_new_best_once(capsys):
    with TuneDisplay(Output(as_json=True), PROBLEM, TARGET, "tuning it") as display:
        for step in (progress(0), progress(1, 50.0), progress(2, 50.0), progress(3, 40.0)):
            display(step)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0] == "tuning it"
    assert len(lines) == 3
    assert "30.0 s  trial 3: 40.00 us, " in lines[2]


def test_display_on_a_terminal():
    output = Output(as_json=False)
    output.err = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    with TuneDisplay(output, PROBLEM, TARGET, "tuning it") as display:
        display(progress(3, 40.0))
    shown = output.err.file.getvalue()
    for words in (
        "tuning it",
        "30 s left",
        "3 of 9 (and 2 from earlier runs); 1 compiling, 2 waiting",
        "3 ok, 1 spills",
    ):
        assert words in shown
    assert "40.00 us" in shown


def test_an_interrupted_run_starts_no_further_problem(cli, monkeypatch):
    begun = []

    def fake(problem, target, shown_target, output, pool, **options):
        begun.append(problem)
        return TuneResult(
            problem=problem, target=target, study="s", best=None, default=None, trials=0, restored=0, illegal_picks=0,
            counts={}, elapsed_s=1.0, stopped_by="interrupted",
        )  # fmt: skip

    monkeypatch.setattr("im2wingen.cli.tune._tuned", fake)
    ran = cli("tune", "im2win", "--arch", "sm_80", "--json")
    assert (ran.code, len(begun), len(ran.document["results"])) == (0, 1, 1)


def test_no_problem_is_tuned_where_one_of_them_is_not_supported(cli, monkeypatch):
    monkeypatch.setattr("im2wingen.cli.tune._tuned", lambda *arguments, **options: pytest.fail("it was begun"))
    ran = cli("tune", "cv5", "n1c8h8w8k8r3s3g2", "--arch", "sm_80")
    assert ran.code == 3
    assert "n1c8h8w8k8r3s3g2" in ran.err
