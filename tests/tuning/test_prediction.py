"""Tuning for a device that is not here."""

from dataclasses import replace
from pathlib import Path

import pytest
from tuning_fakes import ONE, PROBLEM, FakeConfig

from im2wingen.compile_pool import CompilePool
from im2wingen.db import TuningDatabase
from im2wingen.families import FAMILIES
from im2wingen.families.base import Rule
from im2wingen.layers import IM2WIN_SUITE
from im2wingen.problem import ConvProblem
from im2wingen.target import preset
from im2wingen.tune import tune
from im2wingen.tuning import prediction
from im2wingen.tuning.prediction import PredictingExecutor, scaled_down
from im2wingen.verify_data import WrongResultError

TARGET = preset("sm_80")


@pytest.mark.parametrize("layer", IM2WIN_SUITE)
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_default_configs_have_a_small_problem(layer: str, precision: str) -> None:
    problem = ConvProblem.parse(layer, precision=precision)
    for family in FAMILIES.values():
        if family.unsupported(problem, TARGET) is None:
            config = family.default(problem, TARGET)
            small = scaled_down(problem, TARGET, family, config)
            assert small is not None
            assert not family.broken_rules(small, TARGET, config)
            assert small.flops <= problem.flops


@pytest.mark.parametrize(
    "shape",
    [
        "n128c96h24w24k256r5s5",
        "n1c3h9w9k5r3s3pad1,2,0,3",  # smaller than the scales, and lopsided
        "n64c130h60w61k131r3s3st2x1dil2",  # remainders of C and K
        "n8c64h28w28k64r3s3pad1g4",  # groups stay as they are
    ],
)
def test_a_small_problem_keeps_what_the_kernel_depends_on(shape: str) -> None:
    problem = ConvProblem.parse(shape, layout="nchw", epilogue="bias")
    free = replace(ONE, unsupported=lambda problem, target: None, rules=())
    small = scaled_down(problem, TARGET, free, FakeConfig(threads=64, depth=1))
    assert small is not None
    kept = ("r", "s", "stride_h", "stride_w", "pad_top", "pad_bottom", "pad_left", "pad_right", "dilation_h",
            "dilation_w", "groups", "precision", "x_layout", "w_layout", "y_layout", "epilogue")  # fmt: skip
    assert all(getattr(small, name) == getattr(problem, name) for name in kept)
    assert (small.c % 8, small.k % 8) == (problem.c % 8, problem.k % 8)
    assert all(getattr(small, name) <= getattr(problem, name) for name in "nchwk")


def test_sizes_grow_until_the_rules_hold() -> None:
    picky = replace(ONE, rules=(Rule(sentence="K >= 128", holds=lambda p, t, c: p.k >= 128),))
    config = FakeConfig(threads=64, depth=1)
    small = scaled_down(replace(PROBLEM, k=512), TARGET, picky, config)
    assert small is not None
    assert small.k == 128
    huge = replace(PROBLEM, n=512, h=512, w=512)
    never = replace(ONE, rules=(Rule(sentence="as it is", holds=lambda p, t, c: p == huge),))
    assert scaled_down(huge, TARGET, never, config) is None


@pytest.fixture
def _one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE})


@pytest.mark.usefixtures("_one_family")
def test_rows_are_marked_and_a_wrong_finalist_does_not_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake kernels compute nothing, so the emulator is told what to say."""
    verified: list[ConvProblem] = []

    def verify(small: ConvProblem, plan: object) -> None:
        verified.append(small)
        if len(verified) == 1:
            raise WrongResultError("it is wrong")

    monkeypatch.setattr(prediction, "verify_emulated", verify)
    with TuningDatabase.open(str(tmp_path / "db.sqlite")) as database, CompilePool(2, 20.0) as pool:
        executor = PredictingExecutor(PROBLEM, TARGET, pool)
        result = tune(PROBLEM, executor=executor, db=database, max_trials=4)
        records = database.trials(result.study)
    assert all(record.predicted and record.driver_version == "" for record in records)
    assert {record.device_name for record in records} == {TARGET.name}
    wrong = [record for record in records if record.outcome == "wrong_result"]
    assert len(wrong) == 1
    assert "in the emulator: it is wrong" in wrong[0].reason
    assert result.best is not None
    assert result.best.play_off
    assert result.best.config_digest != wrong[0].config_digest
    assert result.best.median_us is not None


def test_a_real_layer_end_to_end(tmp_path: Path) -> None:
    """NVRTC for an arch that is not here, estimates, and the emulator's word on the finalists."""
    problem = ConvProblem.parse("n2c8h6w6k16r3s3")
    with TuningDatabase.open(str(tmp_path / "db.sqlite")) as database, CompilePool(2, 20.0) as pool:
        result = tune(problem, target=TARGET, pool=pool, db=database, families=["mma"], max_trials=2)
        pool.submit((), TARGET.arch).result()  # still open
    assert result.trials == 2
    assert result.best is not None
    assert result.best.play_off
    assert result.best.predicted
    assert result.best.norm_error is not None
    assert result.best.norm_error < 1e-2
