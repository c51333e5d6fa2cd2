"""A command line of its own for each test: empty database, empty cache, no device."""

import json
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from im2wingen.cli import app


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self):
        """What --json wrote; fails unless it is all that stdout got."""
        return json.loads(self.out)


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.setenv("IM2WINGEN_DB", str(tmp_path / "tuning.sqlite"))
    monkeypatch.setenv("IM2WINGEN_CACHE", str(tmp_path / "cache"))
    for name in ("IM2WINGEN_MODE", "IM2WINGEN_LOG", "IM2WINGEN_TUNE_BUDGET", "IM2WINGEN_CXX"):
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run
