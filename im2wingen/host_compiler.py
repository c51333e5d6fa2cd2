"""C++ text -> shared object or program, by the compiler of this machine; content addressed, so built once."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from im2wingen.child_process import kill_group
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError
from im2wingen.settings import read_settings

_COMPILERS = ("g++", "clang++")
_X86_64_V3 = frozenset({"avx2", "bmi2", "f16c", "fma", "movbe"})
_EXCERPT_LINES = 3  # on either side of the first error


def find_compiler(prefix: str = "") -> Path:
    """The C++ compiler: IM2WINGEN_CXX, else g++, else clang++; Im2wingenError if there is none.

    `prefix` is that of a cross compiler (`aarch64-linux-gnu-`), which IM2WINGEN_CXX doesn't name.
    """
    wanted = "" if prefix else read_settings().cxx
    for name in (wanted,) if wanted else tuple(prefix + each for each in _COMPILERS):
        if (found := shutil.which(name)) is not None:
            return Path(found)
    if prefix:
        raise Im2wingenError(f"no C++ compiler for {prefix.rstrip('-')} was found; install {prefix}g++")
    if wanted:
        raise Im2wingenError(f"IM2WINGEN_CXX is {wanted!r}, which is no program on this machine")
    raise Im2wingenError("no C++ compiler was found; install g++ or clang++, or name one by IM2WINGEN_CXX")


@cache
def cpu_flags() -> tuple[str, ...]:
    """The -march flag for what this machine's processor has; empty where the compiler's default is all that is safe."""
    if platform.machine() != "x86_64":
        return ()
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return ("-march=x86-64-v3",) if _X86_64_V3.issubset(features) else ()


def build_shared_object(
    text: str,
    *,
    include: Sequence[Path],
    flags: Sequence[str],
    folder: Path,
    name: str = "source",
    header: str | None = None,
) -> Path:
    """Compile `text` to a shared object in `folder`, or find the one built from the same text, flags and headers.

    `name` is what a CompileError calls the text. `header`, of the folders `include`, comes before it; g++ reads it once
    for all texts of the same flags, and precompiled from then on.
    """
    flags = ("-fPIC", *flags)
    first = None if header is None else _precompiled(header, include=include, flags=flags, folder=folder)
    flags = (*flags, *(() if header is None else ("-include", header)))
    return _build(
        text, include=include, flags=("-shared", *flags), folder=folder, name=name, suffix=".so", search_first=first
    )


def build_program(
    text: str, *, include: Sequence[Path], flags: Sequence[str], folder: Path, name: str = "source"
) -> Path:
    """Like `build_shared_object`, for a text with a main function."""
    return _build(text, include=include, flags=flags, folder=folder, name=name, suffix="")


def compile_text(
    compiler: Path, text: str, flags: Sequence[str], *, name: str, limit_s: float | None = None
) -> tuple[bytes, str]:
    """What `compiler` makes of `text`, and its log; nothing is kept, and equal arguments give equal bytes.

    `name` is what its file and a CompileError are called. After `limit_s` seconds the compiler and what it started are
    killed: CompileTimeoutError. Without a limit they stay in the caller's process group, whose owner may end them.
    """
    with tempfile.TemporaryDirectory(prefix="im2wingen-") as temporary:
        source, built = Path(temporary) / f"{name}.cpp", Path(temporary) / "out"
        source.write_text(text)
        command = [str(compiler), *flags, source.name, "-o", built.name]
        code, log = _run(command, Path(temporary), limit_s)
        if code is None:
            raise CompileTimeoutError(f"{name} took longer than {limit_s:g} s to compile by {compiler}")
        if code != 0:
            raise CompileError(name, log, _excerpt(text, log, source.name))
        return built.read_bytes(), log


def _run(command: Sequence[str], folder: Path, limit_s: float | None) -> tuple[int | None, str]:
    """Exit code, None after `limit_s` seconds, and stderr."""
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        errors="replace", process_group=None if limit_s is None else 0,
    ) as process:  # fmt: skip
        try:
            _, log = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.returncode is None:  # too late, or Ctrl-C
                process.kill() if limit_s is None else kill_group(process)
    return process.returncode, log


@cache
def compiler_release(compiler: Path) -> str:
    """Kind and release, `g++ 12.2.0` or `clang++ 17.0.6`, however its program is called."""
    kind = "clang++" if "clang" in compiler_identity(compiler) else "g++"
    release = ""
    for flag in ("-dumpfullversion", "-dumpversion"):  # clang knows the latter alone
        done = subprocess.run([str(compiler), flag], capture_output=True, text=True, check=False)
        release = release or (done.stdout.strip() if done.returncode == 0 else "")
    return f"{kind} {release}"


def _precompiled(header: str, *, include: Sequence[Path], flags: Sequence[str], folder: Path) -> Path | None:
    """A folder in which g++ finds the header precompiled; None for a compiler that would not look there."""
    if not compiler_release(find_compiler()).startswith("g++"):
        return None
    flags = ("-x", "c++-header", *flags)
    built = _build(f'#include "{header}"\n', include=include, flags=flags, folder=folder, name=header, suffix=".gch")
    place = built.with_suffix(".headers")
    place.mkdir(mode=0o700, exist_ok=True)
    if not (place / f"{header}.gch").exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix="link-") as temporary:
            os.link(built, Path(temporary) / "gch")
            os.replace(Path(temporary) / "gch", place / f"{header}.gch")
    return place


def _build(
    text: str,
    *,
    include: Sequence[Path],
    flags: Sequence[str],
    folder: Path,
    name: str,
    suffix: str,
    search_first: Path | None = None,  # for headers; what it holds has no say in the digest
) -> Path:
    compiler = find_compiler()
    parts = [text, suffix, *flags, compiler_identity(compiler)]
    for path in include:
        parts += [str(path), _fingerprint(path)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    built = folder / f"{digest}{suffix}"
    if built.exists():
        return built
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = folder / f"{digest}.cpp"  # kept: debug information and sanitizer reports name it
    _write_atomically(source, text)
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as temporary:
        unfinished = Path(temporary) / "out"
        folders = (*(() if search_first is None else (search_first,)), *include)
        command = [str(compiler), *flags, *(f"-I{path}" for path in folders), str(source), "-o", str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompileError(name, done.stderr, _excerpt(text, done.stderr, str(source)))
        os.replace(unfinished, built)
    return built


def _write_atomically(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


@cache
def compiler_identity(compiler: Path) -> str:
    """Path and full version of a compiler: what an object depends on beside its text."""
    done = subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Im2wingenError(f"{compiler} --version failed: {done.stderr.strip()}")
    return f"{compiler}\n{done.stdout}"


@cache
def _fingerprint(folder: Path) -> str:
    """Name, size and time of every file of an include folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path}:{(status := path.stat()).st_size}:{status.st_mtime_ns}" for path in files)


def _excerpt(text: str, log: str, source: str) -> str:
    """The numbered lines around the first error that lies in the text itself."""
    place = re.escape(source) + r":(\d+):"
    match = re.search(place + r"\d+: (?:fatal )?error:", log) or re.search(place, log)
    if match is None:
        return ""
    error = int(match[1])
    lines = text.splitlines()
    first, last = max(1, error - _EXCERPT_LINES), min(len(lines), error + _EXCERPT_LINES)
    return "\n".join(f"{'>' if n == error else ' '}{n:5d} | {lines[n - 1]}" for n in range(first, last + 1))
