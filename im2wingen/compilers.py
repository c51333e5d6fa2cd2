"""Which compiler an arch's kernels come from: NVRTC for GPUs (sm_90a), this machine's C++ compiler for CPUs."""

from im2wingen.cpu_compiler import compile_shared_object, cpu_compiler_version, cpu_toolkit_digest
from im2wingen.nvrtc import Cubin, compile_cubin, nvrtc_version, toolkit_digest
from im2wingen.render import Source


def is_gpu_arch(arch: str) -> bool:
    return arch.startswith(("sm_", "compute_"))


def compile_kernel(source: Source, arch: str, *, limit_s: float | None = None) -> Cubin:
    """The compiled kernel; CompileError carries the log and the numbered source.

    `limit_s` is for a CPU's compiler alone, a process of its own; after it comes CompileTimeoutError.
    """
    return compile_cubin(source, arch) if is_gpu_arch(arch) else compile_shared_object(source, arch, limit_s=limit_s)


def compiler_digest(arch: str) -> str:
    """sha256, in hex, of what a kernel's image depends on besides source and arch."""
    return toolkit_digest() if is_gpu_arch(arch) else cpu_toolkit_digest(arch)


def made_here(arch: str, *, nvrtc: str, driver: str) -> bool:
    """Whether a record of these versions comes from the compiler that is here.

    That of a CPU stands where a GPU has its driver's version.
    """
    return nvrtc == nvrtc_version() if is_gpu_arch(arch) else (nvrtc, driver) == ("", cpu_compiler_version())
