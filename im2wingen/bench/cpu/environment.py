"""Which software a result on the CPU was measured with."""

from typing import Any, cast

import numpy as np

from im2wingen.bench.cpu.onednn import onednn_version
from im2wingen.bench.environment import commit_version, own_versions
from im2wingen.bench.optional import PeerUnavailableError, import_cpu_torch
from im2wingen.cpu_compiler import cpu_compiler_version


def cpu_versions(*, onednn: bool) -> dict[str, str]:
    """Name -> version; with `onednn` PyTorch and oneDNN as well, which are `not installed` where they are not."""
    found = {**own_versions(), "compiler": cpu_compiler_version(), "numpy": np.__version__, "blas": blas_version()}
    if onednn:
        try:
            torch = import_cpu_torch()
            found |= {"torch": str(torch.__version__), "onednn": onednn_version(torch)}
        except PeerUnavailableError:
            found |= {"torch": "not installed", "onednn": "not installed"}
    return found | commit_version()


def blas_version() -> str:
    """Name and version of what NumPy multiplies with: `scipy-openblas 0.3.31`."""
    config = cast(dict[str, Any], np.show_config(mode="dicts"))
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
