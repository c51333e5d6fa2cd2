import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cpu_sessions import error_of, session

from im2wingen.bench.cpu import direct, im2col, onednn, ours
from im2wingen.bench.cpu.peak import PeakKernel
from im2wingen.bench.optional import PeerUnavailableError, import_cpu_torch
from im2wingen.cpu.devices import cpu_with
from im2wingen.families.simd import SIMD
from im2wingen.families.simd_config import SimdConfig
from im2wingen.problem import ConvProblem

SHAPES = (
    "n3c5h7w9k4r3s2st2x1pad1,0,2,1dil1x2",  # every kind of edge
    "n1c8h5w6k8r3s3",  # one image
    "n1c1h1w1k1r1s1",  # one product
)
GROUPED = "n2c4h5w6k6r3s3pad1g2"
LAYOUTS = ("nhwc", "nchw")


@pytest.mark.parametrize("layout", [*LAYOUTS, "nchw-nhwc", "nhwc-nchw"])
@pytest.mark.parametrize("shape", [*SHAPES, GROUPED])
def test_direct_is_right(shape: str, layout: str) -> None:
    asked = session(shape, layout)
    (contestant,) = direct.contestants(asked)
    assert error_of(asked, contestant).norm_error < 1e-6
    assert contestant.workspace_bytes == 0


@pytest.mark.parametrize("layout", [*LAYOUTS, "nchw-nhwc", "nhwc-nchw"])
@pytest.mark.parametrize("shape", SHAPES)
def test_im2col_is_right_in_every_way(shape: str, layout: str) -> None:
    asked = session(shape, layout)
    found = im2col.contestants(asked)
    several = asked.problem.n > 1
    assert [c.name for c in found] == ["im2col whole batch", *(["im2col image by image"] if several else [])]
    for contestant in found:
        assert error_of(asked, contestant).norm_error < 1e-6, contestant.name
        assert error_of(asked, contestant).norm_error < 1e-6, contestant.name  # its buffers serve again
    bytes_of = [c.workspace_bytes for c in found]
    assert bytes_of == [asked.problem.im2col_bytes, asked.problem.im2col_bytes // asked.problem.n][: len(found)]


def test_im2col_has_no_groups() -> None:
    with pytest.raises(PeerUnavailableError, match="not written for groups"):
        im2col.contestants(session(GROUPED))


@pytest.mark.parametrize("prepacked", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [*SHAPES, GROUPED])
def test_onednn_is_right_in_every_way(shape: str, layout: str, prepacked: bool) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    asked = session(shape, layout, prepacked=prepacked)
    names = {
        ("nhwc", False): ["onednn"],
        ("nhwc", True): ["onednn", "onednn packed"],
        ("nchw", False): ["onednn", "onednn channels_last"],
        ("nchw", True): ["onednn", "onednn channels_last", "onednn packed", "onednn blocked"],
    }
    found = onednn.contestants(asked)
    assert [c.name for c in found] == names[layout, prepacked]
    for contestant in found:
        assert error_of(asked, contestant).norm_error < 1e-6, contestant.name
        assert contestant.workspace_bytes is None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_onednn_in_bf16_and_int8(layout: str, precision: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    asked = session("n2c16h9w9k16r3s3pad1", layout, prepacked=True, precision=precision)
    if (precision, layout) == ("int8", "nchw"):
        with pytest.raises(PeerUnavailableError, match="int8 is called for NHWC"):
            onednn.contestants(asked)
        return
    found = onednn.contestants(asked)
    assert "onednn packed" in [c.name for c in found]
    for contestant in found:
        assert error_of(asked, contestant).norm_error < (1e-12 if precision == "int8" else 4e-3), contestant.name


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_ours_in_bf16_and_int8(precision: str, tmp_path: Path) -> None:
    asked = session("n2c16h9w9k16r3s3", precision=precision, prepacked=True, db=str(tmp_path / "none.sqlite"))
    assert error_of(asked, ours.contestant(asked)).norm_error < 4e-3
    for peer in (im2col, direct):
        with pytest.raises(PeerUnavailableError, match="is written for fp32"):
            peer.contestants(asked)


def test_onednn_takes_one_layout_alone() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(PeerUnavailableError, match="one layout alone"):
        onednn.contestants(session(SHAPES[1], "nchw-nhwc"))


def test_a_y_in_another_layout_is_a_wrong_result() -> None:
    asked = session(SHAPES[1])
    y = SimpleNamespace(is_contiguous=lambda: False)
    tensor = SimpleNamespace(permute=lambda *_: y, stride=lambda: (1, 2, 3, 4))
    contestant = onednn._contestant(None, asked.problem, "onednn", "", lambda: tensor)
    contestant.launch()
    with pytest.raises(PeerUnavailableError, match=r"strides \(1, 2, 3, 4\), not nhwc's"):
        contestant.output()


def test_without_pytorch_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PeerUnavailableError, match=r"oneDNN comes with PyTorch: pip install 'im2wingen\[torch\]'"):
        onednn.contestants(session(SHAPES[1]))


def test_a_pytorch_without_onednn_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = SimpleNamespace(
        __version__="2.11.0", backends=SimpleNamespace(mkldnn=SimpleNamespace(is_available=lambda: False))
    )
    monkeypatch.setitem(sys.modules, "torch", bare)
    with pytest.raises(PeerUnavailableError, match=r"PyTorch 2\.11\.0 was built without oneDNN"):
        import_cpu_torch()


def test_the_version_of_onednn_stands_in_pytorchs_configuration() -> None:
    text = "PyTorch built with:\n  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71)\n  - OpenMP"
    torch = SimpleNamespace(__config__=SimpleNamespace(show=lambda: text))
    assert onednn.onednn_version(torch) == "3.12.0"


@pytest.mark.parametrize("prepacked", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ours_is_what_load_serves(layout: str, prepacked: bool, tmp_path: Path) -> None:
    asked = session(SHAPES[0], layout, prepacked=prepacked, db=str(tmp_path / "none.sqlite"))
    contestant = ours.contestant(asked)
    assert error_of(asked, contestant).norm_error < 1e-6
    assert "level default" in contestant.detail
    assert contestant.clock is not None
    assert contestant.clock.mhz == 0
    asked.arrays.y.fill(np.nan)
    contestant.clock.read()
    assert contestant.clock.mhz > 100
    assert not np.isnan(asked.arrays.y).any()  # the kernel ran


def test_windows_are_counted() -> None:
    problem, target = ConvProblem.parse("cv9", precision="fp32", batch=1), cpu_with()
    config = SIMD.default(problem, target)
    assert isinstance(config, SimdConfig)

    def counted(**changes: str) -> int:
        provenance = SimpleNamespace(family="simd", config=replace(config, **changes).to_dict())  # type: ignore[arg-type]
        return ours.window_bytes(problem, target, provenance)  # type: ignore[arg-type]

    assert counted(window="direct") == 0
    assert counted(window="explicit") == problem.im2win_bytes == 4 * 64 * 54 * 56 * 3
    assert 0 < counted(window="copied") < counted(window="explicit")


def test_every_vector_of_the_peak_kernel_is_computed() -> None:
    target = cpu_with()
    peak = PeakKernel(target)
    peak.sums.fill(np.nan)
    peak.launch()
    accumulators = peak.flops // (2 * target.lanes * (1 << 18) * target.cores)
    assert peak.sums.size == target.lanes * target.cores
    assert (peak.sums == 2.0 * accumulators).all()  # acc * 0.5 + 1 ends at 2
    peak.clock.read()
    assert peak.clock.mhz > 100
    assert peak.clock.restarted().mhz == 0
