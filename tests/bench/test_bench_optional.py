import sys
from types import SimpleNamespace

import pytest

from im2wingen.bench.environment import cudnn_version
from im2wingen.bench.optional import PeerUnavailableError, import_cudnn, import_torch
from im2wingen.errors import NoDeviceError


def test_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PeerUnavailableError, match=r"pip install 'im2wingen\[bench\]'"):
        import_torch()


def test_missing_cudnn_frontend_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cudnn", None)
    with pytest.raises(PeerUnavailableError, match=r"nvidia-cudnn-frontend.*im2wingen\[bench\]"):
        import_cudnn()


def test_torch_without_a_device_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", blind)
    with pytest.raises(NoDeviceError, match="CUDA device"):
        import_torch()


def test_cudnn_version_number() -> None:
    assert cudnn_version(91900) == "9.19.0"
