"""The Optuna study of one problem: where configs come from, and what their outcomes teach.

It lives in memory and one thread owns it. `family` is the first choice and the families' own choices follow as
`family.name`, so that one multivariate TPE with groups covers the conditional space; its constant liar keeps asks that
run side by side apart. The objective is the median in us: TPE only sorts it, so a logarithm would change nothing.
"""

import itertools
import random
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState, create_trial

from im2wingen.families.base import AnyTarget, Config, Family
from im2wingen.problem import ConvProblem

T = TypeVar("T")
Identity = tuple[str, str]  # family, config digest

_FAMILY = "family"
_MAX_REJECTED = 8  # TPE's picks in a row that are illegal or known, before variations of the best are tried
_MAX_VARIED = 64  # variations in a row likewise, before chance takes over
_MAX_RANDOM = 4096  # random picks in a row likewise, before the space counts as exhausted
_ELITE = 5  # configs whose variations are tried
_VARIED = 0.5  # share of variations among the picks once TPE has seen enough
_ENOUGH = 30  # trials
_CHANGE = 0.15  # the chance of each choice to be another in a variation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pick:
    """A config to try; `trial` is None where the search space can't express it."""

    family: Family
    config: Config
    trial: optuna.Trial | None

    @property
    def identity(self) -> Identity:
        return self.family.name, self.config.digest()


