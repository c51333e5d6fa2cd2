"""im2wingen doctor: what is installed, and for everything that is missing what to do."""

import importlib.metadata
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer
from cuda import pathfinder

from im2wingen import __version__
from im2wingen.cli import options as opt
from im2wingen.cli.output import Output
from im2wingen.cpu.loaded import LoadedCpuPlan
from im2wingen.cpu_compiler import compile_shared_object, cpu_compiler_version
from im2wingen.cpu_target import cpu_target
from im2wingen.db import TuningDatabase, read_export
from im2wingen.db.connection import parse_place
from im2wingen.device import device_count, open_device
from im2wingen.errors import Im2wingenError
from im2wingen.families.base import Launch, Plan
from im2wingen.host_compiler import find_compiler
from im2wingen.nvrtc import compile_cubin, find_headers, nvrtc_version
from im2wingen.render import Source, data_folder
from im2wingen.report import format_bytes, rows_table
from im2wingen.settings import read_settings
from im2wingen.target import DEFAULT_ARCH

Verdict = Literal["ok", "missing", "broken"]

_REQUIRED = (
    "cuda-bindings", "cuda-core", "cuda-pathfinder", "jinja2", "numpy", "optuna", "sqlalchemy", "alembic", "rich",
    "typer", "platformdirs",
)  # fmt: skip
_OPTIONAL = {
    "torch": "pip install 'im2wingen[torch]' to call kernels from PyTorch",
    "cupy": "pip install 'im2wingen[cupy]' to call kernels from CuPy",
    "nvidia-cudnn-frontend": "pip install 'im2wingen[bench]' to measure against cuDNN",
    "nvidia-ml-py": "pip install nvidia-ml-py to record clocks and the driver's version",
}
_DISTRIBUTIONS = {"cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy")}
_PROBE = Source(
    "probe",
    '#include <cuda_fp16.h>\n#include <cuda_fp8.h>\nextern "C" __global__ void probe(__half* y) { *y = __half(1); }\n',
)
_CPU_PROBE = Source("probe", 'extern "C" void probe() {\n#pragma omp parallel\n  asm volatile("");\n}\n')
_CPU_PLAN = Plan(
    launches=(Launch(template="probe", values={}, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=()),)
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's table; `advice` says what to do where the verdict is not ok."""

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""
    essential: bool = True

    @property
    def is_fatal(self) -> bool:
        return self.essential and self.verdict != "ok"


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(db: opt.DbOption = None, as_json: opt.JsonOption = False) -> None:
    """Show what is installed and works, and for everything that is missing what to do.

    Exits with 0 unless something is broken that im2wingen can't work without; a GPU is not among that.
    """
    output = Output(as_json=as_json)
    findings = [*_packages(), *_machine(), *_toolchain(), *_storage(opt.database_url(db))]
    rows = [[f.subject, f.verdict, f.found, f.advice] for f in findings]
    output.show(rows_table("im2wingen doctor", ("what", "state", "found", "what to do"), rows))
    output.finish(["doctor", *opt.database_arguments(db)], {"findings": [asdict(finding) for finding in findings]})
    if fatal := [finding for finding in findings if finding.is_fatal]:
        raise Im2wingenError(f"{fatal[0].subject} is {fatal[0].verdict}: {fatal[0].advice or fatal[0].found}")


def _packages() -> list[Finding]:
    findings = [
        Finding(subject="im2wingen", verdict="ok", found=f"{__version__} in {Path(__file__).parents[1]}"),
        Finding(subject="Python", verdict="ok", found=f"{platform.python_version()} ({sys.executable})"),
    ]
    missing = [name for name in _REQUIRED if _version(name) is None]
    versions = ", ".join(f"{name} {_version(name)}" for name in _REQUIRED if name not in missing)
    findings.append(
        Finding(
            subject="packages",
            verdict="broken" if missing else "ok",
            found=versions,
            advice=f"pip install {' '.join(missing)}" if missing else "",
        )
    )
    for name, advice in _OPTIONAL.items():
        version = next((v for each in _DISTRIBUTIONS.get(name, (name,)) if (v := _version(each)) is not None), None)
        findings.append(
            Finding(
                subject=f"{name} (optional)",
                verdict="missing" if version is None else "ok",
                found=version or "-",
                advice="" if version else advice,
                essential=False,
            )
        )
    return findings


def _machine() -> list[Finding]:
    def devices() -> str:
        found = []
        for ordinal in range(device_count()):
            device = open_device(ordinal)
            target = device.target
            found.append(f"{device.name} ({target.arch}, {target.sm_count} SMs), driver {device.driver_version}")
            device.close()
        if not found:
            open_device()  # its error says why there is none
        return "; ".join(found)

    advice = (
        "GPU kernels need an NVIDIA GPU and a driver of 580 or later to be measured and run; all else works with --arch"
    )
    return [_probe("CUDA device", devices, advice, essential=False, missing=True)]


def _toolchain() -> list[Finding]:
    def nvdisasm() -> str:
        path = pathfinder.find_nvidia_binary_utility("nvdisasm")
        if path is None:
            raise Im2wingenError("not found")
        return str(path)

    def headers() -> str:
        found = find_headers()
        return f"{found.folder} (via {found.found_via})"

    def compiled() -> str:
        cubin = compile_cubin(_PROBE, DEFAULT_ARCH)
        return f"a kernel for {DEFAULT_ARCH} in {cubin.compile_s:.2f} s, {len(cubin.image)} bytes"

    def cpu_backend() -> str:
        target = cpu_target()
        compiled = compile_shared_object(_CPU_PROBE, target.arch)
        LoadedCpuPlan(_CPU_PLAN, (compiled,), 1).launch({})
        features = "".join(f", {name}" for name in target.features)
        vectors = f"{target.vector_bytes}-byte vectors{features}, {target.cores} cores"
        return f"{target.name} ({target.arch}, {vectors}); a kernel in {compiled.compile_s:.2f} s"

    return [
        _probe("NVRTC", nvrtc_version, "pip install 'nvidia-cuda-nvrtc>=13.0,<14'"),
        _probe("CUDA headers", headers, "pip install 'nvidia-cuda-runtime>=13.0,<14'"),
        _probe("compilation", compiled, "reinstall nvidia-cuda-nvrtc and nvidia-cuda-runtime, of one release"),
        _probe("nvdisasm", nvdisasm, "pip install nvidia-cuda-nvdisasm for inspect --sass", essential=False),
        _probe(
            "C++ compiler", lambda: f"{find_compiler()} ({cpu_compiler_version()})",
            "install g++ for the CPU backend and for the CPU emulator, which verifies without a GPU", essential=False,
        ),
        _probe(
            "CPU backend", cpu_backend,
            "the CPU backend needs a C++ compiler with OpenMP: install g++, or clang++ with libomp", essential=False,
        ),
    ]  # fmt: skip


def _storage(url: str) -> list[Finding]:
    settings = read_settings()

    def database() -> str:
        place = parse_place(url, 1.0)
        if place.file is not None and not place.file.exists():
            return f"{place.shown}: none yet, the first tuning makes it"
        with TuningDatabase.open(url, read_only=True) as opened:
            summaries = opened.problems()
        return f"{place.shown}: {sum(s.trials for s in summaries)} trials of {len(summaries)} problems"

    def shipped() -> str:
        folder = data_folder("tuning_db")
        return f"{sum(len(read_export(path)) for path in sorted(folder.glob('*.jsonl')))} records in {folder}"

    def cache() -> str:
        if not settings.cache_dir.is_dir():
            return f"{settings.cache_dir}: none yet, the first compilation makes it"
        files = list(settings.cache_dir.rglob("*.cubin"))
        return f"{settings.cache_dir}: {len(files)} kernels, {format_bytes(sum(f.stat().st_size for f in files))}"

    def templates() -> str:
        folder = data_folder("templates")
        count = len(list(folder.glob("*.c*.j2")))
        if not count:
            raise Im2wingenError(f"{folder} holds no templates")
        return f"{count} in {folder}"

    return [
        _probe("templates", templates, "reinstall im2wingen"),
        _probe("tuning database", database, "see the sentence; --db or IM2WINGEN_DB chooses another"),
        _probe("shipped records", shipped, "reinstall im2wingen", essential=False),
        _probe("kernel cache", cache, "IM2WINGEN_CACHE chooses another folder", essential=False),
    ]


def _probe(
    subject: str, look: Callable[[], str], advice: str, *, essential: bool = True, missing: bool = False
) -> Finding:
    """What `look` finds; its error is the finding where something is wrong."""
    try:
        return Finding(subject=subject, verdict="ok", found=look(), essential=essential)
    except Im2wingenError as error:
        verdict: Verdict = "missing" if missing or not essential else "broken"
        return Finding(subject=subject, verdict=verdict, found=str(error), advice=advice, essential=essential)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
