"""CUDA texts of these tests: put together as the project's templates are, run in the emulator, compiled by NVRTC."""

from pathlib import Path

from cuda import pathfinder
from cuda.bindings import nvrtc

from im2wingen.render import Source, _environment

KERNELS = Path(__file__).parent / "kernels"
_PRELUDE = '<% include "parts/prelude.cuh" %>\n'


def load(kernel: str, **macros: str | int) -> Source:
    """The text of kernels/<kernel>.cu, with the project's own wrappers included and `macros` defined above it."""
    return assemble(kernel, (KERNELS / f"{kernel}.cu").read_text(), **macros)


def assemble(kernel: str, text: str, **macros: str | int) -> Source:
    """`text` with includes as in the project's templates; `macros` are defined above it and are template values too."""
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return Source(kernel, defines + _environment().from_string(text).render(macros))


def one_kernel(
    arguments: str, body: str, *, includes: tuple[str, ...] = (), before: str = "", **macros: str | int
) -> Source:
    """A kernel of its own, named `test_kernel`."""
    included = "".join(f'<% include "{name}" %>\n' for name in includes)
    text = f"""{_PRELUDE}{included}{before}
extern "C" __global__ void test_kernel({arguments}) {{
{body}
}}
IM2WINGEN_EMULATED_ENTRY(test_kernel)
"""
    return assemble("test_kernel", text, **macros)


def nvrtc_log(source: Source, arch: str) -> str:
    """Compile for `arch`; the log, empty where NVRTC has nothing to say, or fail the test with it."""
    header = pathfinder.find_nvidia_header_directory("cudart")
    _, program = nvrtc.nvrtcCreateProgram(source.text.encode(), b"test.cu", 0, [], [])
    options = [f"-arch={arch}".encode(), f"-I{header}".encode(), b"-std=c++17"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    text = log.decode().strip("\0 \n")
    assert int(status) == 0, text
    return text
