"""simt: how often shared memory must turn to serve a warp's loads."""


def wavefronts(starts: list[int], width: int, banks: int) -> int:
    """Turns of shared memory, which reads `banks` elements at once, for loads of `width` elements at `starts`."""
    together = max(1, banks // width)
    return sum(_conflicts(starts[i : i + together], width, banks) for i in range(0, len(starts), together))


def _conflicts(starts: list[int], width: int, banks: int) -> int:
    """Passes for loads of `width` elements at `starts`, which one pass would serve if their banks differ."""
    elements = {start + i for start in starts for i in range(width)}
    used = [element % banks for element in elements]
    return max(used.count(bank) for bank in set(used))
