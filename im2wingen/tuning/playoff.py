"""The end of a tuning run: its best meet side by side, so that no drift of clocks decides."""

import logging
from collections.abc import Collection, Hashable
from dataclasses import replace

from im2wingen.db import TrialRecord
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError
from im2wingen.outcome import ErrorStats, Evaluation, Outcome
from im2wingen.tuning.attempt import Compiled, RecordMaker, rendered
from im2wingen.tuning.executors import Executor
from im2wingen.tuning.standings import Contender, Standings
from im2wingen.tuning.study import Identity

log = logging.getLogger(__name__)

FINALISTS = 12
_IN_REACH = 1.15  # times the best of the search: a sustained load turns no more than that around


def play_off(
    standings: Standings, defaults: Collection[Identity], executor: Executor, maker: RecordMaker, *, seconds: float
) -> list[TrialRecord]:
    """Measure the best configs of different kernels against each other, in about `seconds`; the winner's record first.

    The default config of the leader's family, where it ran, takes part, so that the gain over it is measured side by
    side too. A config that turned out to be wrong comes last, with its outcome. Empty where nobody could be measured;
    the search's own times stand then.
    """
    finalists = _finalists(standings, defaults, executor, maker)
    if not finalists:
        return []
    try:
        evaluations = executor.play_off([compiled for _, compiled in finalists], seconds).result()
    except Im2wingenError as error:
        log.warning("there was no play-off: %s", error)
        return []
    records = []
    for (contender, compiled), evaluation in zip(finalists, evaluations, strict=True):
        if evaluation is not None:
            evaluation = _with_error(evaluation, contender.record)
            records.append(maker.record(compiled.attempt, evaluation, compiled.cubins, play_off=True))
    return sorted(records, key=lambda r: (r.outcome != Outcome.OK, r.median_us or 0.0, r.config_digest))


def _finalists(
    standings: Standings, defaults: Collection[Identity], executor: Executor, maker: RecordMaker
) -> list[tuple[Contender, Compiled]]:
    found: dict[Hashable, tuple[Contender, Compiled]] = {}
    ranked = standings.ranked()
    if not ranked:
        return []
    leader = ranked[0]
    for contender in ranked:
        is_default = contender.pick.family is leader.pick.family and contender.pick.identity in defaults
        in_reach = len(found) < FINALISTS and contender.rank[0] <= _IN_REACH * leader.rank[0]
        if in_reach or is_default:
            compiled = contender.compiled or _compiled_again(contender, executor, maker)
            if compiled is not None:
                found.setdefault(compiled.kernels, (contender, compiled))
    return list(found.values())


def _compiled_again(contender: Contender, executor: Executor, maker: RecordMaker) -> Compiled | None:
    """A contender of an earlier run, with its number of then."""
    attempt = rendered(maker.problem, maker.target, contender.record.trial, contender.pick)
    try:
        return Compiled(attempt=attempt, cubins=executor.compile(attempt.sources).result())
    except (CompileError, CompileTimeoutError) as error:
        log.warning("trial %d is not in the play-off: %s", attempt.number, error)
        return None


def _with_error(evaluation: Evaluation, record: TrialRecord) -> Evaluation:
    """The evaluation with the error that the search found, where the play-off did not verify again."""
    if evaluation.error is not None or record.max_error is None or record.norm_error is None:
        return evaluation
    return replace(evaluation, error=ErrorStats(max_error=record.max_error, norm_error=record.norm_error))
