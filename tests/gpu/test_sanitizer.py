"""compute-sanitizer over every family, precision and way to stage."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).with_name("run_stagings.py")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_no_kernel_is_reported(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer, "compute-sanitizer, part of the CUDA toolkit, is not on the PATH"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    run = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SCRIPT), "--raw"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    for staging in ("window", "tap", "explicit"):
        for family in ("simt fp32", "mma fp16", "mma bf16", "mma tf32"):
            assert any(line.startswith(family) and f": {staging}" in line for line in run.stdout.splitlines())
    for way in (
        "rows filters",
        "rows pixels",
        "rows tiles",
        "block",
        "rows filters transposed 1",
        "rows pixels transposed 2",
    ):
        for family in ("wgmma fp16", "wgmma bf16", "wgmma tf32"):
            assert any(line.startswith(family) and f": {way}" in line for line in run.stdout.splitlines())
    for way in ("rows filters", "rows pixels", "block"):
        assert any(line.startswith("wgmma fp32") and f": {way}" in line for line in run.stdout.splitlines())
    for way in ("rows strips", "rows units", "columns strips", "columns units"):
        for family in ("wgmma_rows fp16", "wgmma_rows bf16", "wgmma_rows tf32", "wgmma_rows fp32"):
            for layout in ("nhwc", "nchw"):
                lines = [line for line in run.stdout.splitlines() if line.startswith(family)]
                assert any(line.endswith(f" {layout}: {way}") for line in lines)
    assert any(line.endswith(": window run") for line in run.stdout.splitlines())
    assert "0 errors" in run.stdout or "0 hazards" in run.stdout
