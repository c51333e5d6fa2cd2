"""Which software a result was measured with."""

import importlib
import subprocess
from pathlib import Path
from typing import Any

import im2wingen
from im2wingen.families import FAMILIES
from im2wingen.nvrtc import nvrtc_version
from im2wingen.render import template_digest


def versions(torch: Any, driver_version: str) -> dict[str, str]:
    """Name -> version; `commit` only in a git checkout, `templates` is the digest of all families' kernels."""
    found = {
        **own_versions(),
        "nvrtc": nvrtc_version(),
        "driver": driver_version,
        "cuda": str(torch.version.cuda),
        "torch": str(torch.__version__),
        "cudnn": cudnn_version(int(torch.backends.cudnn.version() or 0)),
    }
    try:
        found["cudnn_frontend"] = str(importlib.import_module("cudnn").__version__)
    except ImportError:
        found["cudnn_frontend"] = "not installed"
    return found | commit_version()


def own_versions() -> dict[str, str]:
    """The package's version, and the digest of all families' kernels."""
    templates = tuple(sorted({t for f in FAMILIES.values() for t in f.templates}))
    return {"im2wingen": im2wingen.__version__, "templates": template_digest(templates)[:16]}


def commit_version() -> dict[str, str]:
    """The checkout's commit; empty outside a checkout."""
    commit = git_commit(Path(im2wingen.__file__).parent.parent)
    return {"commit": commit} if commit else {}


def cudnn_version(number: int) -> str:
    """91900 -> 9.19.0."""
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def git_commit(folder: Path) -> str | None:
    """The checkout's commit, with `+` where files differ from it; None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
