"""Source -> Cubin or PTX by NVRTC, with what ptxas says about registers, spills and shared memory; needs no driver."""

import hashlib
import importlib.metadata
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cuda import pathfinder
from cuda.bindings import nvrtc

from im2wingen.errors import CompileError, Im2wingenError, UsageError
from im2wingen.render import Source

log = logging.getLogger(__name__)

# Part of the cache key. NVRTC's own disk cache is off because its hits would come without the ptxas log.
OPTIONS: tuple[str, ...] = ("--std=c++17", "--ptxas-options=-v", "--no-cache")

_EXCERPT_LINES = 4  # before and after the line of the first error


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """A compiled kernel and its static facts; dynamic shared memory is the launch's and not counted here."""

    kernel: str
    arch: str
    image: bytes
    log: str
    num_regs: int  # per thread
    spill_bytes: int  # stores plus loads, over all functions of the source
    stack_bytes: int  # per thread
    smem_bytes: int  # static, per CTA
    compile_s: float
    nvrtc_version: str

    @property
    def sha256(self) -> str:
        """Hex digest of the image; equal digests are equal kernels."""
        return hashlib.sha256(self.image).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Where cuda_fp16.h and its like are; `found_via` is `site-packages` for the pip package, as pathfinder says it."""

    folder: Path
    found_via: str

    @property
    def digest(self) -> str:
        """sha256, in hex, of the number-format headers that kernels include."""
        texts = [path.name.encode() + b"\0" + path.read_bytes() for path in sorted(self.folder.glob("cuda_[bf]*.h*"))]
        return hashlib.sha256(b"\0".join(texts)).hexdigest()


@cache
def find_headers() -> Headers:
    """The CUDA runtime headers; Im2wingenError names the pip package where there are none."""
    located = pathfinder.locate_nvidia_header_directory("cudart")
    if located is None or not (Path(located.abs_path) / "cuda_fp16.h").is_file():
        raise Im2wingenError("the CUDA headers (cuda_fp16.h) are not installed: pip install nvidia-cuda-runtime")
    if located.found_via != "site-packages":
        log.warning("CUDA headers come from %s, not from the pip package nvidia-cuda-runtime", located.abs_path)
    return Headers(folder=Path(located.abs_path), found_via=str(located.found_via))


@cache
def nvrtc_version() -> str:
    """NVRTC's release, `13.0.88` where its file or pip package tells, else `13.0`; Im2wingenError if it's missing."""
    try:
        library = Path(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path)
    except pathfinder.DynamicLibNotFoundError as error:
        raise Im2wingenError("NVRTC is not installed: pip install nvidia-cuda-nvrtc") from error
    _, major, minor = nvrtc.nvrtcVersion()
    short = f"{major}.{minor}"
    if found := re.search(r"\.so\.(\d+\.\d+\.\d+)$", library.resolve().name):
        return found[1]
    try:
        package = importlib.metadata.distribution("nvidia-cuda-nvrtc")
    except importlib.metadata.PackageNotFoundError:
        return short
    owned = library.is_relative_to(Path(str(package.locate_file(""))))
    return package.version if owned and package.version.startswith(f"{short}.") else short


@cache
def toolkit_digest() -> str:
    """sha256, in hex, of what a cubin depends on besides source and arch: options, NVRTC's version, the headers."""
    return hashlib.sha256("\0".join((*OPTIONS, nvrtc_version(), find_headers().digest)).encode()).hexdigest()


def compile_cubin(source: Source, arch: str) -> Cubin:
    """The SASS image for `arch` (sm_80, sm_90a ...); CompileError carries the log and the numbered source."""
    started = time.perf_counter()
    with _compiled(source, arch) as (program, text):
        compile_s = time.perf_counter() - started
        image = _read(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    usage = _kernel_usage(source.kernel, text)
    return Cubin(
        kernel=source.kernel,
        arch=arch,
        image=image,
        log=text,
        num_regs=_number(r"Used (\d+) registers", usage),
        spill_bytes=sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", text))),
        stack_bytes=_number(r"(\d+) bytes cumulative stack", usage) or _number(r"(\d+) bytes stack frame", usage),
        smem_bytes=_number(r"(\d+) bytes smem", usage),
        compile_s=compile_s,
        nvrtc_version=nvrtc_version(),
    )


def compile_ptx(source: Source, arch: str) -> str:
    """The PTX text for the virtual architecture of `arch`; errors as compile_cubin's."""
    with _compiled(source, arch.replace("sm_", "compute_")) as (program, _):
        return _read(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0").decode()


@contextmanager
def _compiled(source: Source, arch: str) -> Iterator[tuple[Any, str]]:
    """A compiled program and its log; the program is destroyed afterwards."""
    if not re.fullmatch(r"(sm|compute)_\d+[af]?", arch):
        raise UsageError(f"arch is {arch!r}; allowed is a name such as sm_80 or sm_90a")
    nvrtc_version()  # says so where NVRTC is missing
    include = f"--include-path={find_headers().folder}"
    options = [text.encode() for text in (f"--gpu-architecture={arch}", *OPTIONS, include)]
    file_name = f"{source.kernel}.cu"
    (program,) = _checked(nvrtc.nvrtcCreateProgram(source.text.encode(), file_name.encode(), 0, [], []))
    try:
        error = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        text = _read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0").decode()
        if int(error) != 0:
            raise CompileError(source.kernel, text.strip() or _error_name(error), _excerpt(source, file_name, text))
        yield program, text
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(program: Any, get_size: Any, get: Any) -> bytes:
    (size,) = _checked(get_size(program))
    buffer = bytearray(size)
    _checked(get(program, buffer))
    return bytes(buffer)


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values behind an NVRTC return code, which is an enum or a plain int by the version of cuda-bindings."""
    error, *values = answer
    if int(error) != 0:
        raise Im2wingenError(f"NVRTC failed: {_error_name(error)}")
    return tuple(values)


def _error_name(error: Any) -> str:
    name: bytes = nvrtc.nvrtcGetErrorString(error)[1]
    return name.decode()


def _kernel_usage(kernel: str, text: str) -> str:
    """The lines of a ptxas -v log that are about the entry function `kernel`."""
    entries = re.split(r"Compiling entry function '([^']+)' for", text)
    usages = dict(zip(entries[1::2], entries[2::2], strict=True))
    if kernel not in usages:
        found = ", ".join(usages) or "none"
        raise CompileError(kernel, f'the source has no extern "C" __global__ function {kernel}; it has: {found}')
    return usages[kernel]


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _excerpt(source: Source, file_name: str, text: str) -> str:
    """Numbered source lines around the first error that lies in the source itself; empty if none does."""
    found = re.search(rf"^{re.escape(file_name)}\((\d+)\): (?:catastrophic )?error", text, re.MULTILINE)
    if found is None:
        return ""
    wrong, lines = int(found[1]), source.text.splitlines()
    window = range(max(1, wrong - _EXCERPT_LINES), min(len(lines), wrong + _EXCERPT_LINES) + 1)
    return "\n".join(f"{'>' if n == wrong else ' '}{n:5d} | {lines[n - 1]}".rstrip() for n in window)
