"""The packages that only benchmarks need, imported at their first use."""

import importlib
from typing import Any

from im2wingen.errors import Im2wingenError, NoDeviceError


class PeerUnavailableError(Im2wingenError):
    """A contestant can't run here or can't run this problem; the sentence is kept in the result."""


def import_torch() -> Any:
    """The torch module on a usable device; it supplies memory, streams and CUDA graphs to every contestant.

    Raises PeerUnavailableError naming the extra, or NoDeviceError.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise PeerUnavailableError("bench needs PyTorch with CUDA: pip install 'im2wingen[bench]'") from error
    if not torch.cuda.is_available():
        raise NoDeviceError("bench needs a CUDA device and PyTorch finds none")
    return torch


def import_cpu_torch() -> Any:
    """The torch module with oneDNN in it; PeerUnavailableError says what is missing."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise PeerUnavailableError("oneDNN comes with PyTorch: pip install 'im2wingen[torch]'") from error
    if not torch.backends.mkldnn.is_available():
        raise PeerUnavailableError(f"PyTorch {torch.__version__} was built without oneDNN")
    return torch


def import_cudnn() -> Any:
    """The cuDNN frontend's Python module (package nvidia-cudnn-frontend)."""
    try:
        return importlib.import_module("cudnn")
    except ImportError as error:
        raise PeerUnavailableError(
            f"cuDNN's plans need nvidia-cudnn-frontend: pip install 'im2wingen[bench]' ({error})"
        ) from error


def sentence_of(error: Exception) -> str:
    """The first line of an error's text, for a result."""
    return str(error).strip().split("\n")[0][:300] or type(error).__name__
