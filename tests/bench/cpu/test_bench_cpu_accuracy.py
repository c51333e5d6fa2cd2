import numpy as np
import pytest
from cpu_sessions import session

from im2wingen.bench.cpu.accuracy import CpuReference
from im2wingen.bench.optional import PeerUnavailableError
from im2wingen.reference import conv_reference


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_first_middle_and_last_image_are_held_to_float64(layout: str) -> None:
    asked = session("n5c3h6w5k4r3s3", layout)
    reference = CpuReference.of(asked.problem, asked.arrays)
    assert reference.images == (0, 2, 4)
    y = conv_reference(asked.problem, asked.arrays.x, asked.arrays.w)
    error = reference.check(y.astype(np.float32))
    assert 0 < error.norm_error < 1e-7
    assert error.max_error < 1e-6
    y[4] += 0.01
    with pytest.raises(PeerUnavailableError, match="wrong result: norm-relative error"):
        reference.check(y.astype(np.float32))


def test_an_element_never_written_is_found_in_any_image() -> None:
    asked = session("n5c3h6w5k4r3s3")
    y = conv_reference(asked.problem, asked.arrays.x, asked.arrays.w).astype(np.float32)
    y[1, 2, 0, 3] = np.nan
    with pytest.raises(PeerUnavailableError, match="1 of 240 elements were not written, or are NaN"):
        CpuReference.of(asked.problem, asked.arrays).check(y)


def test_arrays_are_the_same_in_every_run() -> None:
    first, second = session("n1c8h5w6k8r3s3").arrays, session("n1c8h5w6k8r3s3").arrays
    assert (first.x == second.x).all()
    assert first.x.std() == pytest.approx(1.0, abs=0.2)
    assert first.w.std() == pytest.approx(72**-0.5, rel=0.1)
    assert np.isnan(first.y).all()
