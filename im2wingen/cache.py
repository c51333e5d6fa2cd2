"""Compiled kernels on disk: content-addressed, atomic, verified by sha256, shared by any number of processes."""

import contextlib
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from im2wingen.compilers import compile_kernel, compiler_digest
from im2wingen.errors import CacheError
from im2wingen.nvrtc import Cubin
from im2wingen.render import Source

log = logging.getLogger(__name__)

_DEFAULT_MAX_BYTES = 2 << 30
_FACTS = tuple(f for f in fields(Cubin) if f.name != "image")  # what the JSON file holds, with the image's sha256
_LEFTOVER_S = 3600.0  # a temporary file or a lone image of this age belongs to no writer any more
COMPILE_LIMIT_S = 120.0  # of a compiler that is a process of its own
_CHECKS_PER_CACHE = 16  # the size is looked at whenever this part of max_bytes was written


def cache_key(source: Source, arch: str) -> str:
    """sha256, in hex, of all that decides the image: text, kernel, arch, compiler, its options and headers."""
    return hashlib.sha256("\0".join((compiler_digest(arch), arch, source.kernel, source.text)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Entry:
    """The files of one key that are there, their size and when they were last used."""

    paths: tuple[Path, ...]
    size_bytes: int
    used_at: float
    complete: bool


class CubinCache:
    """Cubins under `folder`, which is made for the user alone (0700); the least recently used leave above `max_bytes`.

    A folder that belongs to someone else, or that others may write, is refused with CacheError.
    """

    def __init__(self, folder: Path, max_bytes: int = _DEFAULT_MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._unchecked_bytes = max_bytes  # the first put looks at the size

    def get(self, source: Source, arch: str) -> Cubin | None:
        """The stored cubin, or None; a damaged entry is removed and counts as not stored."""
        image_path, facts_path = self._paths(cache_key(source, arch))
        try:
            self._check_folder()
            facts, image = facts_path.read_bytes(), image_path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"the kernel cache {self.folder} can't be read: {error.strerror}") from error
        cubin = _cubin_from(facts, image)
        if cubin is None or (cubin.kernel, cubin.arch) != (source.kernel, arch):
            log.warning("removed a damaged entry of the kernel cache: %s", image_path)
            _remove((facts_path, image_path))
            return None
        with contextlib.suppress(OSError):  # a read-only cache still serves
            os.utime(image_path)
        return cubin

    def put(self, source: Source, cubin: Cubin) -> None:
        """Store the cubin of `source`; CacheError where the folder is unsafe, read-only or full (callers may go on)."""
        facts: dict[str, Any] = {f.name: getattr(cubin, f.name) for f in _FACTS}
        text = json.dumps(facts | {"sha256": cubin.sha256}, indent=1, sort_keys=True).encode()
        image_path, facts_path = self._paths(cache_key(source, cubin.arch))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            image_path.parent.mkdir(mode=0o700, exist_ok=True)
            _write(image_path, cubin.image)
            _write(facts_path, text)  # last: an image without it is not an entry
        except OSError as error:
            raise CacheError(f"the kernel cache {self.folder} can't be written: {error.strerror}") from error
        self._unchecked_bytes += len(cubin.image) + len(text)
        if self._unchecked_bytes * _CHECKS_PER_CACHE > self.max_bytes:
            self.gc()

    def get_or_compile(self, source: Source, arch: str) -> Cubin:
        """The stored cubin, else one compiled now and kept; a cache that can't be used only warns. CompileError."""
        try:
            cubin = self.get(source, arch)
        except CacheError as error:
            log.warning("%s; compiling instead", error)
            cubin = None
        return self.compile(source, arch) if cubin is None else cubin

    def compile(self, source: Source, arch: str) -> Cubin:
        """A cubin compiled now, whatever is stored, and kept where possible. CompileError, CompileTimeoutError."""
        cubin = compile_kernel(source, arch, limit_s=COMPILE_LIMIT_S)
        try:
            self.put(source, cubin)
        except CacheError as error:
            log.warning("%s; the kernel is used without being kept", error)
        return cubin

    def gc(self) -> int:
        """Remove leftovers, and the least recently used entries until max_bytes are kept; returns the bytes freed."""
        self._unchecked_bytes = 0
        try:
            self._check_folder()
            entries = self._entries()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise CacheError(f"the kernel cache {self.folder} can't be read: {error.strerror}") from error
        kept_bytes, freed_bytes = sum(entry.size_bytes for entry in entries), 0
        abandoned_before = time.time() - _LEFTOVER_S
        for entry in sorted(entries, key=lambda entry: (entry.complete, entry.used_at)):
            if kept_bytes > self.max_bytes if entry.complete else entry.used_at < abandoned_before:
                _remove(entry.paths)
                kept_bytes -= entry.size_bytes
                freed_bytes += entry.size_bytes
        return freed_bytes

    def _paths(self, key: str) -> tuple[Path, Path]:
        shard = self.folder / key[:2]
        return shard / f"{key}.cubin", shard / f"{key}.json"

    def _check_folder(self) -> None:
        """FileNotFoundError where there is no folder yet, CacheError where it can't be trusted."""
        found = self.folder.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise CacheError(f"the kernel cache {self.folder} is not a folder")
        if found.st_uid != os.geteuid():
            raise CacheError(f"the kernel cache {self.folder} belongs to another user (id {found.st_uid})")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CacheError(f"others may write to the kernel cache {self.folder}: chmod 700 it, or remove it")

    def _entries(self) -> list[_Entry]:
        files: dict[Path, list[tuple[Path, os.stat_result]]] = {}
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                status = path.stat()
                files.setdefault(path.with_suffix(""), []).append((path, status))
        return [
            _Entry(
                paths=tuple(sorted((path for path, _ in found), reverse=True)),  # .json goes first
                size_bytes=sum(status.st_size for _, status in found),
                used_at=max(status.st_mtime for _, status in found),
                complete={path.suffix for path, _ in found} == {".cubin", ".json"},
            )
            for found in files.values()
        ]


def _cubin_from(text: bytes, image: bytes) -> Cubin | None:
    """The cubin that the two files make, or None if they don't fit each other or the field types."""
    try:
        stored = json.loads(text)
    except ValueError:
        return None
    if not isinstance(stored, dict) or stored.pop("sha256", None) != hashlib.sha256(image).hexdigest():
        return None
    if set(stored) != {f.name for f in _FACTS} or any(type(stored[f.name]) is not f.type for f in _FACTS):
        return None
    return Cubin(image=image, **stored)


def _write(path: Path, content: bytes) -> None:
    """Put the whole content under `path` at once, or leave `path` as it was."""
    handle, name = tempfile.mkstemp(prefix="tmp-", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        _remove((Path(name),))
        raise


def _remove(paths: tuple[Path, ...]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
