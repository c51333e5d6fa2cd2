"""Rendering, digests, and a lint over every template: what STYLE demands of a CUDA text."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import jinja2.meta
import pytest

from im2wingen import render as render_module
from im2wingen.families import FAMILIES
from im2wingen.families.base import Launch, TemplateValue
from im2wingen.problem import ConvProblem
from im2wingen.render import Source, data_folder, render, sources_digest, template_digest, template_file
from im2wingen.target import preset

TEMPLATES = data_folder("templates")
KERNELS = sorted(path.name.removesuffix(".cu.j2") for path in TEMPLATES.glob("*.cu.j2"))
PARTS = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.glob("*/*.cuh"))
FILES = [*(f"{kernel}.cu.j2" for kernel in KERNELS), *PARTS]
CPU_FILES = sorted(
    str(path.relative_to(TEMPLATES)) for glob in ("*.cpp.j2", "parts/*.h") for path in TEMPLATES.glob(glob)
)
PARAMETER_PARTS = {"parts/problem.cuh", "parts/simd_parameters.h"}
# Wrappers whose operands only a loop can list, and the values that they take.
OPERAND_LISTS = {"ptx/wgmma.cuh": {"WGMMA_N"}, "ptx/wgmma_held.cuh": {"ITEM_SLOTS"}}
_INCLUDE = re.compile(r'<% include "([^"]+)" %>')
END_OF_PARAMETERS = "// ---- end of parameters ----\n"


def launch_of(template: str, **values: TemplateValue) -> Launch:
    return Launch(template=template, values=values, grid=(1, 1, 1), block=32, smem_bytes=0, arguments=())


@pytest.fixture
def own_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the templates that the test may change; caches are empty before and after."""
    folder = tmp_path / "templates"
    shutil.copytree(TEMPLATES, folder)
    monkeypatch.setattr(render_module, "data_folder", lambda name: tmp_path / name)
    for cached in (render_module._environment, template_digest):
        cached.cache_clear()
    yield folder
    for cached in (render_module._environment, template_digest):
        cached.cache_clear()


# ---- delimiters and values ----


def test_what_is_jinja_elsewhere_is_c_here(own_templates: Path) -> None:
    text = 'float acc[4] = {{0}};\nasm("{%0, %1}, {#2}" : : "r"(${WIDTH}));\n'
    (own_templates / "braces.cu.j2").write_text(text)
    assert render(launch_of("braces", WIDTH=4)).text == text.replace("${WIDTH}", "4")


def test_statement_lines_leave_nothing_behind(own_templates: Path) -> None:
    (own_templates / "one.cu.j2").write_text('a\n  <% include "parts/two.cuh" %>\nb\n')
    (own_templates / "parts/two.cuh").write_text("inside\n")
    assert render(launch_of("one")).text == "a\ninside\nb\n"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="ELEMENT"):
        render(launch_of("pack_filter"))


@pytest.mark.parametrize(
    ("value", "cxx"),
    [(3, "3"), (-1, "-1"), (True, "true"), (False, "false"), ("__half", "__half"), ("Staging::tap", "Staging::tap")],
)
def test_values_as_cxx_writes_them(own_templates: Path, value: TemplateValue, cxx: str) -> None:
    (own_templates / "value.cu.j2").write_text("x = ${V};")
    assert render(launch_of("value", V=value)).text == f"x = {cxx};"


@pytest.mark.parametrize("value", ["", "a b", "a;b", "f()", "a\n", '"', "::", "1.5"])
def test_only_names_pass_as_text(own_templates: Path, value: str) -> None:
    (own_templates / "value.cu.j2").write_text("x = ${V};")
    with pytest.raises(ValueError, match=r"is not a C\+\+ name"):
        render(launch_of("value", V=value))


