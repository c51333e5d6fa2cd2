"""A contestant: something that computes the layer's y, whoever wrote it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from im2wingen.bench.buffers import Buffers
from im2wingen.families.base import Cores
from im2wingen.problem import ConvProblem
from im2wingen.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """`launch(j)` queues the convolution of buffer set j on PyTorch's current stream, all kernels that it needs."""

    name: str
    peer: str
    detail: str
    launch: Callable[[int], None]
    output: Callable[[int], Any]  # y of set j, channels second
    workspace_bytes: int
    held_bytes: int = 0  # workspace that was allocated before the first launch
    allocates_output: bool = False  # writes y to memory of its own, not to the buffer set's


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What every peer needs to prepare its contestants for one layer."""

    torch: Any
    target: Target
    problem: ConvProblem
    buffers: Buffers
    prepacked: bool
    db: str | None  # path or URL of the tuning database; None: the environment's
    plan_seconds: float
    finalists: int
    cores: Cores | None = None  # of our kernels; None: the faster
