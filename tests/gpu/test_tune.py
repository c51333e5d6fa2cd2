"""One small layer tuned for real, end to end."""

import math
from pathlib import Path

import pytest

from im2wingen.db import LayeredRecords, TuningDatabase
from im2wingen.families import FAMILIES
from im2wingen.problem import ConvProblem
from im2wingen.render import template_digest
from im2wingen.tune import tune

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "precision", "layout"),
    [
        ("n16c64h28w28k96r3s3pad1", "fp16", "nhwc"),  # channels of 16 bytes, padding
        ("n8c3h40w40k32r5s5st2", "fp32", "nchw"),  # few channels, stride, CUDA cores
    ],
)
def test_a_small_layer_end_to_end(tmp_path: Path, shape: str, precision: str, layout: str) -> None:
    problem = ConvProblem.parse(shape, precision=precision, layout=layout)
    digests = {name: template_digest(family.templates) for name, family in FAMILIES.items()}
    with TuningDatabase.open(str(tmp_path / "tuning.sqlite")) as database:
        result = tune(problem, db=database, time_budget_s=60, max_trials=24)
        best = result.best
        assert best is not None
        assert best.outcome == "ok"
        assert best.play_off
        assert not best.predicted
        assert best.norm_error is not None
        assert best.norm_error < 1e-2
        assert best.driver_version
        assert result.default is not None
        assert result.gain is not None
        assert math.isfinite(result.gain)
        trials = [record for record in database.trials(result.study) if not record.play_off]
        assert len(trials) == result.trials == 24
        assert not [record for record in trials if record.outcome in ("wrong_result", "illegal_access")]
        device = result.target.name
        records = LayeredRecords((database,))
        stored = records.best(problem.key, arch=result.target.arch, device_name=device, template_digests=digests)
        assert stored == [best]

        more = tune(problem, db=database, time_budget_s=60, max_trials=6, resume=True)
        assert more.study == result.study
        assert more.restored == 24
        assert more.best is not None
        numbers = [record.trial for record in database.trials(more.study) if not record.play_off]
        assert numbers == list(range(30))
