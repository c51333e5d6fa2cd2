"""What is tried first."""

import itertools
from dataclasses import replace

import pytest
from tuning_fakes import ONE, PROBLEM, TARGET, TWO, FakeConfig, FakeExecutor

from im2wingen.cost_model import estimate_us
from im2wingen.db import LayeredRecords, TuningDatabase
from im2wingen.families.mma import MMA
from im2wingen.problem import ConvProblem
from im2wingen.tune import tune
from im2wingen.tuning.seeding import config_of, promising_configs, stored_configs


def estimate(family_name: str, config: FakeConfig) -> float:
    family = {"one": ONE, "two": TWO}[family_name]
    return estimate_us(family.plan(PROBLEM, TARGET, config), TARGET)


def test_promising_configs_are_legal_and_the_best_that_the_model_saw() -> None:
    found = promising_configs(PROBLEM, TARGET, [ONE, TWO], seed=0)
    assert found == promising_configs(PROBLEM, TARGET, [ONE, TWO], seed=0)
    assert not any(family.broken_rules(PROBLEM, TARGET, config) for family, config in found)
    estimates = [estimate_us(family.plan(PROBLEM, TARGET, config), TARGET) for family, config in found]
    assert estimates == sorted(set(estimates))
    assert estimates[0] < estimate("one", FakeConfig(threads=32, depth=1))


def test_promising_configs_of_a_real_layer_are_not_much_alike() -> None:
    problem = ConvProblem.parse("cv12")
    found = [config.to_dict() for _, config in promising_configs(problem, TARGET, [MMA], seed=0)]
    assert len(found) >= 10
    for a, b in itertools.combinations(found, 2):
        assert sum(a[name] != b[name] for name in a) >= 3


def test_stored_configs_of_the_problem_come_before_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE, "two": TWO})
    with TuningDatabase.open("sqlite://") as database:
        own = tune(PROBLEM, executor=FakeExecutor(), db=database, max_trials=6, seed=1).best
        other = tune(replace(PROBLEM, n=64), executor=FakeExecutor(), db=database, max_trials=30, seed=2).best
        found = [
            (f.name, c.digest()) for f, c in stored_configs(PROBLEM, TARGET, [ONE, TWO], LayeredRecords((database,)))
        ]
        only_two = list(stored_configs(PROBLEM, TARGET, [TWO], LayeredRecords((database,))))
    assert own is not None
    assert other is not None
    assert found[0] == (own.family, own.config_digest)
    assert found[-1] == (other.family, other.config_digest)
    assert len(found) == 5
    assert {family.name for family, _ in only_two} == {"two"}


def test_predicted_configs_are_tried_however_many_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE})
    with TuningDatabase.open("sqlite://") as database:
        best = tune(PROBLEM, executor=FakeExecutor(), db=database, max_trials=12, seed=1).best
        assert best is not None
        unseen = FakeConfig(threads=96, depth=7)
        predicted = replace(
            best, config=unseen.to_dict(), config_digest=unseen.digest(), predicted=True, cubin_sha256=(), study="words"
        )
        database.record(predicted)
        found = [config for _, config in stored_configs(PROBLEM, TARGET, [ONE], LayeredRecords((database,)))]
    assert unseen.digest() not in {config.digest() for config in found[:4]}
    assert unseen in found


def test_a_stored_config_of_another_shape_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.families.FAMILIES", {"one": ONE})
    with TuningDatabase.open("sqlite://") as database:
        record = tune(PROBLEM, executor=FakeExecutor(), db=database, max_trials=1).best
    assert record is not None
    assert config_of(ONE, record) == FakeConfig(threads=32, depth=1)
    assert config_of(ONE, replace(record, config={"threads": 32, "depth": 1})) is None
    assert config_of(ONE, replace(record, config={**record.config, "word": "delta"})) is None
