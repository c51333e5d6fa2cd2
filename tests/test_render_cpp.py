"""Templates of C++ for the CPU, beside those of CUDA, and a lint over them."""

import re
from pathlib import Path

import pytest

from im2wingen import render as render_module
from im2wingen.families.base import Launch
from im2wingen.render import data_folder, render, template_digest, template_file

TEMPLATES = data_folder("templates")
KERNELS = sorted(path.name.removesuffix(".cpp.j2") for path in TEMPLATES.glob("*.cpp.j2"))
PARTS = sorted(f"parts/{path.name}" for path in TEMPLATES.glob("parts/*.h"))
FILES = [*(f"{kernel}.cpp.j2" for kernel in KERNELS), *PARTS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(render_module, "data_folder", lambda name: tmp_path)
    for cached in (render_module._environment, template_digest):
        cached.cache_clear()
    yield tmp_path
    for cached in (render_module._environment, template_digest):
        cached.cache_clear()


def launch(template: str) -> Launch:
    values = {"WIDTH": 4}
    return Launch(template=template, values=values, grid=(1, 1, 1), block=1, smem_bytes=0, arguments=())


def test_the_file_that_exists_is_taken(folder: Path) -> None:
    (folder / "gpu.cu.j2").write_text("cuda ${WIDTH}\n")
    (folder / "cpu.cpp.j2").write_text('<% include "part.h" %>\nc++ ${WIDTH}\n')
    (folder / "part.h").write_text("part\n")
    assert (template_file("gpu"), template_file("cpu")) == ("gpu.cu.j2", "cpu.cpp.j2")
    assert render(launch("gpu")).text == "cuda 4\n"
    assert render(launch("cpu")).text == "part\nc++ 4\n"
    assert render(launch("cpu")).kernel == "cpu"


def test_what_a_cpu_template_includes_is_in_its_digest(folder: Path) -> None:
    (folder / "cpu.cpp.j2").write_text('<% include "part.h" %>')
    (folder / "part.h").write_text("one")
    first = template_digest(("cpu",))
    template_digest.cache_clear()
    (folder / "part.h").write_text("two")
    assert template_digest(("cpu",)) != first


# ---- lint ----


def code_of(name: str) -> str:
    """A file of the templates without its comments."""
    return re.sub(r"//[^\n]*", "", (TEMPLATES / name).read_text())


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_extern_c_function_named_as_its_file(kernel: str) -> None:
    assert re.findall(r'extern "C" void (\w+)\(', code_of(f"{kernel}.cpp.j2")) == [kernel]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_opens_with_what_it_computes(kernel: str) -> None:
    assert (TEMPLATES / f"{kernel}.cpp.j2").read_text().startswith(f"// {kernel}: ")


@pytest.mark.parametrize("name", FILES)
def test_statements_only_include_files_that_exist(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    assert "<#" not in text
    for line in (line for line in text.splitlines() if "<%" in line or "%>" in line):
        found = re.fullmatch(r'\s*<% include "(parts/\w+\.(?:cuh|h))" %>', line)
        assert found, line
        assert (TEMPLATES / found[1]).is_file(), line


@pytest.mark.parametrize("name", FILES)
def test_jinjas_own_delimiters_mean_nothing(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    assert not re.search(r"\{\{\s*\w+\s*(\|[^}]*)?\}\}(?!;)", text)  # {{ NAME }}
    assert not re.search(r"\{%-?\s*(if|for|set|include|macro|endif|endfor|block|import|raw)\b", text)
    assert "{#" not in text
