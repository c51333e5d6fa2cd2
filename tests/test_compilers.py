"""Kernels for GPUs come from NVRTC, those for CPUs from the machine's compiler."""

import time
from pathlib import Path

import pytest

from im2wingen.cache import CubinCache
from im2wingen.compile_pool import CompilePool
from im2wingen.compilers import compile_kernel, compiler_digest, is_gpu_arch, made_here
from im2wingen.cpu_compiler import cpu_compiler_version
from im2wingen.errors import CompileError, CompileTimeoutError
from im2wingen.nvrtc import nvrtc_version
from im2wingen.render import Source

CUDA = Source("k", 'extern "C" __global__ void k(float* y) { *y = 1.0f; }\n')
CPU = Source("k", 'extern "C" void k(float* y) { *y = 1.0f; }\n')


@pytest.mark.parametrize(
    ("arch", "is_gpu"), [("sm_80", True), ("sm_90a", True), ("x86-64-avx2", False), ("generic", False)]
)
def test_archs(arch: str, is_gpu: bool) -> None:
    assert is_gpu_arch(arch) == is_gpu


def test_each_arch_has_its_compiler() -> None:
    assert compile_kernel(CUDA, "sm_80").nvrtc_version == nvrtc_version()
    assert compile_kernel(CPU, "generic").nvrtc_version == ""
    with pytest.raises(CompileError):
        compile_kernel(CUDA, "generic")
    assert compiler_digest("sm_80") == compiler_digest("sm_90a") != compiler_digest("generic")


def test_records_of_this_compiler() -> None:
    assert made_here("sm_80", nvrtc=nvrtc_version(), driver="any")
    assert not made_here("sm_80", nvrtc="12.0.1", driver="any")
    assert made_here("generic", nvrtc="", driver=cpu_compiler_version())
    assert not made_here("generic", nvrtc="", driver="g++ 1.0")


def test_shared_objects_share_the_cache_and_the_pool(tmp_path) -> None:
    cache = CubinCache(tmp_path / "cache")
    with CompilePool(1, 60.0, cache) as pool:
        (compiled,) = pool.submit((CPU,), "generic").result(60.0)
        with pytest.raises(CompileError, match=r"> +1 \| nonsense"):
            pool.submit((Source("k", "nonsense\n"),), "generic").result(60.0)
    assert cache.get(CPU, "generic") == compiled
    assert cache.get(CPU, "x86-64-avx2") is None


def test_a_compilation_that_never_ends_takes_its_compiler_along(tmp_path, monkeypatch) -> None:
    """A stand-in for a compiler that hangs: it tells its process id, and that process must not survive."""
    script = tmp_path / "hanging"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in --version|-dump*) echo 1.0;; *) echo $$ > {tmp_path}/id; sleep 100;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("IM2WINGEN_CXX", str(script))
    with CompilePool(1, 8.0) as pool, pytest.raises(CompileTimeoutError, match="took longer than 8 s"):
        pool.submit((CPU,), "generic").result(60.0)
    process = Path("/proc", (tmp_path / "id").read_text().strip(), "stat")
    for _ in range(50):
        if not process.exists() or " Z " in process.read_text():
            return
        time.sleep(0.1)
    pytest.fail("the compiler is still there")
