"""--cores and cores=: which families are searched, looked up and served."""

from pathlib import Path

import pytest

from im2wingen import load
from im2wingen.db import TrialRecord, TuningDatabase
from im2wingen.errors import NoDeviceError, UnsupportedError, UsageError
from im2wingen.families import FAMILIES, Family, check_cores, family_names
from im2wingen.nvrtc import nvrtc_version
from im2wingen.problem import ConvProblem
from im2wingen.render import plan_sources, sources_digest, template_digest
from im2wingen.runtime import look_up
from im2wingen.target import preset

TARGET = preset("sm_90a")
PROBLEM = ConvProblem.parse("n8c16h12w12k32r3s3", precision="fp32")


def record(family: Family, median_us: float, trial: int) -> TrialRecord:
    config = family.default(PROBLEM, TARGET)
    return TrialRecord(
        problem_key=PROBLEM.key, family=family.name, config=config.to_dict(), config_digest=config.digest(),
        template_digest=template_digest(family.templates),
        source_digest=sources_digest(plan_sources(family.plan(PROBLEM, TARGET, config))), outcome="ok",
        device_name=TARGET.name, arch=TARGET.arch, sm_count=132, driver_version="580", nvrtc_version=nvrtc_version(),
        predicted=False, median_us=median_us, protocol_version=2, study="s", trial=trial,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "tuning.sqlite")
    monkeypatch.setenv("IM2WINGEN_DB", path)
    return path


def test_every_family_says_what_it_multiplies_on() -> None:
    cores = {name: family.cores for name, family in FAMILIES.items()}
    assert cores["simt"] == "cuda"
    assert cores["mma"] == cores["wgmma"] == cores["wgmma_rows"] == "tensor"
    assert cores["simd"] is None
    assert family_names(None, "cuda") == ["simt"]
    assert family_names(["simt", "mma"], "tensor") == ["mma"]
    assert family_names(None, None) is None
    assert family_names(["mma"], None) == ["mma"]


def test_bad_cores_are_one_sentence() -> None:
    with pytest.raises(UsageError) as caught:
        check_cores("gpu")
    assert str(caught.value) == "cores is 'gpu'; allowed are cuda, tensor"
    with pytest.raises(UsageError, match="cores is 'tensor', and family simt doesn't multiply there"):
        family_names(["simt"], "tensor")
    with pytest.raises(UsageError, match="cores is 'gpu'"):
        load(PROBLEM, arch="sm_90a", cores="gpu")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cores name a GPU and backend is 'cpu'"):
        load(PROBLEM, backend="cpu", cores="cuda")


def test_nothing_stored_serves_a_default_of_the_cores(url: str) -> None:
    for cores, family, arithmetic in (("cuda", "simt", "direct"), ("tensor", "mma", "split")):
        provenance = load(PROBLEM, arch="sm_80", cores=cores).provenance  # type: ignore[arg-type]
        assert (provenance.family, provenance.cores, provenance.arithmetic) == (family, cores, arithmetic)
        assert provenance.to_dict()["arithmetic"] == arithmetic
        assert f"{family} {provenance.config_digest} ({cores} cores, {arithmetic}), level default" in str(provenance)


@pytest.mark.parametrize("faster", ["simt", "mma"])
def test_the_faster_stored_one_is_served_but_for_cores(url: str, faster: str) -> None:
    with TuningDatabase.open(url) as database:
        for trial, name in enumerate(("simt", "mma")):
            database.record(record(FAMILIES[name], 10.0 if name == faster else 20.0, trial))
    assert look_up(PROBLEM, TARGET, url).family == faster
    for cores, name in (("cuda", "simt"), ("tensor", "mma")):
        choice = look_up(PROBLEM, TARGET, url, families=family_names(None, cores))
        assert (choice.family, choice.level) == (name, "exact")


def test_cores_that_have_no_such_arithmetic_are_unsupported(url: str) -> None:
    half = ConvProblem.parse("n8c16h12w12k32r3s3")
    with pytest.raises(UnsupportedError, match="simt"):
        load(half, arch="sm_90a", cores="cuda")


def test_cores_ask_for_a_gpu(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2wingen.backends.device_count", lambda: 0)
    with pytest.raises(NoDeviceError):
        load(PROBLEM, cores="cuda")
