"""C++ kernels to shared objects and assembly: flags, errors, and who compiles for whom."""

import ctypes
import os
import platform
import shutil
import time
from pathlib import Path

import pytest

from im2wingen.cpu_compiler import (
    CPU_ARCHS,
    compile_assembly,
    compile_shared_object,
    compiler_for,
    cpu_compiler_version,
    cpu_flags_of,
    cpu_toolkit_digest,
)
from im2wingen.cpu_target import CPU_PRESETS
from im2wingen.errors import CompileError, CompileTimeoutError, Im2wingenError, UsageError
from im2wingen.render import Source

ADD = Source(
    "add", 'extern "C" void add(float* y, const float* x) {\n  for (int i = 0; i < 64; ++i) y[i] += 3 * x[i];\n}\n'
)


def test_every_cpu_preset_has_flags() -> None:
    assert set(CPU_ARCHS) == set(CPU_PRESETS)
    assert len({cpu_flags_of(arch) for arch in CPU_ARCHS}) == len(CPU_ARCHS)
    with pytest.raises(UsageError, match="arch is 'sm_80'; allowed are x86-64-avx512"):
        cpu_flags_of("sm_80")


def test_shared_object_works_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (compile_shared_object(ADD, "generic") for _ in range(2))
    assert first.sha256 == second.sha256
    assert (first.kernel, first.arch, first.nvrtc_version) == ("add", "generic", "")
    path = tmp_path / "add.so"
    path.write_bytes(first.image)
    x, y = (ctypes.c_float * 64)(*range(64)), (ctypes.c_float * 64)()
    ctypes.CDLL(str(path)).add(y, x)
    assert list(y) == [3.0 * i for i in range(64)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64 by this machine's own compiler")
@pytest.mark.parametrize(
    ("arch", "register"), [("x86-64-avx512", "%zmm"), ("x86-64-avx2", "%ymm"), ("generic", "%xmm")]
)
def test_assembly_is_of_the_arch(arch: str, register: str) -> None:
    text = compile_assembly(ADD, arch)
    assert "add:" in text
    assert register in text


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-g++") is None, reason="needs aarch64-linux-gnu-g++")
def test_a_cross_compiler_serves_another_kind_of_cpu() -> None:
    assert "fmla" in compile_assembly(ADD, "aarch64-neon")


def test_no_cross_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.cpu_compiler.platform.machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Im2wingenError, match=r"no C\+\+ compiler for aarch64-linux-gnu was found; install aarch64"):
        compiler_for("aarch64-neon")
    with pytest.raises(Im2wingenError, match=r"no C\+\+ compiler was found; install g\+\+ or clang\+\+"):
        compiler_for("x86-64-avx2")


def test_error_carries_the_numbered_source() -> None:
    broken = Source("add", "int one;\nint two = three;\nint four;\n")
    with pytest.raises(CompileError, match="three") as caught:
        compile_shared_object(broken, "generic")
    assert ">    2 | int two = three;" in caught.value.excerpt
    assert os.sep not in caught.value.log.split("add.cpp")[0]


def test_the_kernel_must_be_there() -> None:
    with pytest.raises(CompileError, match='no extern "C" function sub'):
        compile_shared_object(Source("sub", ADD.text), "generic")


def test_a_compiler_that_hangs_is_killed_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grandchild holds the pipe of the log, as the compiler proper does below its driver."""
    script = tmp_path / "hanging"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in --version|-dump*) echo 1.0;; *) sleep 100 & echo $! > {tmp_path}/id; wait;; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("IM2WINGEN_CXX", str(script))
    started = time.monotonic()
    with pytest.raises(CompileTimeoutError, match=r"add took longer than 1 s to compile by .*hanging"):
        compile_shared_object(ADD, "generic", limit_s=1.0)
    assert time.monotonic() - started < 20
    process = Path("/proc", (tmp_path / "id").read_text().strip(), "stat")
    for _ in range(50):
        if not process.exists() or " Z " in process.read_text():
            return
        time.sleep(0.1)
    pytest.fail("what the compiler started is still there")


def test_another_compiler_is_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cpu_toolkit_digest("generic")
    script = tmp_path / "other"
    script.write_text("#!/bin/sh\necho another 1.0\n")
    script.chmod(0o755)
    monkeypatch.setenv("IM2WINGEN_CXX", str(script))
    assert cpu_toolkit_digest("generic") != before


def test_versions() -> None:
    kind, release = cpu_compiler_version().split()
    assert kind in ("g++", "clang++")
    assert release[0].isdigit()
    assert len({cpu_toolkit_digest(arch) for arch in ("x86-64-avx2", "generic")}) == 2
