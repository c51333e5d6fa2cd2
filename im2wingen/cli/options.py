"""The options that verbs share, and what they mean together: problems, a target, a database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from im2wingen.backends import check_backend, pick_backend
from im2wingen.cli.output import Output
from im2wingen.cpu.devices import cpu_with
from im2wingen.db import TrialRecord
from im2wingen.device import device_count, open_device
from im2wingen.errors import UsageError
from im2wingen.families.base import AnyTarget
from im2wingen.layers import SUITES, expanded
from im2wingen.problem import ConvProblem
from im2wingen.settings import read_settings
from im2wingen.target import DEFAULT_ARCH, Target, preset

_SUITES = ", ".join(SUITES)
_SHAPE_HELP = (
    "cv1 to cv12, resnet50.conv1 ..., or a shape such as n128c64h224w224k64r7s7, then optional st2 or st2x1 (stride), "
    "pad1, pad1x2 or pad0,1,2,3 (top,bottom,left,right), dil2 (dilation), g32 (groups)."
)
_SHAPES_HELP = f"{_SHAPE_HELP} A suite means all its layers: {_SUITES}."

ShapeArgument = Annotated[str | None, typer.Argument(metavar="SHAPE", help=_SHAPE_HELP, show_default=False)]
ShapesArgument = Annotated[list[str] | None, typer.Argument(metavar="SHAPE", help=_SHAPES_HELP, show_default=False)]
ShapeOption = Annotated[str | None, typer.Option("--shape", help="The shape, in place of the argument.")]
ShapesOption = Annotated[list[str] | None, typer.Option("--shape", help="A shape, in place of an argument.")]
PrecisionOption = Annotated[
    str,
    typer.Option(help="fp32, tf32, fp16, bf16 or fp64; on Hopper int8, e4m3, e5m2; on the CPU fp32, fp64, bf16, int8."),
]
LayoutOption = Annotated[
    str, typer.Option(help="nhwc, nchw, on the CPU chwn, chwn8, or x-y where they differ: nchw-nhwc, nhwc-nchw.")
]
AnyPrecisionOption = Annotated[
    str | None,
    typer.Option(
        help="fp32, tf32, fp16, bf16, fp64; on Hopper int8, e4m3, e5m2; on the CPU fp32, fp64, bf16, int8 "
        "[fp16; fp32 on the CPU].",
        show_default=False,
    ),
]
BackendOption = Annotated[
    str | None,
    typer.Option(
        help="cuda or cpu [a GPU; where there is none, the CPU if it can run the problem].", show_default=False
    ),
]
ThreadsOption = Annotated[int | None, typer.Option(help="Threads of the CPU backend [one a core].", show_default=False)]
BatchOption = Annotated[int | None, typer.Option(help="Replaces the shape's N; named layers have 128 without it.")]
EpilogueOption = Annotated[str, typer.Option(help="none, bias or bias_relu.")]
ArchOption = Annotated[str | None, typer.Option(help="Stand in for a device: sm_80, sm_86, sm_89, sm_90a, sm_100a ...")]
DbOption = Annotated[str | None, typer.Option(help="Path or SQLAlchemy URL of the tuning database [IM2WINGEN_DB].")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine output: one JSON document on stdout.")]
CoresOption = Annotated[
    str | None, typer.Option(help="Only kernels that multiply on cuda or on tensor cores.", show_default=False)
]
FamilyOption = Annotated[str | None, typer.Option(help="Only this kernel family.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemOptions:
    """What makes a problem besides its shape, as the user gave it."""

    precision: str | None
    layout: str
    batch: int | None
    epilogue: str

    def with_default(self, precision: str) -> "ProblemOptions":
        """The same with this precision where the user gave none."""
        return self if self.precision is not None else replace(self, precision=precision)

    def problem(self, shape: str) -> ConvProblem:
        return ConvProblem.parse(
            shape, precision=self.precision or "fp16", layout=self.layout, batch=self.batch, epilogue=self.epilogue
        )

    def one(self, argument: str | None, option: str | None) -> ConvProblem:
        """The problem of a verb that takes one; UsageError unless there is exactly one shape."""
        if argument is not None and option is not None:
            raise UsageError("the shape is given twice, as the argument and as --shape; give it once")
        if (shape := argument or option) is None:
            raise UsageError("the shape is missing; give a named layer (cv1 to cv12) or a shape as the argument")
        return self.problem(shape)

    def several(self, arguments: Sequence[str] | None, options: Sequence[str] | None) -> list[ConvProblem]:
        """The problems of a verb that takes several, without repeats, in their order; at least one."""
        shapes = [*(arguments or ()), *(options or ())]
        if not shapes:
            raise UsageError(f"the shape is missing; give named layers (cv1 to cv12), shapes, or a suite: {_SUITES}")
        return list(dict.fromkeys(self.problem(name) for name in expanded(shapes)))


def problem_arguments(problems: Sequence[ConvProblem]) -> list[str]:
    """The command line's words for problems that differ in their shape alone."""
    first = problems[0]
    words = [problem.shape for problem in problems]
    words += ["--precision", first.precision, "--layout", first.layout]
    return words + ([] if first.epilogue == "none" else ["--epilogue", first.epilogue])


