"""Source -> shared object or assembly for a CPU arch, by the compiler of this machine."""

import hashlib
import platform
import time
from pathlib import Path

from im2wingen.errors import CompileError, UsageError
from im2wingen.host_compiler import compile_text, compiler_identity, compiler_release, find_compiler
from im2wingen.nvrtc import Cubin
from im2wingen.render import Source

# Part of the cache key. Kernels reinterpret floats as vectors; nobody reads errno or traps of theirs.
_COMMON = (
    "-std=gnu++17", "-O3", "-fopenmp", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fno-strict-aliasing",
)  # fmt: skip
_ARCH_FLAGS: dict[str, tuple[str, ...]] = {
    "x86-64-avx512": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    "x86-64-avx2": ("-march=x86-64-v3",),
    "aarch64-neon": ("-march=armv8-a",),
    "generic": (),
}
_FOREIGN = {"x86-64": "x86_64-linux-gnu-", "aarch64": "aarch64-linux-gnu-"}
CPU_ARCHS = tuple(_ARCH_FLAGS)


def cpu_flags_of(arch: str) -> tuple[str, ...]:
    """All flags for an arch but what is made of the text; UsageError lists the known archs."""
    if arch not in _ARCH_FLAGS:
        raise UsageError(f"arch is {arch!r}; allowed are {', '.join(_ARCH_FLAGS)}")
    return (*_COMMON, *_ARCH_FLAGS[arch])


def compiler_for(arch: str) -> Path:
    """This machine's compiler, or a cross compiler for an arch of another kind; Im2wingenError if there is none."""
    here = {"x86_64": "x86-64", "AMD64": "x86-64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    wanted = next((kind for kind in _FOREIGN if arch.startswith(kind)), here)
    return find_compiler("" if wanted == here else _FOREIGN[wanted])


def cpu_compiler_version() -> str:
    """Kind and release of the compiler that kernels for this machine get, `g++ 12.2.0`."""
    return compiler_release(find_compiler())


def cpu_toolkit_digest(arch: str) -> str:
    """sha256, in hex, of what a shared object depends on besides its source: flags and compiler."""
    parts = (*cpu_flags_of(arch), compiler_identity(compiler_for(arch)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compile_shared_object(source: Source, arch: str, *, limit_s: float | None = None) -> Cubin:
    """The shared object as a Cubin, which has neither registers nor an NVRTC.

    CompileError with the numbered source, CompileTimeoutError after `limit_s` seconds.
    """
    flags, started = ("-shared", *cpu_flags_of(arch)), time.perf_counter()
    image, log = compile_text(compiler_for(arch), source.text, flags, name=source.kernel, limit_s=limit_s)
    if source.kernel.encode() + b"\0" not in image:
        raise CompileError(source.kernel, f'the source has no extern "C" function {source.kernel}')
    return Cubin(
        kernel=source.kernel, arch=arch, image=image, log=log, num_regs=0, spill_bytes=0, stack_bytes=0, smem_bytes=0,
        compile_s=time.perf_counter() - started, nvrtc_version="",
    )  # fmt: skip


def compile_assembly(source: Source, arch: str) -> str:
    """The compiler's assembly of the kernel; errors as compile_shared_object's."""
    flags = ("-S", "-fno-asynchronous-unwind-tables", *cpu_flags_of(arch))
    return compile_text(compiler_for(arch), source.text, flags, name=source.kernel)[0].decode()
