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

_STAGINGS = ("window", "tap", "explicit")
_PATCHES = ("rows filters", "rows pixels", "block")
_ROWS = ("rows strips", "rows units", "columns strips", "columns units")
_TURNED = ("rows filters turned 1", "rows pixels turned 1")  # of 16-bit elements

_ROWS_OF_LAYOUTS = (
    *(f"{layout}: {way}" for layout in ("nhwc", "nchw") for way in _ROWS),
    *(f"nchw: {way} True" for way in _ROWS[:2]),  # by bulk copies
)
_CHANNEL_ROWS = ("nhwc: columns strips False True", "nchw: columns strips True True")
_SCALED = ("nhwc: columns strips False False True", "nchw: columns units True False True")

EXPECTED = {  # of each family and precision: ways that must have run
    **{("simt", precision): _STAGINGS for precision in ("fp32", "fp64")},
    **{("mma", precision): (*_STAGINGS, ": window run") for precision in ("fp16", "bf16", "tf32")},
    **{("mma", precision): _STAGINGS for precision in ("fp32", "fp64")},
    **{("wgmma", precision): (*_PATCHES, "rows tiles", *_TURNED) for precision in ("fp16", "bf16")},
    ("wgmma", "tf32"): (*_PATCHES, "rows tiles"),
    ("wgmma", "fp32"): _PATCHES,
    **{("wgmma", precision): () for precision in ("int8", "e4m3")},
    **{("wgmma_rows", precision): (*_ROWS_OF_LAYOUTS, *_CHANNEL_ROWS) for precision in ("fp16", "bf16")},
    ("wgmma_rows", "tf32"): (*_ROWS_OF_LAYOUTS, *_CHANNEL_ROWS, *_SCALED),
    ("wgmma_rows", "fp32"): _ROWS_OF_LAYOUTS,
    **{("wgmma_pointwise", precision): ("nchw: 1", "nchw: 2", "st2 nchw") for precision in ("fp16", "bf16", "tf32")},
}


@pytest.mark.parametrize(("family", "precision"), EXPECTED, ids=[":".join(kind) for kind in EXPECTED])
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_no_kernel_is_reported(tool: str, family: str, precision: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer, "compute-sanitizer, part of the CUDA toolkit, is not on the PATH"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SCRIPT), "--raw"]
    run = subprocess.run(
        [*command, f"{family}:{precision}"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    lines = [line for line in run.stdout.splitlines() if line.startswith(f"{family} {precision} ")]
    assert lines
    for way in EXPECTED[family, precision]:
        assert any(way in line for line in lines), way
    assert "0 errors" in run.stdout or "0 hazards" in run.stdout
