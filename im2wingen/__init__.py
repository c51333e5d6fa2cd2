"""im2wingen: im2win convolution kernels, generated, tuned on the user's own GPU, stored and served."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from im2wingen.errors import Im2wingenError
from im2wingen.problem import ConvProblem

if TYPE_CHECKING:
    from im2wingen.runtime import Convolution, load
    from im2wingen.tune import tune

__version__ = "0.1.0"
__all__ = ["ConvProblem", "Convolution", "Im2wingenError", "__version__", "load", "tune"]

_LAZY = {"Convolution": "im2wingen.runtime", "load": "im2wingen.runtime", "tune": "im2wingen.tune"}


def __getattr__(name: str) -> object:
    """Import what loads and tunes at its first use, so that `import im2wingen` stays light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'im2wingen' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `im2wingen.tune` the function where an import of the module of that name would replace it."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _LAZY and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