def problem_name(problem: ConvProblem) -> str:
    """The key, with the layer's name in front where it has one."""
    return problem.key if problem.layer_name is None else f"{problem.layer_name} {problem.key}"


def database_url(db: str | None) -> str:
    return db or read_settings().db_url


def database_arguments(db: str | None) -> list[str]:
    return [] if db is None else ["--db", db]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a verb looks or runs, as the user gave it."""

    arch: str | None
    backend: str | None
    threads: int | None

    def resolve(
        self,
        options: "ProblemOptions",
        shapes: Sequence[str] | None,
        more: Sequence[str] | None,
        families: Sequence[str] | None = None,
    ) -> tuple[list[ConvProblem], bool]:
        """The problems, and whether the CPU runs them: where it is asked for, or there is no GPU and it can."""
        backend = check_backend(self.backend)
        if self.arch is not None and (backend == "cpu" or self.threads is not None):
            raise UsageError("--arch names a GPU; leave it out, or --backend cpu and --threads")
        if backend is None and self.arch is None:
            on_cpu = options.with_default("fp32").several(shapes, more)
            if pick_backend(on_cpu, families) == "cpu":
                return on_cpu, True
        elif backend == "cpu":
            return options.with_default("fp32").several(shapes, more), True
        if self.threads is not None:
            raise UsageError("--threads are the CPU's; give --backend cpu as well")
        return options.with_default("fp16").several(shapes, more), False

    def target(self, on_cpu: bool, output: Output) -> AnyTarget:
        """The CPU, the preset of --arch, this machine's first device, or the default preset, which is said."""
        if not on_cpu:
            return find_target(self.arch, output)
        if self.backend is None:
            output.note("there is no CUDA device here: it's the CPU's kernels")
        return cpu_with(self.threads)

    def arguments(self, on_cpu: bool, target: AnyTarget) -> list[str]:
        """The command line's words for the same place."""
        if not on_cpu:
            return ["--arch", target.arch]
        return ["--backend", "cpu", *([] if self.threads is None else ["--threads", str(self.threads)])]


def find_target(arch: str | None, output: Output) -> Target:
    """The preset of `arch`; without one this machine's first device, else the default preset, which is said."""
    if arch is not None:
        return preset(arch)
    if device_count() == 0:
        output.note(f"there is no CUDA device here; standing in for one: {preset(DEFAULT_ARCH).name} ({DEFAULT_ARCH})")
        return preset(DEFAULT_ARCH)
    device = open_device()
    try:
        return device.target
    finally:
        device.close()


def cores_arguments(cores: str | None) -> list[str]:
    return [] if cores is None else ["--cores", cores]


def record_document(record: TrialRecord) -> dict[str, object]:
    """A stored trial in JSON's types, as in an export."""
    document: dict[str, object] = json.loads(record.text)
    return document
