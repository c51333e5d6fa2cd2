"""Serving: the levels of the look-up, the modes, and load() with a device that is a stand-in."""

import itertools
import math
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

import im2wingen
from im2wingen import ConvProblem
from im2wingen.cache import CubinCache
from im2wingen.cost_model import estimate_us
from im2wingen.db import LayeredRecords, TrialRecord, TuningDatabase
from im2wingen.errors import DeviceError, NoDeviceError, NotStoredError, UnsupportedError, UsageError
from im2wingen.families import FAMILIES
from im2wingen.nvrtc import Cubin, nvrtc_version
from im2wingen.render import plan_sources, render, sources_digest, template_digest
from im2wingen.runtime import choose, load, loading, look_up
from im2wingen.runtime.cubins import obtain_cubins
from im2wingen.target import preset

TARGET = preset("sm_90a")
PROBLEM = ConvProblem.parse("n8c16h12w12k32r3s3")
MMA = FAMILIES["mma"]


def configs(problem, count):
    """Legal configs of family mma, none of them its default."""
    legal = (
        config
        for config in MMA.random_configs(problem, TARGET, 0)
        if config != MMA.default(problem, TARGET) and not MMA.broken_rules(problem, TARGET, config)
    )
    return list(itertools.islice(dict.fromkeys(itertools.islice(legal, 40)), count))


def record(problem, config, median_us=50.0, **changes):
    sources = plan_sources(MMA.plan(problem, TARGET, config))
    fields = {
        "problem_key": problem.key, "family": "mma", "config": config.to_dict(), "config_digest": config.digest(),
        "template_digest": template_digest(MMA.templates), "source_digest": sources_digest(sources), "outcome": "ok",
        "device_name": TARGET.name, "arch": TARGET.arch, "sm_count": 132, "driver_version": "580",
        "nvrtc_version": nvrtc_version(), "predicted": False, "median_us": median_us, "protocol_version": 1,
        "study": "s", "trial": 0,
    }  # fmt: skip
    return TrialRecord(**(fields | changes))


