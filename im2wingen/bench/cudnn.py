"""Peer `cudnn`: every plan that cuDNN's heuristics offer, screened; the fastest go through the whole protocol."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from im2wingen.bench.buffers import as_nchw
from im2wingen.bench.contestant import Contestant, Session
from im2wingen.bench.optional import PeerUnavailableError, import_cudnn
from im2wingen.bench.result import CUDNN
from im2wingen.bench.timing import SCREEN_US, GraphTimer, launch_us
from im2wingen.problem import ConvProblem

log = logging.getLogger(__name__)

WORKSPACE_LIMIT_BYTES = 40 << 30
# A plan of strict fp32 multiplies in fp32: notes that cuDNN gives to plans which do not.
_INEXACT_FP32 = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION")
_X, _W, _Y = 1, 2, 3  # tensor ids in a graph
_TYPES = {
    "fp16": "HALF", "bf16": "BFLOAT16", "fp64": "DOUBLE", "int8": "INT8", "int32": "INT32", "e4m3": "FP8_E4M3",
    "e5m2": "FP8_E5M2",
}  # fmt: skip
_COMPUTE = {"int8": "INT32", "fp64": "DOUBLE"}
_HOPELESS = 4.0  # a single launch this many times slower than the best plan: no graph for it


@dataclass(slots=True, kw_only=True)
class Screening:
    """What came of the plans that cuDNN offers."""

    offered: int = 0  # duplicates left out
    screened: int = 0
    failed: int = 0  # did not build, fit or run
    out_of_time: int = 0
    finalists: list[Contestant] = field(default_factory=list)  # fastest first


class PlanScreen:
    """The cuDNN handle of a benchmark run, bound to its stream."""

    def __init__(self, stream: Any) -> None:
        self._cudnn = import_cudnn()
        try:
            self._handle = self._cudnn.create_handle()
        except RuntimeError as error:
            raise PeerUnavailableError(f"cuDNN gives no handle: {error}") from error
        self._cudnn.set_stream(handle=self._handle, stream=stream.cuda_stream)

    def close(self) -> None:
        self._cudnn.destroy_handle(self._handle)

    def screen(self, session: Session) -> Screening:
        """Build and time plans until none is left or the session's plan_seconds are over, in the heuristics' order."""
        deadline = time.monotonic() + session.plan_seconds
        screening = Screening()
        plans = self._plans(session.problem)
        screening.offered = len(plans)
        timed: list[tuple[float, str]] = []
        for name, (graph, index) in plans.items():
            if time.monotonic() > deadline:
                screening.out_of_time += 1
                continue
            best_us = min((us for us, _ in timed), default=float("inf"))
            try:
                us = self._screen_plan(session, graph, index, best_us)
            except (RuntimeError, self._cudnn.cudnnGraphNotSupportedError) as error:
                session.torch.cuda.synchronize()  # a broken context ends the run here
                log.debug("%s: %s: %s", session.problem.key, name, error)
                screening.failed += 1
                continue
            timed.append((us, name))
        screening.screened = len(timed)
        chosen = {name: plans[name] for _, name in sorted(timed)[: session.finalists]}
        sizes = {
            name: int(graph.get_workspace_size_plan_at_index(index)) for name, (graph, index) in chosen.items()
        }  # fmt: skip
        # one for all: they run one after another
        workspace = session.torch.empty(max([1, *sizes.values()]), device="cuda", dtype=session.torch.uint8)
        for name, (graph, index) in chosen.items():
            launch = self._launcher(session, graph, index, workspace)
            screening.finalists.append(_contestant(session, name, launch, sizes[name]))
        return screening

    def _plans(self, problem: ConvProblem) -> dict[str, tuple[Any, int]]:
        """Name -> graph and index of every plan; those of fp8 with fast accumulation, as ours is, after the others."""
        graph = self._graph(problem, _COMPUTE.get(problem.precision, "FLOAT"))
        plans = {name: (graph, index) for name, index in self._distinct_plans(graph).items()}
        if problem.precision in ("e4m3", "e5m2"):
            try:
                fast = self._graph(problem, "FAST_FLOAT_FOR_FP8")
            except PeerUnavailableError as error:
                log.debug("%s, fast accumulation: %s", problem.key, error)
            else:
                plans |= {f"fast {name}": (fast, index) for name, index in self._distinct_plans(fast).items()}
        return plans

    def _graph(self, problem: ConvProblem, compute_type: str) -> Any:
        """The convolution as a cuDNN graph with its plans created and filtered, none built."""
        cudnn = self._cudnn
        element, output = (
            getattr(cudnn.data_type, _TYPES.get(name, "FLOAT")) for name in (problem.precision, problem.y_dtype)
        )
        compute = getattr(cudnn.data_type, compute_type)
        graph = cudnn.pygraph(
            handle=self._handle, name="conv", io_data_type=element,
            intermediate_data_type=compute, compute_data_type=compute,
        )  # fmt: skip
        n, c, h, w, k, p, q = (problem.n, problem.c, problem.h, problem.w, problem.k, problem.p, problem.q)
        x_dim, w_dim, y_dim = [n, c, h, w], [k, problem.group_c, problem.r, problem.s], [n, k, p, q]
        x = graph.tensor(name="x", dim=x_dim, stride=strides(x_dim, problem.x_layout), data_type=element, uid=_X)
        f = graph.tensor(name="w", dim=w_dim, stride=strides(w_dim, problem.w_layout), data_type=element, uid=_W)
        y = graph.conv_fprop(
            image=x, weight=f,
            pre_padding=[problem.pad_top, problem.pad_left], post_padding=[problem.pad_bottom, problem.pad_right],
            stride=[problem.stride_h, problem.stride_w], dilation=[problem.dilation_h, problem.dilation_w],
            compute_data_type=compute, name="conv",
        )  # fmt: skip
        y.set_output(True)
        y.set_dim(y_dim)
        y.set_stride(strides(y_dim, problem.y_layout))
        y.set_data_type(output)
        y.set_uid(_Y)
        try:
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.B, cudnn.heur_mode.FALLBACK])
            graph.deselect_workspace_greater_than(WORKSPACE_LIMIT_BYTES)
            if problem.precision == "fp32":
                graph.deselect_numeric_notes([getattr(cudnn.numerical_note, note) for note in _INEXACT_FP32])
            graph.check_support()
        except (RuntimeError, cudnn.cudnnGraphNotSupportedError) as error:
            raise PeerUnavailableError(f"cuDNN offers no plan: {error}") from error
        return graph

    def _distinct_plans(self, graph: Any) -> dict[str, int]:
        """Engine and knobs -> first index: the heuristics repeat each other."""
        plans: dict[str, int] = {}
        for index in range(graph.get_execution_plan_count()):
            plans.setdefault(str(graph.get_plan_name_at_index(index)), index)
        return plans

    def _screen_plan(self, session: Session, graph: Any, index: int, best_us: float) -> float:
        """A rough time; RuntimeError or cuDNN's own error where the plan does not build, fit or run."""
        torch = session.torch
        graph.build_plan_at_index(index)
        workspace_bytes = int(graph.get_workspace_size_plan_at_index(index))
        if workspace_bytes > min(WORKSPACE_LIMIT_BYTES, torch.cuda.mem_get_info()[0]):
            raise RuntimeError(f"needs a workspace of {workspace_bytes} bytes")
        workspace = torch.empty(max(1, workspace_bytes), device="cuda", dtype=torch.uint8)
        launch = self._launcher(session, graph, index, workspace)
        rough_us = launch_us(torch, launch)
        if rough_us > max(_HOPELESS * best_us, SCREEN_US):
            return rough_us
        timer = GraphTimer(torch, launch, sets=session.buffers.sets, graph_us=SCREEN_US)
        best_us = min(timer.sample_us() for _ in range(2))
        timer.close()
        return best_us

    def _launcher(self, session: Session, graph: Any, index: int, workspace: Any) -> Callable[[int], None]:
        buffers, handle = session.buffers, self._handle
        packs = [
            {_X: x.data_ptr(), _W: w.data_ptr(), _Y: y.data_ptr()}
            for x, w, y in zip(buffers.x, buffers.w, buffers.y, strict=True)
        ]

        def launch(j: int) -> None:
            graph.execute_plan_at_index(packs[j], workspace.data_ptr(), index, handle)

        return launch


def _contestant(session: Session, plan: str, launch: Callable[[int], None], workspace_bytes: int) -> Contestant:
    return Contestant(
        name=f"cudnn {plan}",
        peer=CUDNN,
        detail=plan,
        launch=launch,
        output=lambda j: as_nchw(session.buffers.y[j], session.problem.y_layout),
        workspace_bytes=workspace_bytes,
        held_bytes=workspace_bytes,
    )


def strides(dim: list[int], layout: str) -> list[int]:
    """Strides, in elements, of [outer, channels, rows, columns] that lies channels last (nhwc, krsc) or as written."""
    _, c, h, w = dim
    return [c * h * w, 1, w * c, c] if layout in ("nhwc", "krsc") else [c * h * w, h * w, w, 1]
