"""The layers of a run one after the other, as many as the time holds."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

Layer = TypeVar("Layer")


def layers_in_time(
    problems: Mapping[str, ConvProblem],
    measure: Callable[[str, ConvProblem], Layer],
    *,
    started: float,
    time_limit_s: float,
) -> Iterator[tuple[Layer, float]]:
    """Each layer measured, and the seconds since `started` (of time.monotonic).

    No layer starts that the limit would cut, as far as the longest one so far tells.
    """
    longest_s = 0.0
    for name, problem in problems.items():
        layer_started = time.monotonic()
        if layer_started - started + longest_s > time_limit_s:
            log.warning("the time limit leaves out %s and what follows", name)
            return
        layer = measure(name, problem)
        now = time.monotonic()
        longest_s = max(longest_s, now - layer_started)
        yield layer, round(now - started, 1)
