"""Where configs come from: seeds, TPE, chance; what may not come twice."""

import warnings

import pytest
from tuning_fakes import ONE, PROBLEM, TARGET, TWO, FakeConfig

from im2wingen.tuning.study import Pick, TuningStudy


def study(seed: int = 0) -> TuningStudy:
    return TuningStudy(PROBLEM, TARGET, [ONE, TWO], seed=seed)


def speed(pick: Pick) -> float:
    assert isinstance(pick.config, FakeConfig)
    return 100 + abs(pick.config.threads - 128) / 4 + 10 * (8 - pick.config.depth) + (pick.family is TWO)


def run(study: TuningStudy, trials: int) -> list[Pick]:
    picks = []
    for _ in range(trials):
        pick = study.next()
        assert pick is not None
        study.complete(pick, speed(pick))
        picks.append(pick)
    return picks


def test_picks_are_legal_and_new() -> None:
    picks = run(study(), 80)
    assert len({pick.identity for pick in picks}) == 80
    assert not any(pick.family.broken_rules(PROBLEM, TARGET, pick.config) for pick in picks)
    assert {pick.family.name for pick in picks} == {"one", "two"}


def test_equal_seeds_give_equal_picks() -> None:
    first, second, other = (run(study(seed), 40) for seed in (3, 3, 4))
    assert [pick.identity for pick in first] == [pick.identity for pick in second]
    assert [pick.identity for pick in first] != [pick.identity for pick in other]


def test_tpe_learns() -> None:
    picks = run(study(), 60)
    early, late = picks[:15], picks[-15:]
    assert sum(map(speed, late)) < sum(map(speed, early))


def test_enqueued_configs_come_first_and_once() -> None:
    searched = study()
    seeds = [FakeConfig(threads=64, depth=2), FakeConfig(threads=128, depth=8), FakeConfig(threads=64, depth=2)]
    for config in seeds:
        searched.enqueue(TWO, config)
    searched.enqueue(ONE, FakeConfig(threads=256, depth=8))  # illegal
    picks = run(searched, 4)
    assert [pick.config for pick in picks[:2]] == seeds[:2]
    assert picks[0].trial is not None
    assert len({pick.identity for pick in picks}) == 4


def test_a_config_outside_the_space_is_tried_all_the_same() -> None:
    searched = study()
    odd = FakeConfig(threads=33, depth=1)
    searched.enqueue(ONE, odd)
    (pick,) = run(searched, 1)
    assert pick.config == odd
    assert pick.trial is None


def test_an_exhausted_space_ends_the_search() -> None:
    searched = TuningStudy(PROBLEM, TARGET, [ONE], seed=0)
    legal = sum(threads * depth <= 1024 for threads in (32, 64, 96, 128, 192, 256) for depth in (1, 2, 3, 4, 6, 8))
    run(searched, 3 * legal)
    assert searched.next() is None


def test_a_failed_pick_may_come_again_and_a_pruned_one_may_not() -> None:
    searched = study()
    config = FakeConfig(threads=64, depth=2)
    searched.enqueue(ONE, config)
    failed = searched.next()
    assert failed is not None
    searched.fail(failed)
    searched.enqueue(ONE, config)
    again = searched.next()
    assert again is not None
    assert again.config == config
    searched.prune(again, 500.0)
    searched.enqueue(ONE, config)
    other = searched.next()
    assert other is not None
    assert other.config != config


def test_restored_trials_are_known_and_teach() -> None:
    searched = study()
    assert searched.restore(ONE, FakeConfig(threads=64, depth=2), 12.0, pruned=False)
    assert searched.restore(ONE, FakeConfig(threads=96, depth=2), 60.0, pruned=True)
    assert searched.restore(TWO, FakeConfig(threads=64, depth=2), None, pruned=True)
    assert searched.restore(ONE, FakeConfig(threads=33, depth=2), 13.0, pruned=False)  # outside the space
    assert not searched.restore(ONE, FakeConfig(threads=64, depth=2), 12.0, pruned=False)  # known
    assert not searched.restore(ONE, FakeConfig(threads=256, depth=8), 1.0, pruned=False)  # illegal
    known = {("one", FakeConfig(threads=64, depth=2).digest()), ("two", FakeConfig(threads=64, depth=2).digest())}
    assert not known & {pick.identity for pick in run(searched, 100)}


def test_it_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(study(), 30)
    assert capfd.readouterr() == ("", "")
