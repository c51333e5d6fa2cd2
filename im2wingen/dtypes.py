"""The element types of x, w and y: their C++ and numpy storage types, and conversions between numbers and storage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.fp8 import FP8_FORMATS
from im2wingen.problem import OutputType, Precision

ElementType = Precision | OutputType

ELEMENT_CXX: dict[ElementType, str] = {
    "fp64": "double", "fp32": "float", "tf32": "float", "fp16": "__half", "bf16": "__nv_bfloat16", "int8": "int8_t",
    "int32": "int32_t", "e4m3": "__nv_fp8_e4m3", "e5m2": "__nv_fp8_e5m2",
}  # fmt: skip
STORAGE_DTYPE: dict[ElementType, np.dtype[Any]] = {
    "fp64": np.dtype(np.float64),
    "fp32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),  # numpy has no bfloat16: its bits
    "int8": np.dtype(np.int8),
    "int32": np.dtype(np.int32),
    "e4m3": np.dtype(np.uint8),  # the bits of what PyTorch calls float8_e4m3fn
    "e5m2": np.dtype(np.uint8),
}


def to_storage(values: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Numbers rounded to the nearest element (ties to even), in its storage dtype; NaN stays NaN, integers saturate.

    bf16 goes through fp32; from float64 that can round twice, at most one unit in fp32's last place off.
    """
    if element in FP8_FORMATS:
        return FP8_FORMATS[element].encode(values)
    if element in ("int8", "int32"):
        limits = np.iinfo(STORAGE_DTYPE[element])
        integers: NDArray[Any] = np.clip(np.rint(values), limits.min, limits.max).astype(STORAGE_DTYPE[element])
        return integers
    if element != "bf16":
        with np.errstate(over="ignore"):
            return values.astype(STORAGE_DTYPE[element])
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FFF), rounded)


def from_storage(stored: NDArray[Any], element: ElementType) -> NDArray[np.float64]:
    """The exact float64 numbers behind an array of storage dtype; float arrays of any other width pass as numbers."""
    if element == "bf16" and stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if element in FP8_FORMATS and stored.dtype == np.uint8:
        return FP8_FORMATS[element].decode(stored)
    return stored.astype(np.float64)
