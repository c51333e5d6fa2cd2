"""The element types of x, w and y: their C++ and numpy storage types, and conversions between numbers and storage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.problem import Precision

ELEMENT_CXX: dict[Precision, str] = {
    "fp64": "double", "fp32": "float", "tf32": "float", "fp16": "__half", "bf16": "__nv_bfloat16"
}  # fmt: skip
STORAGE_DTYPE: dict[Precision, np.dtype[Any]] = {
    "fp64": np.dtype(np.float64),
    "fp32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),  # numpy has no bfloat16: its bits
}


def to_storage(values: NDArray[Any], precision: Precision) -> NDArray[Any]:
    """Numbers rounded to the nearest element of `precision` (ties to even), in its storage dtype; NaN stays NaN.

    bf16 goes through fp32; from float64 that can round twice, at most one unit in fp32's last place off.
    """
    if precision != "bf16":
        with np.errstate(over="ignore"):
            return values.astype(STORAGE_DTYPE[precision])
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FFF), rounded)


def from_storage(stored: NDArray[Any], precision: Precision) -> NDArray[np.float64]:
    """The exact float64 numbers behind an array of storage dtype; float arrays of any other width pass as numbers."""
    if precision == "bf16" and stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)
