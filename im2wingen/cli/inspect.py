"""im2wingen inspect: read the kernel that serves a problem."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from im2wingen.cache import CubinCache
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu_compiler import compile_assembly, cpu_compiler_version
from im2wingen.cpu_target import CpuTarget
from im2wingen.errors import UsageError
from im2wingen.families import family_named, family_names
from im2wingen.families.base import AnyTarget, Launch
from im2wingen.nvrtc import Cubin, compile_ptx
from im2wingen.problem import ConvProblem
from im2wingen.render import Source
from im2wingen.report import config_table, format_bytes, rows_table, speed_sentence
from im2wingen.runtime import Choice, look_up
from im2wingen.runtime.cubins import obtain_cubins
from im2wingen.sass import disassemble
from im2wingen.settings import read_settings


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    shape_argument: opt.ShapeArgument = None,
    shape: opt.ShapeOption = None,
    precision: opt.AnyPrecisionOption = None,
    layout: opt.LayoutOption = "nhwc",
    batch: opt.BatchOption = None,
    epilogue: opt.EpilogueOption = "none",
    source: Annotated[bool, typer.Option("--source", help="The text that is compiled, nothing else.")] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="NVRTC's PTX.")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="The machine code, by nvdisasm.")] = False,
    asm: Annotated[bool, typer.Option("--asm", help="The assembly of the CPU's kernels.")] = False,
    usage: Annotated[bool, typer.Option("--usage", help="What each kernel takes: registers, spills, memory.")] = False,
    config: Annotated[bool, typer.Option("--config", help="The configuration and the rule that chose it.")] = False,
    kernel: Annotated[str | None, typer.Option(help="Only this kernel of the plan (for texts).")] = None,
    family: opt.FamilyOption = None,
    cores: opt.CoresOption = None,
    backend: opt.BackendOption = None,
    threads: opt.ThreadsOption = None,
    arch: opt.ArchOption = None,
    db: opt.DbOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show the kernel that `load` would serve: the stored best, or the default configuration where nothing is stored.

    Without an option: the configuration and the usage. Needs no GPU: --arch stands in for one.

    \b
    im2wingen inspect cv5 --precision fp16 --source > cv5.cu
    im2wingen inspect cv5 --sass --kernel mma --arch sm_80
    im2wingen inspect cv9 --batch 1 --backend cpu --asm --kernel simd
    """
    place = opt.Place(arch=arch, backend=backend, threads=threads)
    options = opt.ProblemOptions(precision=precision, layout=layout, batch=batch, epilogue=epilogue)
    options.with_default("fp32").one(shape_argument, shape)
    families = family_names(family and [family], cores)
    (problem,), on_cpu = place.resolve(options, [shape_argument or shape or ""], None, families)
    texts: dict[str, Callable[[_Chosen], list[tuple[str, str]]]] = {
        "source": _sources, "ptx": _ptx, "sass": _sass, "asm": _asm
    }  # fmt: skip
    flags = {"source": source, "ptx": ptx, "sass": sass, "asm": asm, "usage": usage, "config": config}
    wanted = [name for name, given in flags.items() if given]
    if len(wanted) > 1 and not set(wanted) <= {"usage", "config"}:
        raise UsageError(f"{' and '.join(f'--{name}' for name in wanted)} can't be shown together; choose one")
    if wanted and ((on_cpu and wanted[0] in ("ptx", "sass")) or (not on_cpu and wanted[0] == "asm")):
        allowed = "--asm" if on_cpu else "--ptx and --sass"
        raise UsageError(
            f"--{wanted[0]} doesn't go with a kernel for the {'CPU' if on_cpu else 'GPU'}; allowed are {allowed}"
        )
    output = Output(as_json=as_json)
    target = place.target(on_cpu, output)
    choice = look_up(problem, target, opt.database_url(db), families=families)
    chosen = _Chosen(problem=problem, target=target, choice=choice, kernel=kernel)
    document: dict[str, object] = {"arch": target.arch, **_choice_document(chosen)}
    if wanted and wanted[0] in texts:
        parts = texts[wanted[0]](chosen)
        document["kernels"] = [{"kernel": name, wanted[0]: text} for name, text in parts]
        if not as_json:
            output.text("\n".join(text.rstrip("\n") for _, text in parts))
    else:
        if "config" in wanted or not wanted:
            _show_config(chosen, output)
        if "usage" in wanted or not wanted:
            document["usage"] = _show_usage(chosen, output)
    command = ["inspect", *opt.problem_arguments([problem]), *(f"--{name}" for name in wanted)]
    command += [word for name, value in (("--kernel", kernel), ("--family", family)) if value for word in (name, value)]
    command += opt.cores_arguments(cores)
    output.finish([*command, *place.arguments(on_cpu, target), *opt.database_arguments(db)], document)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The choice to look at, and which of its kernels (all if None)."""

    problem: ConvProblem
    target: AnyTarget
    choice: Choice
    kernel: str | None

    def launches(self) -> list[tuple[int, Launch, Source]]:
        """Index, launch and source of each kernel asked for; UsageError for a name that the plan doesn't have."""
        plan = self.choice.plan
        names = [launch.template for launch in plan.launches]
        if self.kernel is not None and self.kernel not in names:
            raise UsageError(f"kernel is {self.kernel!r}; allowed are {', '.join(names)}")
        triples = zip(range(len(names)), plan.launches, self.choice.sources, strict=True)
        return [(i, launch, source) for i, launch, source in triples if self.kernel in (None, launch.template)]

    def cubins(self) -> tuple[Cubin, ...]:
        cache = CubinCache(read_settings().cache_dir)
        return obtain_cubins(self.choice, self.target.arch, cache, may_compile=True)[0]


