"""The compiled kernels of a choice: from the cache where they are the recorded ones, else compiled here."""

import logging

from im2wingen.cache import CubinCache
from im2wingen.errors import CacheError, NotStoredError
from im2wingen.nvrtc import Cubin
from im2wingen.render import Source
from im2wingen.runtime.choice import Choice
from im2wingen.runtime.provenance import Origin

log = logging.getLogger(__name__)


def obtain_cubins(
    choice: Choice, arch: str, cache: CubinCache, *, may_compile: bool
) -> tuple[tuple[Cubin, ...], Origin]:
    """One cubin a launch, and whether all came from the cache.

    A cached cubin counts where its sha256 is the recorded one; where the choice has no record of this very problem, the
    cache's own check stands. Without `may_compile` a missing one is NotStoredError.
    """
    recorded: tuple[str | None, ...] = choice.recorded_sha256 or (None,) * len(choice.sources)
    cubins: list[Cubin] = []
    origin: Origin = "cache"
    for source, sha256 in zip(choice.sources, recorded, strict=True):
        cubin = _from_cache(cache, source, arch, sha256, strict=not may_compile)
        if cubin is None:
            cubin, origin = cache.compile(source, arch), "compiled"
        cubins.append(cubin)
    return tuple(cubins), origin


def _from_cache(cache: CubinCache, source: Source, arch: str, sha256: str | None, *, strict: bool) -> Cubin | None:
    try:
        cubin = cache.get(source, arch)
    except CacheError as error:
        if strict:
            raise
        log.warning("%s; compiling instead", error)
        return None
    if cubin is not None and sha256 in (None, cubin.sha256):
        return cubin
    what = "is not in" if cubin is None else "has another sha256 than recorded in"
    sentence = f"kernel {source.kernel} for {arch} {what} the kernel cache {cache.folder}"
    if strict:
        raise NotStoredError(f"{sentence}, and mode frozen never compiles; load it once in mode cache")
    log.info("%s; compiling", sentence)
    return None
