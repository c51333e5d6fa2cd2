"""Imports point one way, and importing touches nothing."""

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import im2wingen

PACKAGE = Path(im2wingen.__file__).parent
# The modules of the package, lowest first: a module imports from those above its own line in this list alone.
ORDER = (
    "errors", "settings", "layers", "problem", "fp8", "dtypes", "layouts", "target", "cpu_target",
    "families", "render",
    "nvrtc", "sass", "child_process", "host_compiler", "cpu_compiler", "compilers", "outcome",
    "cache", "compile_process", "compile_pool",
    "emulator",
    "verify_data", "device", "buffers", "kernel", "device_data",
    "reference", "verify_emulated", "verify",
    "measure", "evaluator", "worker_process", "worker", "cpu", "backends",
    "db",
    "cost_model",
    "tuning", "tune",
    "arrays", "host_arrays", "runtime",
    "bench", "report", "cli", "__main__",
)  # fmt: skip
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "versions")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported(path: Path) -> Iterator[str]:
    """Modules of the package (without its name) that a file imports, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "im2wingen":
                for alias in node.names:
                    assert alias.name == "__version__", f"{path}: {alias.name} by way of the package"
            elif node.module and node.module.startswith("im2wingen."):
                name = node.module.removeprefix("im2wingen.")
                yield from (
                    f"{name}.{alias.name}" if f"{name}.{alias.name}" in MODULES else name for alias in node.names
                )
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("im2wingen.") for a in node.names if a.name.startswith("im2wingen."))


def test_every_module_has_a_place() -> None:
    assert {name.partition(".")[0] for name in MODULES if name} == set(ORDER)


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_imports_point_down(module: str) -> None:
    place = module.partition(".")[0]
    for name in imported(MODULES[module]):
        other = name.partition(".")[0]
        assert other == place or ORDER.index(other) < ORDER.index(place), f"{module} imports {name}"


def test_no_cycles_inside_a_package() -> None:
    graph = {module: set(imported(path)) & MODULES.keys() for module, path in MODULES.items() if module}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names them
    assert order.index("problem") < order.index("families.mma")


@pytest.mark.parametrize("module", [name for name in MODULES if name and name.partition(".")[0] != "bench"])
def test_optional_packages_are_imported_where_they_are_used(module: str) -> None:
    for node in ast.parse(MODULES[module].read_text()).body:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not {name.partition(".")[0] for name in names} & {"torch", "cupy", "cudnn", "jax", "matplotlib"}


@pytest.mark.parametrize("module", [name for name in MODULES if name and name != "settings"])
def test_the_environment_is_read_in_one_module(module: str) -> None:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in ("environ", "getenv", "environb", "putenv")


# Runs before an import: reading our variables, opening files (but Python's own), loading CUDA, starting processes and
# writing anything are errors that name what was touched.
_GUARD = """
import os, sys, collections.abc
allowed = tuple(os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, {package!r}, "/usr/lib", "/lib", "/proc",
                                               "/etc", "/dev", "/sys", "/usr/share"))
strict = {strict!r}

class Watched(collections.abc.MutableMapping):
    def __init__(self, real): self.real = real
    def _check(self, key):
        caller = sys._getframe(2)
        while caller.f_code.co_filename.startswith(("<", os.path.dirname(os.__file__) + "/os.py")):
            if caller.f_back is None: break
            caller = caller.f_back
        ours = caller.f_code.co_filename.startswith({package!r})  # other packages may copy all of it
        if strict and key.startswith(("IM2WINGEN", "XDG", "HOME", "CUDA", "NV")) or ours:
            sys.exit(f"read the variable {{key}}")
    def __getitem__(self, key): self._check(key); return self.real[key]
    def __setitem__(self, key, value): self.real[key] = value
    def __delitem__(self, key): del self.real[key]
    def __iter__(self): return iter(self.real)
    def __len__(self): return len(self.real)
    def __contains__(self, key): self._check(key); return key in self.real
    def copy(self): return dict(self.real)

os.environ = Watched(os.environ)
os.getenv = lambda key, default=None: os.environ.get(key, default)

def audit(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        path, mode, flags = arguments
        if not os.path.realpath(path).startswith(allowed):
            os.write(2, f"opened {{path}}".encode()); os._exit(9)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not path.startswith("/dev/"):
            os.write(2, f"wrote {{path}}".encode()); os._exit(9)
    if event == "subprocess.Popen" and arguments[0] == "/sbin/ldconfig":
        return  # cuda.pathfinder looks for libdl
    touched = ("subprocess.", "socket.connect", "os.mkdir", "os.rename", "os.remove", "sqlite3.connect")
    if event.startswith(touched) or (event == "ctypes.dlopen" and "cuda" in str(arguments[0]).lower()):
        os.write(2, f"{{event}} {{arguments}}".encode()); os._exit(9)

sys.addaudithook(audit)
"""


def _import_guarded(statement: str, *, strict: bool, tmp_path: Path) -> None:
    guard = _GUARD.format(package=str(PACKAGE), strict=strict)
    environment = {
        **{f"IM2WINGEN_{name}": "\x01nonsense" for name in ("DB", "CACHE", "MODE", "TUNE_BUDGET", "CXX", "LOG")},
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE.parent),
        "HOME": str(tmp_path / "nowhere"),
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-B", "-c", f"{guard}\n{statement}"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_touches_nothing(tmp_path: Path) -> None:
    heavy = ("numpy", "optuna", "sqlalchemy", "cuda.bindings", "jinja2", "typer", "torch")
    check = f"import im2wingen, sys\nassert not set({heavy!r}) & set(sys.modules), sorted(sys.modules)"
    _import_guarded(check, strict=True, tmp_path=tmp_path)


def test_importing_every_module_touches_nothing(tmp_path: Path) -> None:
    names = [f"im2wingen.{name}" for name in MODULES if name and not name.startswith(("__main__", "db.migrations"))]
    loop = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    _import_guarded(loop, strict=False, tmp_path=tmp_path)


def test_the_guard_of_these_tests_bites(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="read the variable IM2WINGEN"):
        _import_guarded(
            "from im2wingen.settings import read_settings\nread_settings()", strict=False, tmp_path=tmp_path
        )
    with pytest.raises(AssertionError, match="wrote"):
        _import_guarded(f"open({str(PACKAGE / 'x.tmp')!r}, 'w')", strict=False, tmp_path=tmp_path)
    assert not (PACKAGE / "x.tmp").exists()
