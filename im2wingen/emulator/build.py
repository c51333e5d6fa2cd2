"""What the emulator compiles: the runner, once a machine, and each kernel's text against thin headers."""

from pathlib import Path

from cuda import pathfinder

from im2wingen.errors import Im2wingenError
from im2wingen.host_compiler import build_program, build_shared_object, cpu_flags
from im2wingen.render import Source
from im2wingen.settings import read_settings

_PACKAGE = Path(__file__).parent
_RUNTIME = (
    "fiber", "memory", "report", "block", "cluster", "sync", "async_copies", "async_proxy", "mbarrier", "named_barrier",
    "loads", "bulk_copies", "tensor_map", "tensor_copies", "tensor_core", "wgmma_descriptor", "wgmma_multiply",
    "wgmma_multiply_8bit", "wgmma", "main",
)  # fmt: skip
# A kernel's text reinterprets memory as vectors freely, as CUDA allows.
_COMMON = ("-std=c++17", "-DIM2WINGEN_EMULATED", "-fno-strict-aliasing", "-pthread")
_HEADER = "emulator.h"
# A frame larger than the page below a stack still touches that page.
_KERNEL = ("-fvisibility=hidden", "-fstack-clash-protection")
_SANITIZERS = ("-DIM2WINGEN_SANITIZED", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build_runner(*, sanitize: bool) -> Path:
    """The program that loads a compiled kernel and runs one launch."""
    text = "".join(f'#include "{name}.cpp"\n' for name in _RUNTIME)
    include = [_PACKAGE / "runtime", *_include()]
    flags = (
        *_COMMON,
        "-include",
        _HEADER,
        *cpu_flags(),
        "-rdynamic",
        *(("-O1", *_SANITIZERS) if sanitize else ("-O2",)),
    )
    return build_program(text, include=include, flags=flags, folder=_folder(), name="the emulator's runner")


def build_kernel(source: Source, *, sanitize: bool) -> Path:
    """The kernel as a shared object for the runner; raises CompileError."""
    flags = (*_COMMON, *cpu_flags(), "-O1", *_KERNEL, *(_SANITIZERS if sanitize else ()))
    return build_shared_object(
        source.text, include=_include(), flags=flags, folder=_folder(), name=source.kernel, header=_HEADER
    )


def _include() -> list[Path]:
    cuda = pathfinder.find_nvidia_header_directory("cudart")
    if cuda is None:
        raise Im2wingenError("cuda_fp16.h is missing; install nvidia-cuda-runtime and nvidia-cuda-crt")
    return [_PACKAGE / "include", Path(cuda)]


def _folder() -> Path:
    return read_settings().cache_dir / "emulator"