def _sources(chosen: _Chosen) -> list[tuple[str, str]]:
    return [(launch.template, source.text) for _, launch, source in chosen.launches()]


def _ptx(chosen: _Chosen) -> list[tuple[str, str]]:
    return [(launch.template, compile_ptx(source, chosen.target.arch)) for _, launch, source in chosen.launches()]


def _sass(chosen: _Chosen) -> list[tuple[str, str]]:
    cubins = chosen.cubins()
    return [(launch.template, disassemble(cubins[i])) for i, launch, _ in chosen.launches()]


def _asm(chosen: _Chosen) -> list[tuple[str, str]]:
    return [(launch.template, compile_assembly(source, chosen.target.arch)) for _, launch, source in chosen.launches()]


def _choice_document(chosen: _Chosen) -> dict[str, object]:
    choice = chosen.choice
    return {
        "problem_key": chosen.problem.key,
        "device_name": chosen.target.name,
        "level": choice.level,
        "rule": choice.rule,
        "family": choice.family,
        "cores": family_named(choice.family).cores,
        "arithmetic": choice.plan.arithmetic,
        "config": choice.config.to_dict(),
        "config_digest": choice.config.digest(),
        "record": None if choice.record is None else opt.record_document(choice.record),
        "workspace_bytes": choice.plan.workspace_bytes,
    }


def _show_config(chosen: _Chosen, output: Output) -> None:
    choice, record = chosen.choice, chosen.choice.record
    output.show(f"{opt.problem_name(chosen.problem)} for {chosen.target.name} ({chosen.target.arch})")
    output.show(f"level {choice.level}: {choice.rule}")
    if choice.level == "exact" and record is not None and record.median_us is not None:
        output.show(speed_sentence(chosen.problem, chosen.target, record.median_us, predicted=record.predicted))
    cores = family_named(choice.family).cores
    where = "the CPU" if cores is None else f"{cores} cores"
    output.show(f"family {choice.family} on {where}, arithmetic {choice.plan.arithmetic}")
    output.show(f"workspace: {format_bytes(choice.plan.workspace_bytes)}")
    output.show(config_table(f"{choice.family} {choice.config.digest()}", choice.config.to_dict()))


def _show_usage(chosen: _Chosen, output: Output) -> list[dict[str, object]]:
    """Show each kernel's resources and launch geometry; the same as values."""
    cubins = chosen.cubins()
    if isinstance(chosen.target, CpuTarget):
        return _show_cpu_usage(chosen, cubins, output)
    usages: list[dict[str, object]] = []
    for i, launch, _ in chosen.launches():
        cubin = cubins[i]
        usages.append(
            {
                "kernel": launch.template, "grid": list(launch.grid), "block": launch.block,
                "num_regs": cubin.num_regs, "spill_bytes": cubin.spill_bytes, "stack_bytes": cubin.stack_bytes,
                "static_smem_bytes": cubin.smem_bytes, "dynamic_smem_bytes": launch.smem_bytes,
                "image_bytes": len(cubin.image), "sha256": cubin.sha256, "nvrtc_version": cubin.nvrtc_version,
            }
        )  # fmt: skip
    columns = ("kernel", "grid", "#block", "#regs", "#spills", "#smem", "#image", "NVRTC")
    rows = [
        [
            str(usage["kernel"]), "x".join(map(str, launch.grid)), str(launch.block), str(usage["num_regs"]),
            format_bytes(cubins[i].spill_bytes), format_bytes(launch.smem_bytes + cubins[i].smem_bytes),
            format_bytes(len(cubins[i].image)), cubins[i].nvrtc_version,
        ]
        for usage, (i, launch, _) in zip(usages, chosen.launches(), strict=True)
    ]  # fmt: skip
    output.show(rows_table("usage", columns, rows))
    return usages


def _show_cpu_usage(chosen: _Chosen, cubins: tuple[Cubin, ...], output: Output) -> list[dict[str, object]]:
    """Likewise for the CPU, whose compiler says nothing about registers."""
    assert isinstance(chosen.target, CpuTarget)
    usages: list[dict[str, object]] = [
        {
            "kernel": launch.template, "threads": chosen.target.cores, "image_bytes": len(cubins[i].image),
            "sha256": cubins[i].sha256, "compiler": cpu_compiler_version(),
        }
        for i, launch, _ in chosen.launches()
    ]  # fmt: skip
    rows = [
        [str(u["kernel"]), str(u["threads"]), format_bytes(len(cubins[i].image)), str(u["compiler"])]
        for u, (i, _, _) in zip(usages, chosen.launches(), strict=True)
    ]
    output.show(rows_table("usage", ("kernel", "#threads", "#image", "compiler"), rows))
    return usages
