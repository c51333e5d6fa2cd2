from pathlib import Path

import pytest

from im2wingen.errors import UsageError
from im2wingen.settings import read_settings

VARIABLES = ("DB", "CACHE", "MODE", "TUNE_BUDGET", "CXX", "LOG")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variable of ours; the user's folders are under a folder of the test's, which nothing may create."""
    for name in VARIABLES:
        monkeypatch.delenv(f"IM2WINGEN_{name}", raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    return home


def test_an_empty_environment_gives_the_defaults(bare_environment: Path) -> None:
    settings = read_settings()
    assert settings.db_url == f"sqlite:///{bare_environment}/data/im2wingen/tuning.sqlite"
    assert settings.cache_dir == bare_environment / "cache/im2wingen"
    assert (settings.mode, settings.tune_budget_s, settings.cxx, settings.log_level) == ("cache", 30.0, None, "WARNING")
    assert not bare_environment.exists()


def test_every_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ("/data/t.sqlite", "/data/cache", "frozen", "12.5", "clang++", "debug")
    for name, value in zip(VARIABLES, values, strict=True):
        monkeypatch.setenv(f"IM2WINGEN_{name}", value)
    settings = read_settings()
    assert settings.db_url == "sqlite:////data/t.sqlite"
    assert settings.cache_dir == Path("/data/cache")
    assert (settings.mode, settings.tune_budget_s) == ("frozen", 12.5)
    assert (settings.cxx, settings.log_level) == ("clang++", "DEBUG")


def test_a_database_url_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WINGEN_DB", "postgresql+psycopg://host/tuning")
    assert read_settings().db_url == "postgresql+psycopg://host/tuning"


@pytest.mark.parametrize("name", ["DB", "CACHE", "CXX"])
def test_an_empty_place_is_no_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_settings()
    monkeypatch.setenv(f"IM2WINGEN_{name}", "")
    assert read_settings() == before


@pytest.mark.parametrize("mode", ["", "CACHE", "always"])
def test_a_wrong_mode_names_the_variable(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WINGEN_MODE", mode)
    with pytest.raises(UsageError) as caught:
        read_settings()
    assert str(caught.value) == f"IM2WINGEN_MODE is {mode!r}; allowed are frozen, cache, tune"


@pytest.mark.parametrize("budget", ["", "soon", "0", "-3", "nan", "inf", "1e9"])
def test_a_wrong_budget_names_the_variable(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2WINGEN_TUNE_BUDGET", budget)
    with pytest.raises(UsageError) as caught:
        read_settings()
    assert str(caught.value) == f"IM2WINGEN_TUNE_BUDGET is {budget!r}; allowed is a number of seconds above 0"