@pytest.fixture
def database(tmp_path, monkeypatch):
    """A user's empty database and kernel cache, which the environment names."""
    path = tmp_path / "tuning.sqlite"
    monkeypatch.setenv("IM2WINGEN_DB", str(path))
    monkeypatch.setenv("IM2WINGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("IM2WINGEN_MODE", raising=False)
    with TuningDatabase.open(str(path)) as opened:
        yield opened


def chosen(database, problem=PROBLEM, **options):
    return choose(problem, TARGET, LayeredRecords((database,)), device_name=TARGET.name, **options)


@pytest.fixture
def any_neighbour(monkeypatch):
    """Whatever the cost model thinks of it."""
    monkeypatch.setattr("im2wingen.runtime.choice._WORSE", math.inf)


def test_a_neighbour_that_would_be_slower_than_the_default_does_not_serve(database):
    default = estimate_us(MMA.plan(PROBLEM, TARGET, MMA.default(PROBLEM, TARGET)), TARGET)
    estimates = {config: estimate_us(MMA.plan(PROBLEM, TARGET, config), TARGET) for config in configs(PROBLEM, 40)}
    slow = max(estimates, key=estimates.__getitem__)
    assert estimates[slow] > 1.2 * default
    database.record(record(ConvProblem.parse("n8c16h14w14k32r3s3"), slow))
    assert chosen(database).level == "default"
    database.record(record(replace(PROBLEM, n=64), slow))
    assert chosen(database).level == "default"
    database.record(record(replace(PROBLEM, epilogue="bias"), slow))
    assert chosen(database).config == slow, "it was measured, and the epilogue hardly counts"
    database.record(record(PROBLEM, slow))
    assert chosen(database).level == "exact"


@pytest.mark.usefixtures("any_neighbour")
def test_levels_in_their_order(database):
    own, twin, neighbour = configs(PROBLEM, 3)
    other_layer = ConvProblem.parse("n8c16h14w14k32r3s3")
    assert chosen(database).level == "default"

    database.record(record(other_layer, neighbour))
    found = chosen(database)
    assert (found.level, found.config) == ("shape", neighbour)
    assert other_layer.key in found.rule

    database.record(record(replace(PROBLEM, n=64), twin))
    found = chosen(database)
    assert (found.level, found.config) == ("batch", twin)

    database.record(record(PROBLEM, own))
    found = chosen(database)
    assert (found.level, found.config) == ("exact", own)
    assert found.sources == plan_sources(MMA.plan(PROBLEM, TARGET, own))


def test_default_is_legal_and_says_so(database):
    found = chosen(database)
    assert found.record is None
    assert not FAMILIES[found.family].broken_rules(PROBLEM, TARGET, found.config)
    assert found.rule == f"nothing stored serves it well: the default config of family {found.family}"


def test_the_second_best_serves_where_the_best_is_unusable(database):
    best, second = configs(PROBLEM, 2)
    database.record(record(PROBLEM, best, 10.0, source_digest="0" * 64))  # rendered differently then
    database.record(record(PROBLEM, second, 20.0, trial=1))
    assert chosen(database).config == second


def test_config_that_is_illegal_here_is_passed_over(database):
    wide = ConvProblem.parse("n8c16h100w100k32r3s3")
    illegal = next(
        config
        for config in MMA.random_configs(wide, TARGET, 1)
        if not MMA.broken_rules(wide, TARGET, config) and MMA.broken_rules(PROBLEM, TARGET, config)
    )
    database.record(record(wide, illegal))
    assert chosen(database).level == "default"


def test_config_of_unknown_fields_is_passed_over(database):
    (config,) = configs(PROBLEM, 1)
    database.record(replace(record(PROBLEM, config), config={"block_m": 128}, config_digest="0" * 16))
    assert chosen(database).level == "default"


def test_stale_templates_are_never_served(database):
    (config,) = configs(PROBLEM, 1)
    database.record(record(PROBLEM, config, template_digest="0" * 64))
    assert chosen(database).level == "default"


def test_family_restricts_the_choice(database):
    with pytest.raises(UnsupportedError, match="simt"):
        chosen(database, families=["simt"])  # it is for fp32
    with pytest.raises(UsageError, match="family is 'wmma'; allowed are"):
        chosen(database, families=["wmma"])


class Compiler:
    """Counts compilations; an image is its source's digest and a number that may be raised."""

    def __init__(self, monkeypatch):
        self.count, self.version = 0, 0
        monkeypatch.setattr("im2wingen.cache.compile_kernel", self)

    def __call__(self, source, arch, *, limit_s=None):
        self.count += 1
        return Cubin(
            kernel=source.kernel, arch=arch, image=f"{source.digest} {self.version}".encode(), log="", num_regs=1,
            spill_bytes=0, stack_bytes=0, smem_bytes=0, compile_s=0.0, nvrtc_version="13.0.88",
        )  # fmt: skip


@pytest.fixture
def compiler(monkeypatch):
    return Compiler(monkeypatch)


@pytest.fixture
def exact(database):
    """A choice of level exact whose record vouches for version 0 of the cubins."""

    def make(*sha256):
        (config,) = configs(PROBLEM, 1)
        database.record(record(PROBLEM, config, cubin_sha256=sha256))
        return chosen(database)

    return make


def recorded_sha256(compiler):
    """What the fake compiler makes of the config that `exact` stores."""
    (config,) = configs(PROBLEM, 1)
    made = [compiler(source, "sm_90a").sha256 for source in plan_sources(MMA.plan(PROBLEM, TARGET, config))]
    compiler.count = 0
    return made


def test_cubins_are_compiled_once(exact, compiler, tmp_path):
    cache = CubinCache(tmp_path / "cache")
    choice = exact(*recorded_sha256(compiler))
    cubins, origin = obtain_cubins(choice, "sm_90a", cache, may_compile=True)
    assert (origin, compiler.count) == ("compiled", len(choice.sources))
    assert tuple(cubin.sha256 for cubin in cubins) == choice.recorded_sha256
    again, origin = obtain_cubins(choice, "sm_90a", cache, may_compile=False)
    assert (again, origin, compiler.count) == (cubins, "cache", len(choice.sources))


def test_frozen_never_compiles(exact, compiler, tmp_path):
    with pytest.raises(NotStoredError, match=r"is not in the kernel cache .*, and mode frozen never compiles"):
        obtain_cubins(exact(), "sm_90a", CubinCache(tmp_path / "cache"), may_compile=False)
    assert compiler.count == 0


def test_a_cached_cubin_must_be_the_recorded_one(exact, compiler, tmp_path):
    choice = exact(*recorded_sha256(compiler))
    cache = CubinCache(tmp_path / "cache")
    compiler.version = 1  # somebody else's image lies in the cache
    for source in choice.sources:
        cache.put(source, compiler(source, "sm_90a"))
    with pytest.raises(NotStoredError, match="has another sha256 than recorded"):
        obtain_cubins(choice, "sm_90a", cache, may_compile=False)
    compiler.count = 0
    _, origin = obtain_cubins(choice, "sm_90a", cache, may_compile=True)
    assert (origin, compiler.count) == ("compiled", len(choice.sources))


def test_a_record_vouches_for_no_cubins_of_another_nvrtc(database, compiler, tmp_path):
    """After an update of NVRTC the same source makes another image: it is compiled once, not at each load."""
    (config,) = configs(PROBLEM, 1)
    database.record(record(PROBLEM, config, cubin_sha256=recorded_sha256(compiler), nvrtc_version="12.8.61"))
    choice = chosen(database)
    assert (choice.level, choice.recorded_sha256) == ("exact", ())
    cache = CubinCache(tmp_path / "cache")
    compiler.version = 1
    assert obtain_cubins(choice, "sm_90a", cache, may_compile=True)[1] == "compiled"
    assert obtain_cubins(choice, "sm_90a", cache, may_compile=False)[1] == "cache"


def test_an_unsafe_cache_is_done_without(exact, compiler, tmp_path, caplog):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    cubins, origin = obtain_cubins(exact(), "sm_90a", CubinCache(folder), may_compile=True)
    assert origin == "compiled"
    assert cubins
    assert "others may write" in caplog.text


class FakeServing:
    """A serving device that only remembers what was loaded on it."""

    def __init__(self, ordinal, fails=False):
        self.ordinal, self.name, self.target, self.loaded, self.fails = ordinal, TARGET.name, TARGET, [], fails

    def load(self, plan, cubins):
        if self.fails:
            raise DeviceError("cuModuleLoadData", "CUDA_ERROR_OUT_OF_MEMORY")
        self.loaded.append(tuple(cubin.sha256 for cubin in cubins))
        return types.SimpleNamespace(plan=plan)

    def unload(self, plan):
        pass


@pytest.fixture
def serving(monkeypatch):
    device = FakeServing(0)
    monkeypatch.setattr(loading, "serving_device", lambda ordinal: device)
    monkeypatch.setattr(loading, "_modules", {})
    return device


def test_load_tells_where_the_kernel_comes_from(database, serving, compiler):
    (config,) = configs(PROBLEM, 1)
    database.record(record(PROBLEM, config, 42.0))
    conv = load(PROBLEM)
    facts = conv.provenance
    assert (facts.level, facts.family, facts.origin, facts.predicted) == ("exact", "mma", "compiled", False)
    assert facts.config == config.to_dict()
    assert facts.record is not None
    assert facts.record.median_us == 42.0
    assert facts.device_name == TARGET.name
    assert facts.cubin_sha256
    assert facts.workspace_bytes == conv.workspace_bytes
    assert "level exact" in str(facts)
    assert "measured 42.0 us" in str(facts)
    assert facts.to_dict()["record"]["study"] == "s"
    assert load(PROBLEM).provenance.origin == "cache"


def test_equal_kernels_are_loaded_once(database, serving, compiler):
    first, second = load(PROBLEM), load(PROBLEM)
    assert first.provenance.cubin_sha256 == second.provenance.cubin_sha256
    (config,) = configs(PROBLEM, 1)
    loaded = len(serving.loaded)
    database.record(record(PROBLEM, config))  # tuned in the meantime
    assert load(PROBLEM).provenance.level == "exact"
    assert len(serving.loaded) > loaded


def test_frozen_load(database, serving, compiler, monkeypatch):
    with pytest.raises(NotStoredError):
        load(PROBLEM, mode="frozen")
    load(PROBLEM)
    assert load(PROBLEM, mode="frozen").provenance.origin == "cache"
    monkeypatch.setenv("IM2WINGEN_MODE", "frozen")
    with pytest.raises(NotStoredError):
        load(replace(PROBLEM, n=3))


def test_mode_tune_tunes_at_first_sight(database, serving, compiler, monkeypatch):
    calls = []

    def fake_tune(problem, *, time_budget_s, db, devices, families):
        calls.append((problem, time_budget_s, devices, families))
        database.record(record(problem, configs(problem, 1)[0]))

    monkeypatch.setenv("IM2WINGEN_TUNE_BUDGET", "7")
    monkeypatch.setitem(sys.modules, "im2wingen.tune", types.SimpleNamespace(tune=fake_tune))
    assert load(PROBLEM, mode="tune").provenance.level == "exact"
    assert load(PROBLEM, mode="tune").provenance.level == "exact"
    assert calls == [(PROBLEM, 7.0, (0,), None)]  # not at second sight


def test_load_for_an_arch_needs_no_device(database):
    conv = load(PROBLEM, arch="sm_80")
    assert conv.provenance.arch == "sm_80"
    assert (conv.provenance.device_name, conv.provenance.origin) == (None, "none")
    plan_kernels = [source.kernel for source in conv.sources]
    assert all(f" {kernel}(" in source.text for kernel, source in zip(plan_kernels, conv.sources, strict=True))
    with pytest.raises(NoDeviceError, match="without a device"):
        conv(None, None)


def test_load_without_a_device_says_what_is_missing(database):
    with pytest.raises(NoDeviceError, match="no CUDA device can be used"):
        load(PROBLEM)


def test_load_refuses_what_does_not_fit(database, serving):
    with pytest.raises(UsageError, match="mode is 'fast'; allowed are frozen, cache, tune"):
        load(PROBLEM, mode="fast")
    with pytest.raises(UsageError, match=r"device 0 .* has sm_90a"):
        load(PROBLEM, device=0, arch="sm_80")
    with pytest.raises(UsageError, match="arch is 'sm_75'"):
        load(PROBLEM, arch="sm_75")


def test_a_failed_loading_can_be_repeated(database, serving, compiler):
    serving.fails = True
    with pytest.raises(DeviceError):
        load(PROBLEM)
    serving.fails = False
    load(PROBLEM)


def test_look_up_leaves_no_database_behind(tmp_path):
    path = tmp_path / "none" / "tuning.sqlite"
    look_up(PROBLEM, TARGET, str(path))
    assert not path.parent.exists()


def test_source_digest_is_of_all_kernels():
    sources = [render(launch) for launch in MMA.plan(PROBLEM, TARGET, MMA.default(PROBLEM, TARGET)).launches]
    assert sources_digest(sources) != sources_digest([*sources, *sources])


def test_importing_is_light_and_tune_stays_a_function():
    code = (
        "import sys, im2wingen; heavy = {'numpy', 'optuna', 'sqlalchemy', 'cuda', 'jinja2', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy; import im2wingen.tune; assert callable(im2wingen.tune); "
        "from im2wingen import load, tune; assert callable(tune) and callable(load)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(im2wingen.__file__).parents[1])
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        im2wingen.lode  # noqa: B018
