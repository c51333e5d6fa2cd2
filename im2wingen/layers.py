"""Layers with a name: the twelve of the im2win papers."""

IM2WIN_SUITE: dict[str, tuple[int, int, int, int, int, int, int]] = {
    # name: C, H, W, K, R, S, stride (no padding)
    "cv1": (3, 227, 227, 96, 11, 11, 4),
    "cv2": (3, 231, 231, 96, 11, 11, 4),
    "cv3": (3, 227, 227, 64, 7, 7, 2),
    "cv4": (64, 224, 224, 64, 7, 7, 2),
    "cv5": (96, 24, 24, 256, 5, 5, 1),
    "cv6": (256, 12, 12, 512, 3, 3, 1),
    "cv7": (3, 224, 224, 64, 3, 3, 1),
    "cv8": (64, 112, 112, 128, 3, 3, 1),
    "cv9": (64, 56, 56, 64, 3, 3, 1),
    "cv10": (128, 28, 28, 128, 3, 3, 1),
    "cv11": (256, 14, 14, 256, 3, 3, 1),
    "cv12": (512, 7, 7, 512, 3, 3, 1),
}
DEFAULT_BATCH = 128


def named_shape(name: str, batch: int = DEFAULT_BATCH) -> str | None:
    """The shape string of a named layer at `batch`, or None if the name is unknown."""
    layer = IM2WIN_SUITE.get(name.lower())
    if layer is None:
        return None
    c, h, w, k, r, s, stride = layer
    return f"n{batch}c{c}h{h}w{w}k{k}r{r}s{s}" + (f"st{stride}" if stride != 1 else "")
