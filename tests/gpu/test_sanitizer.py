"""compute-sanitizer over every family, precision and way to stage."""

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).with_name("run_stagings.py")
ROOT = Path(__file__).parents[2]

_STAGINGS = ("window", "tap", "explicit")
_PATCHES = ("rows filters", "rows pixels", "block")
_ROWS = ("rows strips", "rows units", "columns strips", "columns units")
_TURNED = ("rows filters turned 1", "rows pixels turned 1")  # of 16-bit elements

EXPECTED = {  # of each family: precisions, and ways that run in each of them
    "simt": (("fp32", "fp64"), _STAGINGS),
    "mma": (("fp16", "bf16", "tf32", "fp32", "fp64"), _STAGINGS),
    "wgmma": (("fp16", "bf16", "tf32"), (*_PATCHES, "rows tiles")),
    "wgmma_rows": (
        ("fp16", "bf16", "tf32", "fp32"),
        tuple(f"{layout}: {way}" for layout in ("nhwc", "nchw") for way in _ROWS),
    ),
}


def seen(lines: list[str], family: str, precision: str, way: str) -> bool:
    return any(line.startswith(f"{family} {precision} ") and way in line for line in lines)


@pytest.mark.parametrize("family", EXPECTED)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_no_kernel_is_reported(tool: str, family: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer, "compute-sanitizer, part of the CUDA toolkit, is not on the PATH"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    run = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SCRIPT), "--raw", family],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    lines = run.stdout.splitlines()
    precisions, ways = EXPECTED[family]
    for precision, way in product(precisions, ways):
        assert seen(lines, family, precision, way), (precision, way)
    if family == "wgmma":
        for precision, way in product(("fp16", "bf16"), _TURNED):
            assert seen(lines, family, precision, way), (precision, way)
        for way in _PATCHES:
            assert seen(lines, family, "fp32", way), way
    if family == "mma":
        assert any(line.endswith(": window run") for line in lines)
    assert "0 errors" in run.stdout or "0 hazards" in run.stdout