class TuningStudy:
    """Hands out legal configs that were not tried yet: the enqueued ones in their order, then TPE's picks.

    Half of the later picks are variations of the best configs instead, which sharpen what TPE has found. TPE does not
    avoid what it has seen; where it insists, variations take its place too, and then chance.
    """

    def __init__(self, problem: ConvProblem, target: AnyTarget, families: Sequence[Family], *, seed: int) -> None:
        self._problem, self._target = problem, target
        self._families = {family.name: family for family in families}
        self._queue: deque[tuple[Family, Config]] = deque()
        self._seeds: Iterator[tuple[Family, Config]] = iter(())
        self._known: set[Identity] = set()
        self._elite: list[tuple[float, str, Family, Config]] = []  # the fastest so far, the best first
        self._random = random.Random(seed)
        self._random_configs: dict[str, Iterator[Config]] = {
            family.name: family.random_configs(problem, target, seed) for family in families
        }
        self._study = _in_memory_study(seed)
        self.illegal = 0  # picks that broke a rule: pruned at once, never compiled

    def enqueue(self, family: Family, config: Config) -> None:
        """Try `config` before all that is not enqueued; where it's illegal or known by then, it is left out."""
        self._queue.append((family, config))

    def seed(self, configs: Iterator[tuple[Family, Config]]) -> None:
        """Likewise for what comes out of `configs`, after the queue; it's asked for one when that is needed."""
        self._seeds = configs

    def next(self) -> Pick | None:
        """The next config to try; None if no legal new one can be found."""
        while self._queue:
            family, config = self._queue.popleft()
            if self._is_new(family, config):
                return self._take(self._ask_for(family, config))
        for family, config in self._seeds:
            if self._is_new(family, config):
                return self._take(self._ask_for(family, config))
        if len(self._known) > _ENOUGH and self._random.random() < _VARIED:
            order = (self._variations(), self._tpe_picks(), self._random_picks())
        else:
            order = (self._tpe_picks(), self._variations(), self._random_picks())
        return next(itertools.chain(*order), None)

    def complete(self, pick: Pick, median_us: float) -> None:
        """The config was measured."""
        self._remember(pick.family, pick.config, median_us)
        if pick.trial is not None:
            self._study.tell(pick.trial, median_us)

    def prune(self, pick: Pick, slow_us: float | None = None) -> None:
        """The config itself caused a failure or, with `slow_us`, was too slow to be measured in full.

        TPE puts slow ones behind the measured and before the failed.
        """
        if pick.trial is not None and slow_us is not None:
            pick.trial.report(slow_us, step=0)
        self._end(pick, TrialState.PRUNED)

    def fail(self, pick: Pick) -> None:
        """We failed; nothing was learnt and the config may come again."""
        self._end(pick, TrialState.FAIL)
        self._known.discard(pick.identity)

    def restore(self, family: Family, config: Config, median_us: float | None, *, pruned: bool) -> bool:
        """Take over a trial of an earlier run; False if it's known or no longer legal."""
        if not self._is_new(family, config):
            return False
        self._known.add((family.name, config.digest()))
        if not pruned and median_us is not None:
            self._remember(family, config, median_us)
        params = self._params(family, config)
        if params is not None:
            trial = create_trial(
                state=TrialState.PRUNED if pruned else TrialState.COMPLETE,
                value=median_us,
                params=params,
                distributions=self._distributions(family, params),
                intermediate_values={} if median_us is None else {0: median_us},
            )
            self._study.add_trial(trial)
        return True

    def _is_new(self, family: Family, config: Config) -> bool:
        known = (family.name, config.digest()) in self._known
        return not known and not family.broken_rules(self._problem, self._target, config)

    def _take(self, pick: Pick) -> Pick:
        self._known.add(pick.identity)
        return pick

    def _ask_for(self, family: Family, config: Config) -> Pick:
        params = self._params(family, config)
        if params is None:
            return Pick(family=family, config=config, trial=None)
        self._study.enqueue_trial(params)
        return self._ask()

    def _ask(self) -> Pick:
        trial = self._study.ask()
        family = self._families[trial.suggest_categorical(_FAMILY, list(self._families))]

        def choose(name: str, choices: Sequence[T], /) -> T:
            picked: Any = trial.suggest_categorical(f"{family.name}.{name}", list[Any](choices))
            value: T = picked
            return value

        return Pick(family=family, config=family.suggest(self._problem, self._target, choose), trial=trial)

    def _end(self, pick: Pick, state: TrialState) -> None:
        if pick.trial is not None:
            self._study.tell(pick.trial, state=state)

    def _remember(self, family: Family, config: Config, median_us: float) -> None:
        self._elite.append((median_us, config.digest(), family, config))
        self._elite.sort(key=lambda entry: entry[:2])
        del self._elite[_ELITE:]

    def _tpe_picks(self) -> Iterator[Pick]:
        for _ in range(_MAX_REJECTED):
            pick = self._ask()
            if pick.identity in self._known:
                self._end(pick, TrialState.FAIL)
            elif pick.family.broken_rules(self._problem, self._target, pick.config):
                self.illegal += 1
                self._end(pick, TrialState.PRUNED)
            else:
                yield self._take(pick)

    def _variations(self) -> Iterator[Pick]:
        """Configs that share most choices with one of the best."""
        for _ in range(_MAX_VARIED if self._elite else 0):
            _, _, family, config = self._random.choice(self._elite)
            like = family.choices_of(self._problem, self._target, config) or {}

            def vary(name: str, choices: Sequence[T], /, like: dict[str, Any] = like) -> T:
                value: T = like.get(name, choices[0])
                changed = name not in like or self._random.random() < _CHANGE
                return self._random.choice(choices) if changed else value

            varied = family.suggest(self._problem, self._target, vary)
            if self._is_new(family, varied):
                yield self._take(self._ask_for(family, varied))

    def _random_picks(self) -> Iterator[Pick]:
        for _ in range(_MAX_RANDOM):
            name = self._random.choice(list(self._families))
            family, config = self._families[name], next(self._random_configs[name])
            if self._is_new(family, config):
                yield self._take(self._ask_for(family, config))

    def _params(self, family: Family, config: Config) -> dict[str, Any] | None:
        """The study's parameters that make up `config`, or None where the search space can't express it."""
        choices = family.choices_of(self._problem, self._target, config)
        if choices is None:
            return None
        return {_FAMILY: family.name} | {f"{family.name}.{name}": value for name, value in choices.items()}

    def _distributions(self, family: Family, params: dict[str, Any]) -> dict[str, BaseDistribution]:
        distributions: dict[str, BaseDistribution] = {_FAMILY: CategoricalDistribution(list(self._families))}

        def replay(name: str, choices: Sequence[T], /) -> T:
            full_name = f"{family.name}.{name}"
            distributions[full_name] = CategoricalDistribution(list[Any](choices))
            value: T = params[full_name]
            return value

        family.suggest(self._problem, self._target, replay)
        return distributions


def _in_memory_study(seed: int) -> optuna.Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # `group`
        sampler = optuna.samplers.TPESampler(multivariate=True, group=True, constant_liar=True, seed=seed)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would announce the new study on stderr
    try:
        return optuna.create_study(sampler=sampler, direction="minimize")
    finally:
        optuna.logging.set_verbosity(verbosity)