def test_the_kernel_has_the_templates_name() -> None:
    problem = ConvProblem.parse("n1c8h4w4k8r3s3", precision="fp32")
    family, target = FAMILIES["simt"], preset("sm_80")
    for launch in family.plan(problem, target, family.default(problem, target)).launches:
        assert render(launch).kernel == launch.template


# ---- digests ----


def test_a_sources_digest_is_that_of_its_text() -> None:
    assert Source("k", "text").digest == Source("other", "text").digest
    assert Source("k", "text").digest == "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
    assert Source("k", "text ").digest != Source("k", "text").digest


def test_equal_launches_render_equal_texts() -> None:
    problem = ConvProblem.parse("n1c8h4w4k8r3s3")
    family, target = FAMILIES["mma"], preset("sm_80")
    texts = [
        [render(launch).text for launch in family.plan(problem, target, family.default(problem, target)).launches]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]


def test_a_plans_digest_depends_on_texts_and_order() -> None:
    one, two = Source("a", "1"), Source("b", "2")
    assert sources_digest([one, two]) == sources_digest(iter((one, two)))
    assert len({sources_digest(s) for s in ([], [one], [two], [one, two], [two, one], [one, one])}) == 6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_template_digest_is_stable(family: str, own_templates: Path) -> None:
    templates = FAMILIES[family].templates
    first = template_digest(templates)
    template_digest.cache_clear()
    assert template_digest(templates) == first
    assert template_digest(tuple(reversed(templates))) == first


@pytest.mark.parametrize("changed", ["mma.cu.j2", "parts/problem.cuh", "ptx/mma.cuh", "window_transform.cu.j2"])
def test_a_change_anywhere_in_the_text_changes_the_template_digest(changed: str, own_templates: Path) -> None:
    before = template_digest(FAMILIES["mma"].templates)
    with (own_templates / changed).open("a") as file:
        file.write("// changed\n")
    template_digest.cache_clear()
    assert template_digest(FAMILIES["mma"].templates) != before


def test_another_familys_text_leaves_the_template_digest_alone(own_templates: Path) -> None:
    before = template_digest(FAMILIES["mma"].templates)
    with (own_templates / "simt.cu.j2").open("a") as file:
        file.write("// changed\n")
    template_digest.cache_clear()
    assert template_digest(FAMILIES["mma"].templates) == before


def test_a_part_of_a_part_counts(own_templates: Path) -> None:
    (own_templates / "outer.cu.j2").write_text('<% include "parts/middle.cuh" %>\n')
    (own_templates / "parts/middle.cuh").write_text('<% include "parts/inner.cuh" %>\n')
    digests = set()
    for text in ("1", "2"):
        (own_templates / "parts/inner.cuh").write_text(text)
        template_digest.cache_clear()
        digests.add(template_digest(("outer",)))
    assert len(digests) == 2


# ---- lint ----


