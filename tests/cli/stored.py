"""Records that the command line's tests store: real configs of family mma for the preset H200."""

from im2wingen import ConvProblem
from im2wingen.db import TrialRecord
from im2wingen.families import FAMILIES
from im2wingen.render import plan_sources, sources_digest, template_digest
from im2wingen.target import preset

TARGET = preset("sm_90a")
PROBLEM = ConvProblem.parse("n8c16h12w12k32r3s3")
WORDS = ("n8c16h12w12k32r3s3", "--precision", "fp16", "--layout", "nhwc")


def stored(trial=0, median_us=50.0, **changes):
    """A measured record of PROBLEM with family mma's default config, which differs from others in its trial."""
    family = FAMILIES["mma"]
    config = family.default(PROBLEM, TARGET)
    fields = {
        "problem_key": PROBLEM.key, "family": "mma", "config": config.to_dict(), "config_digest": config.digest(),
        "template_digest": template_digest(family.templates),
        "source_digest": sources_digest(plan_sources(family.plan(PROBLEM, TARGET, config))),
        "outcome": "ok", "device_name": TARGET.name, "arch": TARGET.arch, "sm_count": 132, "driver_version": "580",
        "nvrtc_version": "13.0.88", "predicted": False, "median_us": median_us, "protocol_version": 1, "study": "s",
        "trial": trial, "created_at": "2025-11-03T09:30:00.000001+00:00",
    }  # fmt: skip
    return TrialRecord(**(fields | changes))
