"""Launch -> Source: one readable text per kernel, everything inlined, and its digest."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from jinja2 import meta

from im2wingen.families.base import Family, Launch, Plan, TemplateValue

_PACKAGE = Path(__file__).parent
_SUFFIXES = (".cu.j2", ".cpp.j2")  # of kernels for GPUs and for the CPU


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA C++ text of one kernel, or C++ of one for the CPU; `kernel` is its extern "C" name."""

    kernel: str
    text: str

    @property
    def digest(self) -> str:
        """sha256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def data_folder(name: str) -> Path:
    """`templates` or `tuning_db`: inside an installed package, or beside the package in a checkout."""
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_folder("templates")),
        block_start_string="<%", block_end_string="%>",
        variable_start_string="${", variable_end_string="}",
        comment_start_string="<#", comment_end_string="#>",
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip


def _cxx(value: TemplateValue) -> str:
    """A template value as C++ writes it; strings are enumerators and types, so only names pass."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not value.replace("::", "").replace("_", "").isalnum():
        raise ValueError(f"template value {value!r} is not a C++ name")
    return str(value)


def template_file(name: str) -> str:
    """The file of a kernel's template under templates/, by what it's written in."""
    folder = data_folder("templates")
    return next((f"{name}{suffix}" for suffix in _SUFFIXES if (folder / f"{name}{suffix}").is_file()), f"{name}.cu.j2")


def render(launch: Launch) -> Source:
    """The kernel's whole text. Values reach it from typed configs alone."""
    template = _environment().get_template(template_file(launch.template))
    return Source(launch.template, template.render({name: _cxx(value) for name, value in launch.values.items()}))


def plan_sources(plan: Plan) -> tuple[Source, ...]:
    """The rendered kernels of a plan, one a launch."""
    return tuple(render(launch) for launch in plan.launches)


@cache
def template_digest(templates: Iterable[str]) -> str:
    """sha256, in hex, of the templates (a tuple of names) and all that they include."""
    environment = _environment()
    assert environment.loader is not None
    pending, texts = [template_file(name) for name in templates], {}
    while pending:
        name = pending.pop()
        if name not in texts:
            text = environment.loader.get_source(environment, name)[0]
            texts[name] = text
            pending += [n for n in meta.find_referenced_templates(environment.parse(text)) if n]
    joined = "\0".join(f"{name}\0{texts[name]}" for name in sorted(texts))
    return hashlib.sha256(joined.encode()).hexdigest()


def template_digests(families: Iterable[Family]) -> dict[str, str]:
    """Each family's template digest of today, by name: what a look-up lets through."""
    return {family.name: template_digest(family.templates) for family in families}


def sources_digest(sources: Iterable[Source]) -> str:
    """sha256, in hex, of a plan's rendered kernels together: the `source_digest` of a stored trial."""
    return hashlib.sha256("\0".join(source.digest for source in sources).encode()).hexdigest()