def code_of(name: str) -> str:
    """A file of the templates without its comments."""
    return re.sub(r"//[^\n]*", "", (TEMPLATES / name).read_text())


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_extern_c_kernel_named_as_its_file(kernel: str) -> None:
    code = code_of(f"{kernel}.cu.j2")
    assert len(re.findall(r"\b__global__\b", code)) == 1
    found = re.findall(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(', code)
    assert found == [kernel]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_last_line_is_the_emulators_entry(kernel: str) -> None:
    text = (TEMPLATES / f"{kernel}.cu.j2").read_text()
    assert text.endswith(f"\n}}\nIM2WINGEN_EMULATED_ENTRY({kernel})\n")
    assert text.count("IM2WINGEN_EMULATED_ENTRY") == 1


@pytest.mark.parametrize(("name", "values"), OPERAND_LISTS.items())
def test_operand_lists_take_the_instructions_shape_alone(name: str, values: set[str]) -> None:
    text = (TEMPLATES / name).read_text()
    assert name.startswith("ptx/")
    assert "<% include" not in text
    assert jinja2.meta.find_undeclared_variables(render_module._environment().parse(text)) == values


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_opens_with_what_it_computes(kernel: str) -> None:
    text = (TEMPLATES / f"{kernel}.cu.j2").read_text()
    assert text.startswith(f"// {kernel}: ")
    includes = re.findall(r'<% include "([^"]+)" %>', text)
    assert includes[0] == "parts/prelude.cuh"
    head, _, _ = text.partition("\n\n")  # a blank line sets it apart
    assert all(line.startswith("//") for line in head.splitlines())
    assert text[len(head) :].startswith('\n\n<% include "parts/prelude.cuh" %>\n')


@pytest.mark.parametrize("name", FILES)
def test_statements_only_include_files_that_exist(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    assert "<#" not in text
    if name in OPERAND_LISTS:
        return
    lines = [line for line in text.splitlines() if "<%" in line or "%>" in line]
    for line in lines:
        found = re.fullmatch(r'\s*<% include "((?:parts|ptx)/\w+\.cuh)" %>', line)
        assert found, line
        assert (TEMPLATES / found[1]).is_file(), line


@pytest.mark.parametrize("name", [*FILES, *CPU_FILES])
def test_values_stand_in_one_block_of_constants(name: str) -> None:
    lines = (TEMPLATES / name).read_text().splitlines()
    values = [number for number, line in enumerate(lines) if "${" in line]
    if not values or name in OPERAND_LISTS:
        return
    assert name in PARAMETER_PARTS or not name.startswith(("parts/", "ptx/"))
    for line in lines[values[0] : values[-1] + 1]:
        assert re.match(r"(constexpr|using|enum|//|<% include)|\s*$", line), line
    for number in values:
        assert lines[number].startswith(("constexpr", "using")), lines[number]


@pytest.mark.parametrize("kernel", [kernel for family in FAMILIES.values() for kernel in family.templates])
def test_nothing_but_includes_below_the_parameters(kernel: str) -> None:
    above, marker, below = (TEMPLATES / template_file(kernel)).read_text().partition(END_OF_PARAMETERS)
    assert marker
    assert END_OF_PARAMETERS not in below
    assert "${" in above + "".join((TEMPLATES / name).read_text() for name in _INCLUDE.findall(above))
    assert "${" not in below
    for name in set(_INCLUDE.findall(below)) - OPERAND_LISTS.keys():
        assert "${" not in (TEMPLATES / name).read_text(), name


@pytest.mark.parametrize("name", [*FILES, *CPU_FILES])
def test_jinjas_own_delimiters_mean_nothing(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    assert not re.search(r"\{\{\s*\w+\s*(\|[^}]*)?\}\}(?!;)", text)  # {{ NAME }}
    assert not re.search(r"\{%-?\s*(if|for|set|include|macro|endif|endfor|block|import|raw)\b", text)
    assert "{#" not in text


@pytest.mark.parametrize("name", FILES)
def test_ptx_stands_in_its_folder_alone(name: str) -> None:
    code = code_of(name)
    assert bool(re.search(r"\b(asm|__asm__)\b", code)) == name.startswith("ptx/")


@pytest.mark.parametrize("name", [name for name in PARTS if name.startswith("ptx/")])
def test_a_ptx_wrapper_is_one_instruction(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    body = re.search(r"#ifndef IM2WINGEN_EMULATED\nnamespace ptx \{\n(.*)\}  // namespace ptx\n#endif\n$", text, re.S)
    assert body, "not wrapped for the emulator"
    for function in re.split(r"(?=__device__)", body[1])[1:]:
        header = function.partition("{")[0]
        assert function.count("asm") == (0 if "smem_address" in header else 1), header


@pytest.mark.parametrize("name", FILES)
def test_no_standard_library_headers(name: str) -> None:
    # NVRTC compiles in a fraction of the time without cooperative groups and libcu++
    assert set(re.findall(r"#include <([^>]+)>", code_of(name))) <= {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"}
