import ctypes
import subprocess
from pathlib import Path

import pytest

from im2wingen import host_compiler
from im2wingen.errors import CompileError, Im2wingenError
from im2wingen.host_compiler import build_program, build_shared_object, compiler_release, cpu_flags, find_compiler

TWICE = 'extern "C" int twice(int v) { return FACTOR * v; }\n'


def build(folder: Path, text: str = TWICE, flags: tuple[str, ...] = ("-DFACTOR=2",)) -> Path:
    return build_shared_object(text, include=(), flags=flags, folder=folder)


def test_shared_object_works(tmp_path: Path) -> None:
    assert ctypes.CDLL(str(build(tmp_path / "new"))).twice(21) == 42


def test_equal_builds_are_one_file_and_others_are_not(tmp_path: Path) -> None:
    first = build(tmp_path)
    time = first.stat().st_mtime_ns
    assert build(tmp_path) == first
    assert first.stat().st_mtime_ns == time
    assert build(tmp_path, flags=("-DFACTOR=3",)) != first
    assert build(tmp_path, TWICE + "\n") != first


def test_changed_header_is_another_build(tmp_path: Path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    header = include / "factor.h"

    def built(value: int) -> Path:
        header.write_text(f"#define FACTOR {value}\n" + " " * value)
        host_compiler._fingerprint.cache_clear()
        text = '#include "factor.h"\n' + TWICE
        return build_shared_object(text, include=[include], flags=(), folder=tmp_path)

    assert ctypes.CDLL(str(built(5))).twice(2) == 10
    assert ctypes.CDLL(str(built(7))).twice(2) == 14


def test_program_runs(tmp_path: Path) -> None:
    program = build_program("int main() { return 7; }", include=(), flags=cpu_flags(), folder=tmp_path)
    assert subprocess.run([program], check=False).returncode == 7


def test_error_carries_log_and_numbered_source(tmp_path: Path) -> None:
    text = "int a;\nint b;\nint c = missing;\nint d;\n"
    with pytest.raises(CompileError, match="some kernel does not compile") as caught:
        build_shared_object(text, include=(), flags=(), folder=tmp_path, name="some kernel")
    assert "missing" in caught.value.log
    assert ">    3 | int c = missing;" in caught.value.excerpt
    assert [path.suffix for path in tmp_path.iterdir()] == [".cpp"]


def test_compiler_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = tmp_path / "my-c++"
    wanted.symlink_to(find_compiler())
    monkeypatch.setenv("IM2WINGEN_CXX", str(wanted))
    assert find_compiler() == wanted
    monkeypatch.setenv("IM2WINGEN_CXX", "no-such-compiler")
    with pytest.raises(Im2wingenError, match="IM2WINGEN_CXX is 'no-such-compiler'"):
        find_compiler()


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("IM2WINGEN_CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Im2wingenError, match="install g\\+\\+ or clang\\+\\+"):
        find_compiler()


def test_a_header_before_the_text_is_precompiled_once(tmp_path: Path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    header = include / "factor.h"

    def built(text: str) -> Path:
        host_compiler._fingerprint.cache_clear()
        return build_shared_object(
            text, include=[include], flags=("-O1",), folder=tmp_path / "cache", header="factor.h"
        )

    header.write_text("#pragma once\n#define FACTOR 5\n")
    assert ctypes.CDLL(str(built(TWICE))).twice(2) == 10
    assert ctypes.CDLL(str(built(TWICE + "// another text\n"))).twice(3) == 15
    if compiler_release(find_compiler()).startswith("g++"):
        assert len(list(tmp_path.glob("cache/*/factor.h.gch"))) == 1
    header.write_text("#pragma once\n#define FACTOR 7 // now\n")
    assert ctypes.CDLL(str(built(TWICE))).twice(2) == 14
    header.write_text("no C++\n")
    with pytest.raises(CompileError):
        built(TWICE)
