"""The 8-bit floating-point formats: every bit pattern, rounding, overflow."""

import numpy as np
import pytest

from im2wingen.dtypes import from_storage, to_storage
from im2wingen.fp8 import FP8_FORMATS


@pytest.mark.parametrize(
    ("name", "bits", "number"),
    [
        ("e4m3", 0x00, 0.0), ("e4m3", 0x01, 2.0**-9), ("e4m3", 0x07, 7 * 2.0**-9), ("e4m3", 0x08, 2.0**-6),
        ("e4m3", 0x38, 1.0), ("e4m3", 0x7E, 448.0), ("e4m3", 0xFE, -448.0),
        ("e5m2", 0x01, 2.0**-16), ("e5m2", 0x03, 3 * 2.0**-16), ("e5m2", 0x04, 2.0**-14), ("e5m2", 0x3C, 1.0),
        ("e5m2", 0x7B, 57344.0), ("e5m2", 0x7C, np.inf), ("e5m2", 0xFC, -np.inf),
    ],
)  # fmt: skip
def test_numbers_of_the_specification(name: str, bits: int, number: float) -> None:
    assert FP8_FORMATS[name].decode(np.array([bits], np.uint8))[0] == number


@pytest.mark.parametrize(("name", "nans"), [("e4m3", {0x7F, 0xFF}), ("e5m2", {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF})])
def test_every_pattern_comes_back(name: str, nans: set[int]) -> None:
    bits = np.arange(256, dtype=np.uint8)
    numbers = FP8_FORMATS[name].decode(bits)
    assert set(np.flatnonzero(np.isnan(numbers))) == nans
    back = FP8_FORMATS[name].encode(numbers)
    np.testing.assert_array_equal(back[~np.isnan(numbers)], bits[~np.isnan(numbers)])
    assert (back[np.isnan(numbers)] & 0x7F == 0x7F).all()
    assert np.signbit(numbers[0x80])


@pytest.mark.parametrize(
    ("name", "value", "rounded"),
    [
        ("e4m3", 1.0625, 1.0), ("e4m3", 1.1875, 1.25), ("e4m3", 1.0626, 1.125), ("e4m3", -1.1875, -1.25),
        ("e4m3", 2.0**-10, 0.0), ("e4m3", 3 * 2.0**-10, 2.0**-8), ("e4m3", 464.0, 448.0), ("e4m3", 464.1, np.nan),
        ("e4m3", -np.inf, np.nan),
        ("e5m2", 1.125, 1.0), ("e5m2", 1.375, 1.5), ("e5m2", 61439.0, 57344.0), ("e5m2", 61440.0, np.inf),
        ("e5m2", -1e9, -np.inf), ("e5m2", np.nan, np.nan),
    ],
)  # fmt: skip
def test_rounding_to_nearest_even(name: str, value: float, rounded: float) -> None:
    format_ = FP8_FORMATS[name]
    np.testing.assert_array_equal(format_.decode(format_.encode(np.array([[value]]))), [[rounded]])


def test_int8_saturates() -> None:
    stored = to_storage(np.array([127.5, 128.0, -128.5, -300.0, 0.5, 1.5, -1.0]), "int8")
    np.testing.assert_array_equal(stored, np.array([127, 127, -128, -128, 0, 2, -1], np.int8))
    np.testing.assert_array_equal(from_storage(stored, "int8")[-1], -1.0)


def test_numbers_pass_as_numbers() -> None:
    np.testing.assert_array_equal(from_storage(np.array([0.3, 500.0]), "e4m3"), [0.3, 500.0])
