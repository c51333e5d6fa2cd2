"""Real compilations; the numbers asserted are those the sources force, not what one NVRTC release happens to give."""

import pickle
from collections.abc import Iterator

import pytest
from cuda import pathfinder

from im2wingen import nvrtc
from im2wingen.errors import CompileError, Im2wingenError, UsageError
from im2wingen.render import Source

COPY = Source(
    "copy",
    """
    extern "C" __global__ void __launch_bounds__(256) copy(const float* x, float* y) {
      __shared__ float tile[256];
      tile[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      y[threadIdx.x] = tile[255 - threadIdx.x];
    }
    """,
)
# 200 live values in at most 32 registers: 65536 registers for 2048 threads.
SPILLING = Source(
    "spilling",
    """
    extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* x, float* y) {
      float live[200];
    #pragma unroll
      for (int i = 0; i < 200; ++i) live[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
    #pragma unroll
      for (int i = 0; i < 200; ++i) y[i * 1024 + threadIdx.x] = live[i] * live[199 - i];
    }
    """,
)


@pytest.fixture(autouse=True)
def _fresh_lookups() -> Iterator[None]:
    """Tests that hide NVRTC or its headers must not leave that behind."""
    yield
    nvrtc.find_headers.cache_clear()
    nvrtc.nvrtc_version.cache_clear()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_cubin_has_the_static_facts(arch: str) -> None:
    cubin = nvrtc.compile_cubin(COPY, arch)
    assert (cubin.kernel, cubin.arch) == ("copy", arch)
    assert cubin.image.startswith(b"\x7fELF")
    assert 0 < cubin.num_regs <= 255
    assert (cubin.spill_bytes, cubin.stack_bytes, cubin.smem_bytes) == (0, 0, 256 * 4)
    assert cubin.compile_s > 0
    assert "\0" not in cubin.log


def test_equal_sources_give_equal_images() -> None:
    first, second = nvrtc.compile_cubin(COPY, "sm_80"), nvrtc.compile_cubin(COPY, "sm_80")
    assert first.sha256 == second.sha256
    assert len(first.sha256) == 64
    assert first.sha256 != nvrtc.compile_cubin(COPY, "sm_90a").sha256


def test_spills_are_reported() -> None:
    cubin = nvrtc.compile_cubin(SPILLING, "sm_90a")
    assert cubin.spill_bytes > 0
    assert cubin.stack_bytes > 0
    assert cubin.num_regs <= 32


def test_stack_counts_called_functions() -> None:
    text = """
    __device__ __noinline__ float pick(const float* x, int n) {
      float local[64];
      for (int i = 0; i < 64; ++i) local[i] = x[i];
      return local[n];
    }
    extern "C" __global__ void caller(const float* x, float* y) { y[0] = pick(x, threadIdx.x); }
    """
    assert nvrtc.compile_cubin(Source("caller", text), "sm_80").stack_bytes >= 64 * 4


def test_cuda_headers_and_unicode_comments_compile() -> None:
    includes = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n// Î\n"
    text = includes + 'extern "C" __global__ void h(__half* y) { *y = __half(1); }'
    assert nvrtc.compile_cubin(Source("h", text), "sm_80").num_regs > 0


def test_headers_come_from_the_pip_package() -> None:
    # A toolkit under /usr/local would hide that the package's own dependencies lack the headers.
    assert nvrtc.find_headers().found_via == "site-packages"


def test_missing_headers_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pathfinder, "locate_nvidia_header_directory", lambda _: None)
    nvrtc.find_headers.cache_clear()
    with pytest.raises(Im2wingenError, match="pip install nvidia-cuda-runtime"):
        nvrtc.compile_cubin(COPY, "sm_80")


def test_missing_nvrtc_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise pathfinder.DynamicLibNotFoundError

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", absent)
    nvrtc.nvrtc_version.cache_clear()
    with pytest.raises(Im2wingenError, match="pip install nvidia-cuda-nvrtc"):
        nvrtc.compile_cubin(COPY, "sm_80")


def test_version_begins_with_major_and_minor() -> None:
    parts = nvrtc.nvrtc_version().split(".")
    assert parts[0] == "13"
    assert len(parts) in (2, 3)


def test_error_carries_log_and_numbered_source() -> None:
    text = '// 1\n// 2\n// 3\n// 4\n// 5\nextern "C" __global__ void bad() {\n  int v = nowhere;\n}\n'
    with pytest.raises(CompileError, match='identifier "nowhere" is undefined') as caught:
        nvrtc.compile_cubin(Source("bad", text), "sm_80")
    assert caught.value.excerpt.splitlines() == [
        "     3 | // 3",
        "     4 | // 4",
        "     5 | // 5",
        '     6 | extern "C" __global__ void bad() {',
        ">    7 |   int v = nowhere;",
        "     8 | }",
    ]
    assert caught.value.kernel == "bad"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.excerpt, copied.log) == (str(caught.value), caught.value.excerpt, caught.value.log)


def test_failed_static_assert_shows_its_sentence() -> None:
    text = 'static_assert(1 > 2, "block_m must be a multiple of warp_m");\nextern "C" __global__ void s() {}\n'
    with pytest.raises(CompileError, match="block_m must be a multiple of warp_m") as caught:
        nvrtc.compile_cubin(Source("s", text), "sm_80")
    assert caught.value.excerpt.startswith(">    1 | static_assert")


def test_instruction_of_another_arch_is_an_error() -> None:
    text = 'extern "C" __global__ void r() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }'
    assert nvrtc.compile_cubin(Source("r", text), "sm_90a").image
    with pytest.raises(CompileError, match="setmaxnreg"):
        nvrtc.compile_cubin(Source("r", text), "sm_80")


def test_kernel_must_have_the_source_name() -> None:
    with pytest.raises(CompileError, match='no extern "C" __global__ function other; it has: copy'):
        nvrtc.compile_cubin(Source("other", COPY.text), "sm_80")


@pytest.mark.parametrize("arch", ["", "90", "sm_90a --evil", "native"])
def test_arch_must_look_like_one(arch: str) -> None:
    with pytest.raises(UsageError, match="arch is"):
        nvrtc.compile_cubin(COPY, arch)


def test_unknown_arch_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="gpu-architecture"):
        nvrtc.compile_cubin(COPY, "sm_10")


def test_ptx_needs_no_driver() -> None:
    ptx = nvrtc.compile_ptx(COPY, "sm_90a")
    assert ".target sm_90a" in ptx
    assert ".entry copy(" in ptx
    assert "\0" not in ptx
