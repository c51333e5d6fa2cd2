"""Arrays of the four layouts as NumPy sees them: in the logical order [N,C,H,W], and one image at a time.

CHWN8 is [ceil(N/8)][C][H][W][8]; what lies in the last block beyond the last image means nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from im2wingen.problem import BLOCK_IMAGES, Layout


def to_logical(stored: NDArray[Any], layout: Layout, n: int) -> NDArray[Any]:
    """`n` images of an array as it lies in memory, as [N,C,H,W]; a view where the layout lets it be one."""
    if layout == "nhwc":
        return stored.transpose(0, 3, 1, 2)
    if layout == "chwn":
        return stored.transpose(3, 0, 1, 2)
    if layout == "chwn8":
        blocks, c, h, w, together = stored.shape
        return stored.transpose(0, 4, 1, 2, 3).reshape(blocks * together, c, h, w)[:n]
    return stored


def to_stored(logical: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """[N,C,H,W] as it lies in memory, contiguous; zeros beyond the last image of CHWN8."""
    if layout == "nhwc":
        return np.ascontiguousarray(logical.transpose(0, 2, 3, 1))
    if layout == "chwn":
        return np.ascontiguousarray(logical.transpose(1, 2, 3, 0))
    if layout == "chwn8":
        n, *rest = logical.shape
        padded = np.zeros((-(-n // BLOCK_IMAGES) * BLOCK_IMAGES, *rest), logical.dtype)
        padded[:n] = logical
        blocks = padded.reshape(-1, BLOCK_IMAGES, *rest)
        return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1))
    return np.ascontiguousarray(logical)


def image_of(stored: NDArray[Any], layout: Layout, n: int) -> NDArray[Any]:
    """A view of image `n`: [H,W,C] of NHWC, else [C,H,W]."""
    if layout == "chwn":
        return stored[..., n]
    return stored[n // BLOCK_IMAGES, ..., n % BLOCK_IMAGES] if layout == "chwn8" else stored[n]
