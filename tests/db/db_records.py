"""Records for the database's tests; each test says only the fields that it is about."""

import hashlib
from dataclasses import replace

from im2wingen import ConvProblem
from im2wingen.db import TrialRecord
from im2wingen.db.records import config_text
from im2wingen.outcome import Outcome

PROBLEM = ConvProblem.parse("cv9", precision="fp16", layout="nhwc")
DIGEST = {"simt": "5a" * 32, "mma": "3b" * 32}  # today's template digests
H200, ARCH = "NVIDIA H200", "sm_90a"

_RECORD = TrialRecord(
    problem_key=PROBLEM.key,
    family="mma",
    config={},
    config_digest="",
    template_digest=DIGEST["mma"],
    source_digest="7c" * 32,
    outcome=Outcome.OK,
    device_name=H200,
    arch=ARCH,
    sm_count=132,
    driver_version="580.65.06",
    nvrtc_version="13.0.88",
    predicted=False,
    median_us=100.0,
    min_us=98.5,
    spread=0.0125,
    samples=40,
    clock_mhz=1980,
    protocol_version=1,
    max_error=1e-3,
    norm_error=3.3e-4,
    workspace_bytes=0,
    num_regs=168,
    smem_bytes=98304,
    cubin_sha256=("c0" * 32,),
    study="study-a",
    trial=0,
    created_at="2025-11-03T09:30:00.000001+00:00",
)


def a_record(block_m: int = 128, /, **changes: object) -> TrialRecord:
    """A measured record of PROBLEM; `block_m` makes configs differ."""
    config = {"block_m": block_m, "swizzled": True, "staging": "window"}
    digest = hashlib.sha256(config_text(config).encode()).hexdigest()[:16]
    return replace(_RECORD, **{"config": config, "config_digest": digest, **changes})  # type: ignore[arg-type]
