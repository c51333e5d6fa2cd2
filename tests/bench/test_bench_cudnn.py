from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from im2wingen.bench import cudnn
from im2wingen.bench.buffers import Buffers
from im2wingen.bench.contestant import Session
from im2wingen.problem import ConvProblem
from im2wingen.target import preset


def test_strides_are_those_of_the_layouts() -> None:
    assert cudnn.strides([2, 3, 5, 7], "nhwc") == cudnn.strides([2, 3, 5, 7], "krsc") == [105, 1, 21, 3]
    assert cudnn.strides([2, 3, 5, 7], "nchw") == cudnn.strides([2, 3, 5, 7], "kcrs") == [105, 35, 7, 1]


class NotSupportedError(Exception):
    """The cuDNN frontend's own, which is no RuntimeError."""


@dataclass
class FakeGraph:
    """Six offered plans, the last a repeat of the first; 2 does not build, 3 does not run, 4 wants too much memory."""

    built: list[int] = field(default_factory=list)
    barred: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)  # of x, w, the sums and y
    workspace_limit: int = 0

    def tensor(self, **attributes: Any) -> SimpleNamespace:
        self.types.append(attributes["data_type"])
        return SimpleNamespace(**attributes)

    def conv_fprop(self, **attributes: Any) -> SimpleNamespace:
        self.types.append(attributes["compute_data_type"])
        setters = ("set_output", "set_dim", "set_stride", "set_uid")
        return SimpleNamespace(**{name: lambda _: None for name in setters}, set_data_type=self.types.append)

    def validate(self) -> None:
        self.calls.append("validate")

    def build_operation_graph(self) -> None:
        self.calls.append("build_operation_graph")

    def create_execution_plans(self, modes: list[str]) -> None:
        self.calls.append("+".join(modes))

    def deselect_workspace_greater_than(self, limit: int) -> None:
        self.workspace_limit = limit

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        self.barred = notes

    def check_support(self) -> None:
        self.calls.append("check_support")

    def get_execution_plan_count(self) -> int:
        return 6

    def get_plan_name_at_index(self, index: int) -> str:
        return f"eng{index % 5}"

    def build_plan_at_index(self, index: int) -> None:
        if index == 2:
            raise NotSupportedError("no kernel")
        self.built.append(index)

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return 1 << 50 if index == 4 else 1000 * index

    def execute_plan_at_index(self, pack: dict[int, int], workspace: int, index: int, handle: int) -> None:
        assert (sorted(pack), handle) == ([1, 2, 3], 5)
        if index == 3:
            raise RuntimeError("execution failed")


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> FakeGraph:
    made = FakeGraph()
    names = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION")
    module = SimpleNamespace(
        create_handle=lambda: 5, set_stream=lambda *, handle, stream: None, destroy_handle=lambda handle: None,
        cudnnGraphNotSupportedError=NotSupportedError, pygraph=lambda **_: made,
        data_type=SimpleNamespace(
            HALF="half", BFLOAT16="bf16", FLOAT="float", DOUBLE="double", INT8="int8", INT32="int32", FP8_E4M3="e4m3",
            FP8_E5M2="e5m2", FAST_FLOAT_FOR_FP8="fast",
        ),
        heur_mode=SimpleNamespace(A="A", B="B", FALLBACK="F"),
        numerical_note=SimpleNamespace(**{name: name for name in names}),
    )  # fmt: skip
    monkeypatch.setattr(cudnn, "import_cudnn", lambda: module)
    return made


def session(precision: str, *, plan_seconds: float = 60.0) -> Session:
    array = SimpleNamespace(data_ptr=lambda: 256)
    device = SimpleNamespace(synchronize=lambda: None, mem_get_info=lambda: (1 << 40, 1 << 40))
    torch = SimpleNamespace(cuda=device, uint8="uint8", empty=lambda *_, **__: array)
    return Session(
        torch=torch, target=preset("sm_90a"), problem=ConvProblem.parse("cv1", precision=precision),
        buffers=Buffers(x=(array,), w=(array,), y=(array,)), prepacked=False, db=None, plan_seconds=plan_seconds,
        finalists=1,
    )  # fmt: skip


def screened(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch, asked: Session) -> cudnn.Screening:
    """Plan 1 is the fastest."""

    class FakeTimer:
        def __init__(self, torch: Any, launch: Any, *, sets: int, graph_us: float) -> None:
            launch(0)

        def sample_us(self) -> float:
            return {0: 90.0, 1: 30.0}[graph.built[-1]]

        def close(self) -> None:
            pass

    monkeypatch.setattr(cudnn, "GraphTimer", FakeTimer)
    monkeypatch.setattr(cudnn, "launch_us", lambda torch, launch: launch(0) or 100.0)
    screen = cudnn.PlanScreen(SimpleNamespace(cuda_stream=7))
    return screen.screen(asked)


def test_every_distinct_plan_is_tried_and_the_fastest_is_the_finalist(
    graph: FakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = screened(graph, monkeypatch, session("fp16"))
    assert (found.offered, found.screened, found.failed, found.out_of_time) == (5, 2, 3, 0)
    assert [(c.name, c.workspace_bytes, c.peer) for c in found.finalists] == [("cudnn eng1", 1000, "cudnn")]
    assert graph.calls == ["validate", "build_operation_graph", "A+B+F", "check_support"]
    assert (graph.workspace_limit, graph.barred) == (40 << 30, [])


def test_strict_fp32_bars_the_plans_that_multiply_in_less(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    screened(graph, monkeypatch, session("fp32"))
    assert graph.barred == ["TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION"]


def test_tf32_bars_nothing(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    screened(graph, monkeypatch, session("tf32"))
    assert graph.barred == []


@pytest.mark.parametrize(
    ("precision", "types"),
    [
        ("fp16", ["half", "half", "float", "half"]),
        ("tf32", ["float"] * 4),
        ("fp32", ["float"] * 4),
        ("fp64", ["double"] * 4),
        ("int8", ["int8", "int8", "int32", "int32"]),
        ("e4m3", ["e4m3", "e4m3", "float", "half", "e4m3", "e4m3", "fast", "half"]),
        ("e5m2", ["e5m2", "e5m2", "float", "half", "e5m2", "e5m2", "fast", "half"]),
    ],
)
def test_types_of_the_graph(
    graph: FakeGraph, monkeypatch: pytest.MonkeyPatch, precision: str, types: list[str]
) -> None:
    screened(graph, monkeypatch, session(precision))
    assert graph.types == types


def test_plans_of_fast_accumulation_compete(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    found = screened(graph, monkeypatch, session("e4m3"))
    assert (found.offered, found.screened, found.failed) == (10, 4, 6)
    assert found.finalists[0].detail in ("eng1", "fast eng1")


def test_plans_past_the_time_are_counted(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    found = screened(graph, monkeypatch, session("fp16", plan_seconds=-1.0))
    assert (found.screened, found.out_of_time, found.finalists) == (0, 5, [])
